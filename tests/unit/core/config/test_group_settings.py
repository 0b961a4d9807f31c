"""Settings of groups and of client metrics subscriptions: Kafka's messages and codes (asked of 4.4.0)."""

from __future__ import annotations

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.config.group_setting_rows import GROUP_SETTING_ROWS
from moldau.core.config.group_settings import validate_client_metrics, validate_group_settings
from moldau.errors import KafkaError

DEFAULTS = parse_broker_settings({})
RESET = (
    "Invalid value {0} for configuration share.auto.offset.reset: Invalid value `{0}` for configuration "
    "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
    "'by_duration:<PnDTnHnMn.nS>'."
)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nope", "1", "Unknown group config name: nope"),
        (
            "consumer.session.timeout.ms",
            "1",
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "consumer.session.timeout.ms",
            "70000",
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "share.delivery.count.limit",
            "1",
            "Invalid value 1 for configuration share.delivery.count.limit: Value must be at least 2",
        ),
        ("streams.num.standby.replicas", "3", "streams.num.standby.replicas must be less than or equal to 2"),
        ("streams.num.warmup.replicas", "21", "streams.num.warmup.replicas must be less than or equal to 20"),
        (
            "streams.task.offset.interval.ms",
            "100",
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        (
            "errors.deadletterqueue.topic.name",
            "__consumer_offsets",
            "errors.deadletterqueue.topic.name: DLQ topic name must not start with '__'",
        ),
        (
            "streams.assignor.name",
            "nope",
            "streams.assignor.name 'nope' is not a registered task assignor. Registered assignors are: [sticky].",
        ),
        (
            "streams.rack.aware.assignment.tags",
            "a,a",
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
        ),
        (
            "streams.rack.aware.assignment.tags",
            "a,,b",
            "Configuration 'streams.rack.aware.assignment.tags' values must not be empty.",
        ),
        ("share.auto.offset.reset", "bogus", RESET.format("bogus")),
        ("share.auto.offset.reset", "by_duration:", RESET.format("by_duration:")),
        ("share.auto.offset.reset", "by_duration:P", RESET.format("by_duration:P")),
        ("share.auto.offset.reset", "by_duration:-P1D", RESET.format("by_duration:-P1D")),
    ],
)
def test_an_impossible_group_setting(name: str, text: str, message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_group_settings({name: text}, DEFAULTS)
    assert (caught.value.code, caught.value.message) == (40, message)


def test_every_default_is_possible() -> None:
    validate_group_settings({row[0]: row[2] or "" for row in GROUP_SETTING_ROWS}, DEFAULTS)


@pytest.mark.parametrize("text", ["earliest", "by_duration:P1D", "by_duration:PT1H30M", "by_duration:P1DT0.5S"])
def test_offset_resets(text: str) -> None:
    validate_group_settings({"share.auto.offset.reset": text}, DEFAULTS)


def test_a_session_outlives_a_heartbeat() -> None:
    low = parse_broker_settings({"group.consumer.min.session.timeout.ms": "6000"})
    with pytest.raises(KafkaError, match=r"must be greater than consumer\.heartbeat"):
        validate_group_settings({"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "6000"}, low)


@pytest.mark.parametrize(
    ("name", "text", "code", "message"),
    [
        ("nope", "1", 42, "Unknown client metrics configuration: nope"),
        (
            "interval.ms",
            "99",
            42,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ("interval.ms", "x", 40, "Invalid value x for configuration interval.ms: Not a number of type INT"),
        ("match", "bogus=a", 40, "Illegal client matching pattern: bogus=a"),
        ("match", "client_id", 40, "Illegal client matching pattern: client_id"),
        ("match", "client_id=a,client_id=[", 40, "Illegal client matching pattern: client_id=["),
    ],
)
def test_an_impossible_subscription(name: str, text: str, code: int, message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_client_metrics({name: text})
    assert (caught.value.code, caught.value.message) == (code, message)


def test_a_subscription() -> None:
    validate_client_metrics({"interval.ms": "100", "match": "client_id=a.*, client_source_port=1", "metrics": "*"})
    validate_client_metrics({"match": ""})
