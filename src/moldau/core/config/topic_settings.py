"""What a topic is told: Kafka's topic settings over the broker's defaults.

`validate_topic_settings` judges what a client asks for, with Kafka's sentences. `effective_topic_settings` gives the
typed view a log works by; it takes whatever a metadata log may hold (Apache Kafka may have written it), so it never
raises. `describe_topic_settings` lists all of them with their sources, as CreateTopics v5+ answers (DescribeConfigs
says more: describing.py).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.setting import (
    HONOURED,
    SettingValue,
    TopicSettingRow,
    check_value,
    invalid_config,
    parse_value,
)
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS
from moldau.errors import KafkaError

ROWS_BY_NAME: dict[str, TopicSettingRow] = {row[0]: row for row in TOPIC_SETTING_ROWS}

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC)

SOURCE_TOPIC = 1
SOURCE_BROKER = 2
SOURCE_CLUSTER_DEFAULT = 3
SOURCE_STATIC_FILE = 4
SOURCE_DEFAULT = 5

HIDDEN_TOPIC_SETTING = "internal.segment.bytes"
"""Kafka's way to make tiny segments in tests: taken, and described only where it is set."""


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every topic setting that acts, by its name with "_" for "."; times in ms. Defaults are Kafka's."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    """"delete", "compact", both, or none: keep for ever."""
    delete_retention_ms: int = 86_400_000
    max_compaction_lag_ms: int = (1 << 63) - 1
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4_096
    retention_ms: int = 604_800_000
    """-1: no bound."""
    retention_bytes: int = -1
    """Below 0: no bound."""
    flush_messages: int = (1 << 63) - 1
    flush_ms: int = (1 << 63) - 1
    max_message_bytes: int = 1_048_588
    file_delete_delay_ms: int = 60_000
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = (1 << 63) - 1
    message_timestamp_after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1


class DescribedSetting(msgspec.Struct, frozen=True):
    """One setting as CreateTopics v5+ and DescribeConfigs show it. `source` is Kafka's ConfigSource."""

    name: str
    value: str
    source: int
    is_read_only: bool = False
    is_sensitive: bool = False


def validate_topic_settings(topic: str, requested: Mapping[str, str | None], broker: BrokerSettings) -> None:
    """Raises error 40 with Kafka's sentence for the first thing wrong; of a name given twice the caller keeps the last.

    `requested` is everything that the topic will have of its own.
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
    """Raises error 40 if `broker` gives topics without settings of their own a value that no topic may have.

    Apache Kafka takes such a change (`log.flush.interval.ms=-5`), and then refuses every topic.
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
    """What the broker says for the topic setting `name`, as text; None if its own default counts."""
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


def effective_topic_settings(overrides: Mapping[str, str], broker: BrokerSettings) -> TopicSettings:
    """The settings a topic works by: its own, else the broker's, else the default.

    A text that is no value of its setting counts as not set. Names that are not known are passed over.
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
    hidden_segment_bytes = values.pop(HIDDEN_TOPIC_SETTING.replace(".", "_"), None)
    if isinstance(hidden_segment_bytes, int) and hidden_segment_bytes > 0:
        values["segment_bytes"] = hidden_segment_bytes
    return msgspec.convert(values, TopicSettings)


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
    """All public settings of a topic, sorted by name, with where each value comes from.

    `cluster_defaults` are the dynamic defaults of all brokers in the metadata log (a fresh cluster has
    `min.insync.replicas=1`), `broker_configs` those of one broker; `broker` is what was set at the start.
    """
    dynamic = ((broker_configs or {}, SOURCE_BROKER), (cluster_defaults, SOURCE_CLUSTER_DEFAULT))
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
        return DescribedSetting(name, overrides[name], SOURCE_TOPIC)
    synonyms = ROWS_BY_NAME[name][4]
    for texts, source in dynamic:
        if synonyms and synonyms[0] in texts:
            return DescribedSetting(name, texts[synonyms[0]], source)
    inherited = inherited_text(name, broker)
    if inherited is not None:
        return DescribedSetting(name, inherited, SOURCE_STATIC_FILE)
    return DescribedSetting(name, ROWS_BY_NAME[name][2] or "", SOURCE_DEFAULT)


def internal_topic_settings(topic: str, broker: BrokerSettings) -> dict[str, str]:
    """What Kafka creates an internal topic with. KeyError for any other topic."""
    return {
        OFFSETS_TOPIC: {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(broker.offsets_topic_segment_bytes),
        },
        TRANSACTION_STATE_TOPIC: {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": str(broker.get("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        },
        SHARE_STATE_TOPIC: {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(broker.get("share.coordinator.state.topic.segment.bytes")),
        },
    }[topic]
