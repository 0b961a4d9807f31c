"""Described settings: value, source, synonyms from the nearest to the default (asked of Apache Kafka 4.4.0)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.core.config.broker_alteration import SettingLayers, effective_broker_settings
from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.config.describing import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from moldau.core.config.setting import format_value

Texts = Mapping[str, str]


def made(broker: Texts, cluster: Texts, static: Texts) -> tuple[object, SettingLayers]:
    view = effective_broker_settings(parse_broker_settings(static), cluster, broker)[0]
    return view, SettingLayers(broker, cluster, static)


def topic_setting(
    name: str, own: Texts, broker: Texts | None = None, cluster: Texts | None = None, static: Texts | None = None
) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    view, layers = made(broker or {}, cluster or {}, static or {})
    described = describe_topic(own, view, layers)  # type: ignore[arg-type]
    return shown(next(item for item in described if item.name == name))


def shown(item: Described) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    return item.value, item.source, [(entry.name, entry.value, entry.source) for entry in item.synonyms]


def test_a_topic_setting_from_every_place() -> None:
    name, fallback = "max.message.bytes", "message.max.bytes"
    layers = {"broker": {fallback: "3"}, "cluster": {fallback: "4"}, "static": {fallback: "5"}}
    default = (fallback, "1048588", 5)
    assert topic_setting(name, {}) == ("1048588", 5, [default])
    assert topic_setting(name, {}, static=layers["static"]) == ("5", 4, [(fallback, "5", 4), default])
    assert topic_setting(name, {name: " 2 "}, **layers) == (
        "2",
        1,
        [(name, "2", 1), (fallback, "3", 2), (fallback, "4", 3), (fallback, "5", 4), default],
    )


def test_a_setting_in_another_unit_is_no_source() -> None:
    assert topic_setting("retention.ms", {}) == ("604800000", 5, [])
    assert topic_setting("retention.ms", {}, static={"log.retention.hours": "1"}) == ("3600000", 5, [])
    assert topic_setting("retention.ms", {}, cluster={"log.retention.ms": "100000"}) == (
        "100000",
        3,
        [("log.retention.ms", "100000", 3), ("log.retention.hours", "168", 5)],
    )


def test_the_hidden_topic_setting_is_shown_where_it_is_set() -> None:
    view, layers = made({}, {}, {})
    names = [item.name for item in describe_topic({}, view, layers)]  # type: ignore[arg-type]
    assert len(names) == 37
    assert names == sorted(names)
    assert topic_setting("internal.segment.bytes", {"internal.segment.bytes": "7"})[:2] == ("7", 1)


def test_lists_and_booleans_are_written_as_java_does() -> None:
    assert topic_setting("cleanup.policy", {"cleanup.policy": " delete , compact,delete"})[0] == "delete,compact"
    assert topic_setting("preallocate", {"preallocate": "TRUE"})[0] == "true"
    assert topic_setting("retention.ms", {"retention.ms": "not a number"})[0] == "not a number"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (9_999_999.0, "9999999.0"),
        (0.0001, "1.0E-4"),
        (-12345678.5, "-1.23456785E7"),
        (0.0, "0.0"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
        (True, "true"),
        (("a", "b", "a"), "a,b"),
        ((), ""),
        (None, None),
    ],
)
def test_values_as_text(value: float | bool | tuple[str, ...] | None, text: str | None) -> None:
    assert format_value(value) == text


def test_a_broker_shows_everything_public_and_what_was_set() -> None:
    static = {"node.id": "1", "super.users": "User:a", "num.io.threads": "4", "listener.name.a.ssl.key.password": "x"}
    view, layers = made({"num.io.threads": "6"}, {"nobody.knows": "1", "log.retention.ms": "5"}, static)
    items = {item.name: item for item in describe_broker(view, layers)}  # type: ignore[arg-type]
    kafka = [name for name in items if not name.startswith("moldau.")]
    assert len(kafka) == 350 + 3
    assert shown(items["num.io.threads"]) == (
        "6",
        2,
        [("num.io.threads", "6", 2), ("num.io.threads", "4", 4), ("num.io.threads", "8", 5)],
    )
    assert not items["num.io.threads"].is_read_only
    assert items["num.partitions"].is_read_only
    for secret, type_code in (("super.users", 0), ("nobody.knows", 0), ("listener.name.a.ssl.key.password", 9)):
        item = items[secret]
        assert (item.value, item.is_sensitive, item.is_read_only, item.type_code) == (None, True, True, type_code)
        assert [entry.value for entry in item.synonyms] == [None]
    assert shown(items["log.retention.hours"]) == ("168", 5, [("log.retention.hours", "168", 5)])
    assert shown(items["log.flush.interval.ms"]) == (None, 5, [])
    assert "internal.metadata.log.segment.bytes" not in items
    assert "leader.replication.throttled.rate" not in items


def test_the_broker_id_is_the_node_id() -> None:
    """Kafka's populateSynonyms: setting one of them sets both."""
    view, _ = made({}, {}, {"node.id": "7"})
    layers = SettingLayers({}, {}, {"node.id": "7", "broker.id": "7"})
    item = {item.name: item for item in describe_broker(view, layers)}["broker.id"]  # type: ignore[arg-type]
    assert shown(item) == ("7", 4, [("broker.id", "7", 4), ("broker.id", "-1", 5)])


