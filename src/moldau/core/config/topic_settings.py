"""The settings of a topic over the defaults of the broker.

`validate_topic_settings` checks the settings in a request, with Kafka's messages. `log_settings` gives the typed view
for a log. It accepts any stored text, because Apache Kafka may have written it, and never raises.
`describe_topic_settings` lists all settings with their sources for CreateTopics v5+. DescribeConfigs has more, see
describing.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.setting import (
    HONOURED,
    SettingValue,
    Source,
    TopicSettingRow,
    check_value,
    invalid_config,
    parse_value,
)
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS
from moldau.core.log.settings import LogSettings
from moldau.errors import KafkaError
from moldau.wire.records.compression import Compression, compression_from_name
from moldau.wire.records.record import NO_RECORD_LIMIT
from moldau.wire.records.rewrite import TargetCompression

ROWS_BY_NAME: dict[str, TopicSettingRow] = {row[0]: row for row in TOPIC_SETTING_ROWS}

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC)

LZ4_DEFAULT_LEVEL = 9
"""At this level Kafka uses its fast compressor, at any other level LZ4 HC."""
HIDDEN_TOPIC_SETTING = "internal.segment.bytes"
"""Kafka's setting for tiny segments in tests: accepted, and described only if set."""


class DescribedSetting(msgspec.Struct, frozen=True):
    """One setting as CreateTopics v5+ and DescribeConfigs show it. `source` is Kafka's ConfigSource."""

    name: str
    value: str
    source: int


def validate_topic_settings(requested: Mapping[str, str | None], broker: BrokerSettings) -> None:
    """Raises error 40 with Kafka's message for the first fault. For a repeated name the caller keeps the last value.

    `requested`: all settings of the topic itself.
    """
    nulls = [name for name, text in requested.items() if text is None]
    if nulls:
        raise invalid_config(f"Null value not supported for topic configs: {','.join(nulls)}")
    for name in requested:
        if name not in ROWS_BY_NAME:
            raise invalid_config(f"Unknown topic config name: {name}")
    for name, text in requested.items():
        if text is not None:
            value = parse_value(name, ROWS_BY_NAME[name][1], text)
            check_value(name, ROWS_BY_NAME[name][3], value)
    _check_lags(requested, broker)
    if parse_value("remote.storage.enable", "boolean", requested.get("remote.storage.enable") or "false"):
        raise invalid_config(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def validate_inherited_settings(broker: BrokerSettings) -> None:
    """Raises error 40 if `broker` gives topics a default that no topic may have.

    Apache Kafka accepts such a change (`log.flush.interval.ms=-5`), and then rejects every topic.
    """
    for name, row in ROWS_BY_NAME.items():
        text = inherited_text(name, broker)
        if text is not None:
            check_value(name, row[3], parse_value(name, row[1], text))
    _check_lags({}, broker)


def _check_lags(requested: Mapping[str, str | None], broker: BrokerSettings) -> None:
    low, high = (_number(name, requested, broker) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if low > high:
        raise invalid_config(
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})"
        )


def _number(name: str, requested: Mapping[str, str | None], broker: BrokerSettings) -> int:
    text = requested.get(name) or inherited_text(name, broker) or ROWS_BY_NAME[name][2] or "0"
    return int(text.strip())


def inherited_text(name: str, broker: BrokerSettings) -> str | None:
    """The broker's value for the topic setting `name`, as text; None if the topic setting has its own default."""
    synonyms = ROWS_BY_NAME[name][4]
    if broker.texts.keys().isdisjoint(synonyms):
        return None
    converted = {
        "retention.ms": broker.retention_ms,
        "segment.ms": broker.roll_ms,
        "segment.jitter.ms": broker.roll_jitter_ms,
        "flush.ms": broker.flush_interval_ms,
    }
    if name in converted:
        return str(converted[name])
    return broker.texts[synonyms[0]]


