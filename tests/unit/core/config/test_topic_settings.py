"""Topic settings: Kafka's messages (asked of Apache Kafka 4.3.1), and a topic's effective settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.config.setting import HONOURED, check_value, parse_value
from moldau.core.config.topic_setting_rows import TOPIC_SETTING_ROWS
from moldau.core.config.topic_settings import (
    ROWS_BY_NAME,
    describe_topic_settings,
    internal_topic_settings,
    log_settings,
    validate_topic_settings,
)
from moldau.core.log.settings import LogSettings
from moldau.errors import KafkaError

DEFAULTS = parse_broker_settings({})
READ_ELSEWHERE = (
    *("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    *("internal.segment.bytes", "min.insync.replicas", "unclean.leader.election.enable"),
    *("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"),
)
"""Effective settings that are not fields of the view: the first five become other fields, replicas and controller read
the last four."""

REFUSALS = [
    ("foo.bar", "1", "Unknown topic config name: foo.bar"),
    ("Segment.bytes", "1", "Unknown topic config name: Segment.bytes"),
    ("message.format.version", "3.0", "Unknown topic config name: message.format.version"),
    ("segment.bytes", "abc", "Invalid value abc for configuration segment.bytes: Not a number of type INT"),
    ("segment.bytes", "10", "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
    ("segment.bytes", None, "Null value not supported for topic configs: segment.bytes"),
    ("segment.bytes", "", "Invalid value  for configuration segment.bytes: Not a number of type INT"),
    ("segment.bytes", "1048576.0", "Invalid value 1048576.0 for configuration segment.bytes: Not a number of type INT"),
    ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    (
        "retention.ms",
        "9223372036854775808",
        "Invalid value 9223372036854775808 for configuration retention.ms: Not a number of type LONG",
    ),
    (
        "preallocate",
        "yes",
        "Invalid value yes for configuration preallocate: Expected value to be either true or false",
    ),
    ("cleanup.policy", "x", "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete"),
    (
        "min.cleanable.dirty.ratio",
        "2147483648",
        "Invalid value 2.147483648E9 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
    ),
    ("cleanup.policy", ",", "Configuration 'cleanup.policy' values must not be empty."),
    (
        "compression.type",
        "GZIP",
        "Invalid value GZIP for configuration compression.type: "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (
        "compression.gzip.level",
        "0",
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
    ),
    (
        "compression.zstd.level",
        "23",
        "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22",
    ),
    (
        "min.cleanable.dirty.ratio",
        "1.5",
        "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
    ),
    (
        "min.cleanable.dirty.ratio",
        "x",
        "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
    ),
    (
        "leader.replication.throttled.replicas",
        "x",
        "Invalid value [x] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
    (
        "remote.storage.enable",
        "true",
        "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
    ),
    ("max.message.bytes", "-1", "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"),
    ("min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), REFUSALS)
def test_a_wrong_topic_setting_gets_kafkas_sentence(name: str, text: str | None, sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_settings({name: text}, DEFAULTS)
    assert (caught.value.code, caught.value.message) == (40, sentence)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("segment.bytes", " 1048576 "),
        ("segment.bytes", "+1048576"),
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("retention.bytes", "-7"),
        ("min.insync.replicas", "3"),
        ("internal.segment.bytes", "100"),
        ("compression.type", "producer"),
        ("preallocate", " FALSE "),
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("min.compaction.lag.ms", "10"),
        ("local.retention.ms", "-2"),
    ],
)
def test_what_kafka_takes_and_what_is_in_force_anyway_is_taken(name: str, text: str) -> None:
    validate_topic_settings({name: text}, DEFAULTS)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_an_internal_topic_may_carry_what_kafka_creates_it_with(topic: str) -> None:
    settings = internal_topic_settings(topic, DEFAULTS, 3)
    validate_topic_settings(dict(settings), DEFAULTS)
    assert log_settings(settings, DEFAULTS).segment_bytes == 104_857_600


def test_the_view_has_a_field_for_every_acting_setting_and_kafkas_defaults() -> None:
    defaults = {
        name.replace(".", "_"): parse_value(name, kind, default)
        for name, kind, default, _, _, served, _ in TOPIC_SETTING_ROWS
        if served == HONOURED and default is not None and name not in READ_ELSEWHERE
    }
    assert {name: getattr(LogSettings(), name) for name in defaults} == defaults
    assert log_settings({}, DEFAULTS) == LogSettings()


@pytest.mark.parametrize("overrides", [{}, {"max.decompressed.message.bytes": "9"}])
def test_a_bound_on_decompressed_records_has_compressed_batches_read(overrides: dict[str, str]) -> None:
    assert log_settings(overrides, DEFAULTS).is_compressed_validated == bool(overrides)
    broker = parse_broker_settings({"max.decompressed.message.bytes": "9"})
    assert log_settings(overrides, broker).is_compressed_validated


def test_a_topic_falls_back_on_its_broker() -> None:
    broker = parse_broker_settings(
        {
            "log.retention.minutes": "2",
            "log.roll.hours": "1",
            "log.roll.jitter.ms": "5",
            "log.flush.scheduler.interval.ms": "9",
            "message.max.bytes": "2000",
            "log.segment.bytes": "2097152",
            "log.message.timestamp.type": "LogAppendTime",
        }
    )
    settings = log_settings({"segment.bytes": "1048576", "retention.bytes": "77"}, broker)
    assert settings.retention_ms == 120_000
    assert settings.segment_ms == 3_600_000
    assert settings.segment_jitter_ms == 5
    assert settings.flush_ms == 9
    assert settings.max_message_bytes == 2_000
    assert settings.segment_bytes == 1_048_576
    assert settings.retention_bytes == 77
    assert settings.message_timestamp_type == "LogAppendTime"


def test_the_hidden_segment_size_overrides_the_public_one() -> None:
    settings = log_settings({"internal.segment.bytes": "100", "segment.bytes": "1048576"}, DEFAULTS)
    assert settings.segment_bytes == 100


@given(st.dictionaries(st.sampled_from(sorted(ROWS_BY_NAME)) | st.text(max_size=5), st.text(max_size=8)))
def test_whatever_a_metadata_log_holds_gives_settings_in_range(overrides: dict[str, str]) -> None:
    settings = log_settings(overrides, DEFAULTS)
    for name, kind, _, valid, _, served, _ in TOPIC_SETTING_ROWS:
        if name == "segment.bytes" and "internal.segment.bytes" in overrides:
            assert settings.segment_bytes >= 1
        elif served == HONOURED and name not in READ_ELSEWHERE:
            value = getattr(settings, name.replace(".", "_"))
            check_value(name, valid, value)
            assert isinstance(value, {"list": tuple, "string": str, "double": float}.get(kind, int))


def test_a_described_topic_says_where_each_value_comes_from() -> None:
    broker = parse_broker_settings({"log.retention.hours": "1"})
    described = describe_topic_settings({"segment.bytes": " 1048576 "}, broker, {"min.insync.replicas": "1"})
    assert len(described) == 37
    assert [setting.name for setting in described] == sorted(setting.name for setting in described)
    found = {setting.name: (setting.value, setting.source) for setting in described}
    assert found["segment.bytes"] == (" 1048576 ", 1)
    assert found["min.insync.replicas"] == ("1", 3)
    assert found["retention.ms"] == ("3600000", 4)
    assert found["cleanup.policy"] == ("delete", 5)


@pytest.mark.parametrize("text", ["", ",", "*", "0:1,1:2"])
def test_throttled_replicas(text: str) -> None:
    validate_topic_settings({"leader.replication.throttled.replicas": text}, DEFAULTS)


def test_a_creation_shows_the_hidden_setting_where_it_was_given() -> None:
    shown = {item.name: item for item in describe_topic_settings({"internal.segment.bytes": "7"}, DEFAULTS, {})}
    assert (shown["internal.segment.bytes"].value, shown["internal.segment.bytes"].source) == ("7", 1)
    assert len(describe_topic_settings({}, DEFAULTS, {})) == 37


def test_a_creation_names_the_nearest_source() -> None:
    layers = ({"message.max.bytes": "4"}, {"message.max.bytes": "3"})
    shown = {item.name: item for item in describe_topic_settings({}, DEFAULTS, *layers)}
    assert (shown["max.message.bytes"].value, shown["max.message.bytes"].source) == ("3", 2)
    shown = {item.name: item for item in describe_topic_settings({}, DEFAULTS, layers[0])}
    assert (shown["max.message.bytes"].value, shown["max.message.bytes"].source) == ("4", 3)