def test_a_replication_rate_is_shown_once_it_is_set() -> None:
    view, layers = made({"leader.replication.throttled.rate": "100"}, {}, {})
    items = {item.name: item for item in describe_broker(view, layers)}  # type: ignore[arg-type]
    item = items["leader.replication.throttled.rate"]
    assert shown(item) == ("100", 2, [("leader.replication.throttled.rate", "100", 2)])
    assert not item.is_read_only


def test_cluster_defaults_are_only_what_was_set_for_all() -> None:
    _, layers = made({"num.io.threads": "6"}, {"min.insync.replicas": "1", "nobody": "x"}, {"min.insync.replicas": "1"})
    assert [shown(item) for item in describe_cluster_defaults(layers)] == [
        ("1", 3, [("min.insync.replicas", "1", 3)]),
        (None, 3, [("nobody", None, 3)]),
    ]


def test_groups_fall_back_to_the_broker() -> None:
    view, layers = made({}, {}, {"group.consumer.session.timeout.ms": "46000"})
    items = {item.name: item for item in describe_group({"share.isolation.level": "read_committed"}, view, layers)}  # type: ignore[arg-type]
    assert len(items) == 21
    assert shown(items["consumer.session.timeout.ms"]) == (
        "46000",
        4,
        [("group.consumer.session.timeout.ms", "46000", 4), ("group.consumer.session.timeout.ms", "45000", 5)],
    )
    assert shown(items["share.isolation.level"]) == (
        "read_committed",
        8,
        [("share.isolation.level", "read_committed", 8), ("share.isolation.level", "read_uncommitted", 5)],
    )


def test_the_hidden_group_settings_are_shown_where_they_are_set() -> None:
    view, layers = made({}, {}, {})
    items = {item.name: item for item in describe_group({"streams.num.warmup.replicas": "4"}, view, layers)}  # type: ignore[arg-type]
    assert len(items) == 22
    assert shown(items["streams.num.warmup.replicas"]) == (
        "4",
        8,
        [("streams.num.warmup.replicas", "4", 8), ("group.streams.num.warmup.replicas", "2", 5)],
    )


def test_client_metrics_fall_back_to_nothing() -> None:
    items = [shown(item) for item in describe_client_metrics({"interval.ms": "100"})]
    assert items == [("100", 7, [("interval.ms", "100", 7)]), ("", 5, []), ("", 5, [])]


@pytest.mark.parametrize(("length", "is_shown"), [(32_767, True), (32_768, False)])
def test_a_value_that_no_answer_can_hold_is_null(length: int, is_shown: bool) -> None:
    """Apache Kafka answers the whole DescribeConfigs with -1."""
    text = "x" * length
    view, layers = made({}, {}, {"ssl.cipher.suites": text})
    found = next(item for item in describe_broker(view, layers) if item.name == "ssl.cipher.suites")  # type: ignore[arg-type]
    value = text if is_shown else None
    assert shown(found) == (value, 4, [("ssl.cipher.suites", value, 4), ("ssl.cipher.suites", "", 5)])