def log_settings(overrides: Mapping[str, str], broker: BrokerSettings) -> LogSettings:
    """The settings of a topic's logs: of the topic, else of the broker, else the default. Also the broker settings that
    apply to every log.

    A malformed text counts as not set. Unknown names are ignored.
    """
    values: dict[str, object] = {}
    for name, kind, _, _, _, served, _ in TOPIC_SETTING_ROWS:
        if served != HONOURED:
            continue
        text = overrides.get(name)
        value = None if text is None else _value_or_none(name, kind, text)
        if value is None:
            inherited = inherited_text(name, broker)
            value = None if inherited is None else _value_or_none(name, kind, inherited)
        if value is not None:
            values[name.replace(".", "_")] = value
    hidden_segment_bytes = values.get(HIDDEN_TOPIC_SETTING.replace(".", "_"))
    if isinstance(hidden_segment_bytes, int) and hidden_segment_bytes > 0:
        values["segment_bytes"] = hidden_segment_bytes
    return msgspec.structs.replace(
        msgspec.convert(values, LogSettings),
        target_compression=_target_compression(values),
        producer_id_expiration_ms=broker.producer_id_expiration_ms,
        max_producer_ids=broker.moldau_producer_ids,
        is_transaction_verified=broker.transaction_partition_verification_enable,
        is_record_validation_full=broker.moldau_record_validation == "full",
        # the size of a single record is known only after the batch is decompressed
        is_compressed_validated=broker.moldau_record_validation == "compressed"
        or values.get("max_decompressed_message_bytes", NO_RECORD_LIMIT) != NO_RECORD_LIMIT,
    )


def _target_compression(values: Mapping[str, object]) -> TargetCompression | None:
    """The codec of `compression.type` with its level; None: keep the producer's codec."""
    name = str(values.get("compression_type", "producer"))
    if name == "producer":
        return None
    if name == "uncompressed":
        return TargetCompression(Compression.NONE)
    level = values.get(f"compression_{name}_level")
    if name == "lz4" and level == LZ4_DEFAULT_LEVEL:
        level = None
    return TargetCompression(compression_from_name(name), level if isinstance(level, int) else None)


def _value_or_none(name: str, kind: str, text: str) -> SettingValue:
    try:
        value = parse_value(name, kind, text)
        check_value(name, ROWS_BY_NAME[name][3], value)
    except KafkaError:
        return None
    return value


def describe_topic_settings(
    overrides: Mapping[str, str],
    broker: BrokerSettings,
    cluster_defaults: Mapping[str, str],
    broker_configs: Mapping[str, str] | None = None,
) -> tuple[DescribedSetting, ...]:
    """All public settings of a topic, sorted by name, with their sources.

    `cluster_defaults`: the dynamic settings for all brokers (a new cluster has `min.insync.replicas=1`).
    `broker_configs`: those of one broker. `broker`: the settings at the start.
    """
    dynamic = ((broker_configs or {}, Source.BROKER), (cluster_defaults, Source.CLUSTER_DEFAULT))
    return tuple(
        _describe(name, overrides, broker, dynamic)
        for name in sorted(ROWS_BY_NAME)
        if name != HIDDEN_TOPIC_SETTING or name in overrides
    )


def _describe(
    name: str,
    overrides: Mapping[str, str],
    broker: BrokerSettings,
    dynamic: tuple[tuple[Mapping[str, str], int], ...],
) -> DescribedSetting:
    if name in overrides:
        return DescribedSetting(name, overrides[name], Source.TOPIC)
    synonyms = ROWS_BY_NAME[name][4]
    for texts, source in dynamic:
        if synonyms and synonyms[0] in texts:
            return DescribedSetting(name, texts[synonyms[0]], source)
    inherited = inherited_text(name, broker)
    if inherited is not None:
        return DescribedSetting(name, inherited, Source.STATIC_FILE)
    return DescribedSetting(name, ROWS_BY_NAME[name][2] or "", Source.DEFAULT)


INTERNAL_TOPIC_POLICIES: dict[str, dict[str, str]] = {
    OFFSETS_TOPIC: {"cleanup.policy": "compact", "compression.type": "producer"},
    TRANSACTION_STATE_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "unclean.leader.election.enable": "false",
    },
    SHARE_STATE_TOPIC: {"cleanup.policy": "delete", "compression.type": "producer"},
}
"""The fixed settings of internal topics, which no broker setting changes."""


def internal_topic_settings(topic: str, broker: BrokerSettings, replication_factor: int) -> dict[str, str]:
    """The settings of an internal topic with this number of replicas. KeyError for another topic.

    A default of `min.insync.replicas` never exceeds the replicas, because no client could write then.
    """
    settings = dict(INTERNAL_TOPIC_POLICIES[topic])
    if topic == OFFSETS_TOPIC:
        settings["segment.bytes"] = str(broker.offsets_topic_segment_bytes)
    elif topic == SHARE_STATE_TOPIC:
        settings["segment.bytes"] = str(broker.get("share.coordinator.state.topic.segment.bytes"))
    else:
        in_sync = broker.transaction_state_log_min_isr
        if "transaction.state.log.min.isr" not in broker.texts:
            in_sync = min(in_sync, replication_factor)
        settings["min.insync.replicas"] = str(in_sync)
        settings["segment.bytes"] = str(broker.transaction_state_log_segment_bytes)
    return settings
