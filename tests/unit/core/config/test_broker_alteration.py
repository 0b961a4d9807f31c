"""Broker settings that change while a broker runs: which layer has priority, and what Kafka rejects (asked of
4.3.1)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.config.broker_alteration import (
    SettingLayers,
    base_name,
    check_broker_alteration,
    effective_broker_settings,
    is_dynamic,
    synonyms_of,
)
from moldau.core.config.broker_settings import BROKER_SETTING_ROWS, BrokerSettings, parse_broker_settings
from moldau.core.config.setting import CLUSTER_WIDE, HONOURED
from moldau.errors import KafkaError

STATIC = parse_broker_settings({"log.retention.hours": "1"})


def view(cluster: Mapping[str, str], broker: Mapping[str, str], static: BrokerSettings = STATIC) -> BrokerSettings:
    return effective_broker_settings(static, cluster, broker)[0]


def alter(changes: Mapping[str, str], *, is_cluster_wide: bool = False) -> None:
    layers = SettingLayers({} if is_cluster_wide else changes, changes if is_cluster_wide else {}, STATIC.texts)
    check_broker_alteration(STATIC, layers, changes, is_cluster_wide=is_cluster_wide)


def test_the_nearest_layer_counts() -> None:
    assert view({}, {}) is STATIC
    assert view({"log.retention.ms": "5"}, {}).retention_ms == 5
    assert view({"log.retention.ms": "5"}, {"log.retention.ms": "7"}).retention_ms == 7
    assert view({}, {}).retention_ms == 3_600_000


@given(
    cluster=st.dictionaries(st.sampled_from(["message.max.bytes", "log.segment.bytes"]), st.integers(1 << 20, 1 << 30)),
    broker=st.dictionaries(st.sampled_from(["message.max.bytes", "log.segment.bytes"]), st.integers(1 << 20, 1 << 30)),
)
def test_broker_before_cluster_before_start(cluster: dict[str, int], broker: dict[str, int]) -> None:
    made = view({k: str(v) for k, v in cluster.items()}, {k: str(v) for k, v in broker.items()})
    assert made.message_max_bytes == broker.get("message.max.bytes", cluster.get("message.max.bytes", 1_048_588))
    assert made.log_segment_bytes == broker.get("log.segment.bytes", cluster.get("log.segment.bytes", 1 << 30))


def test_what_another_program_wrote_is_passed_over_and_told() -> None:
    """An impossible value, a setting that is not dynamic, and two that contradict each other."""
    made, notices = effective_broker_settings(STATIC, {"message.max.bytes": "x", "log.segment.bytes": "2097152"}, {})
    assert (made.message_max_bytes, made.log_segment_bytes) == (1_048_588, 2_097_152)
    assert len(notices) == 1
    assert "message.max.bytes" in notices[0]
    assert view({"num.partitions": "9"}, {"listeners": "PLAINTEXT://:1"}) is STATIC
    made, notices = effective_broker_settings(STATIC, {"log.retention.ms": "0"}, {})
    assert made is STATIC
    assert len(notices) == 1


def test_one_setting_that_fits_no_more_leaves_the_others_in_force() -> None:
    """A directory left `log.dirs` while the broker was down, but is still named as cordoned."""
    static = parse_broker_settings({"log.dirs": "/a"})
    cluster = {"log.retention.ms": "2592000000"}
    broker = {"cordoned.log.dirs": "/b", "message.max.bytes": "5000000"}
    made, notices = effective_broker_settings(static, cluster, broker)
    assert (made.retention_ms, made.message_max_bytes, made.cordoned_log_dirs) == (2_592_000_000, 5_000_000, ())
    assert notices == ("the stored value of cordoned.log.dirs is ignored: cordoned.log.dirs: /b is not in log.dirs",)


def test_what_is_stored_and_fits_no_more_refuses_no_other_change() -> None:
    static = parse_broker_settings({"log.dirs": "/a"})
    stored = {"cordoned.log.dirs": "/b"}

    def change(changes: Mapping[str, str]) -> None:
        layers = SettingLayers({**stored, **changes}, {}, static.texts)
        check_broker_alteration(static, layers, changes, is_cluster_wide=False)

    change({"message.max.bytes": "6000000"})
    change({"cordoned.log.dirs": "/a"})
    with pytest.raises(KafkaError, match=r"/c is not in log\.dirs"):
        change({"cordoned.log.dirs": "/c"})
    wide = {"max.connections": "100"}
    check_broker_alteration(static, SettingLayers(stored, wide, static.texts), wide, is_cluster_wide=True)
    zero = {"log.retention.ms": "0"}
    with pytest.raises(KafkaError, match=r"log\.retention\.ms"):
        check_broker_alteration(static, SettingLayers(stored, zero, static.texts), zero, is_cluster_wide=True)


@given(st.dictionaries(st.sampled_from([row[0] for row in BROKER_SETTING_ROWS]), st.text(max_size=5), max_size=4))
def test_no_layer_breaks_a_broker(layer: dict[str, str]) -> None:
    effective_broker_settings(STATIC, layer, {})
    effective_broker_settings(STATIC, {}, layer)


@pytest.mark.parametrize(
    ("changes", "is_cluster_wide", "message"),
    [
        (
            {"num.partitions": "1", "node.id": "1"},
            False,
            "Cannot update these configs dynamically: [node.id, num.partitions]",
        ),
        (
            {"ssl.keystore.location": "x"},
            False,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.location]",
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            True,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            {"message.max.bytes": "x"},
            True,
            "Invalid value x for configuration message.max.bytes: Not a number of type INT",
        ),
        (
            {"log.segment.bytes": "100"},
            False,
            "Invalid value 100 for configuration log.segment.bytes: Value must be at least 1048576",
        ),
        (
            {"num.io.threads": "17"},
            False,
            "Dynamic thread count update validation failed for num.io.threads=17, "
            "value should not be greater than double the current value 8",
        ),
        (
            {"num.io.threads": "3"},
            True,
            "Dynamic thread count update validation failed for num.io.threads=3, "
            "value should be at least half the current value 8",
        ),
        (
            {"log.cleaner.threads": "0"},
            True,
            "Dynamic thread count update validation failed for log.cleaner.threads=0, value should be at least 1",
        ),
        (
            {"metric.reporters": "a.B"},
            True,
            "Invalid value a.B for configuration metric.reporters: Class a.B could not be found.",
        ),
        (
            {"log.local.retention.ms": "3600001"},
            True,
            "Invalid value 3600001 for configuration log.local.retention.ms: "
            "Value must not be more than log.retention.ms property value: 3600000",
        ),
        (
            {"log.local.retention.ms": "5", "log.remote.copy.lag.ms": "9"},
            True,
            "Invalid value 9 for configuration log.remote.copy.lag.ms: "
            "Value must not exceed log.local.retention.ms (effective value: 5)",
        ),
        (
            {"log.retention.bytes": "3", "log.remote.copy.lag.bytes": "9"},
            False,
            "Invalid value 9 for configuration log.remote.copy.lag.bytes: "
            "Value must not exceed log.local.retention.bytes (effective value: 3)",
        ),
        ({"max.connections": "0"}, True, "Invalid max.connections 0"),
        ({"listener.name.x.max.connections": "0"}, False, "Invalid max.connections 0"),
        ({"max.connection.creation.rate": "0"}, False, "Invalid max.connection.creation.rate 0"),
        (
            {"max.connections.per.ip": "0"},
            True,
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            {"log.cleaner.dedupe.buffer.size": "1"},
            True,
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
        (
            {"log.flush.interval.ms": "-5"},
            True,
            "Invalid value -5 for configuration flush.ms: Value must be at least 0",
        ),
        (
            {"log.cleaner.min.compaction.lag.ms": "100", "log.cleaner.max.compaction.lag.ms": "10"},
            True,
            "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (10)",
        ),
        ({"log.retention.ms": "0"}, True, "log.retention.ms must be unlimited (-1) or, equal or greater than 1"),
        ({"listeners": "PLAINTEXT://:1"}, False, "Cannot update listeners dynamically: it changes with a restart"),
        (
            {"listener.name.a.ssl.engine.factory.class": "x"},
            False,
            "Cannot update listener.name.a.ssl.engine.factory.class: it is not served yet, and would have no effect",
        ),
    ],
)
def test_a_change_that_is_refused(changes: dict[str, str], is_cluster_wide: bool, message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        alter(changes, is_cluster_wide=is_cluster_wide)
    assert (caught.value.code, caught.value.message) == (42, message)


@pytest.mark.parametrize(
    "changes",
    [
        {"message.max.bytes": "7"},
        {"ssl.cipher.suites": "x"},
        {"sasl.kerberos.min.time.before.relogin": "58000"},
        {"num.io.threads": "16"},
        {"num.io.threads": "4"},
        {"leader.replication.throttled.rate": "7"},
        {"nobody.knows.this": "7"},
        {"ssl.cipher.suites": ""},
        {"log.retention.ms": "-1"},
    ],
)
def test_a_change_that_is_taken(changes: dict[str, str]) -> None:
    alter(changes)
    if not any(name.startswith(("ssl.", "sasl.")) for name in changes):
        alter(changes, is_cluster_wide=True)


def test_every_honoured_dynamic_setting_can_be_changed_to_its_default() -> None:
    for name, _, default, _, scope, served, _ in BROKER_SETTING_ROWS:
        if scope == CLUSTER_WIDE and served == HONOURED and default is not None:
            alter({name: default}, is_cluster_wide=True)
            alter({name: default})


def test_names_behind_a_listener() -> None:
    assert base_name("listener.name.internal.ssl.keystore.type") == "ssl.keystore.type"
    assert base_name("listener.name.internal.scram-sha-256.sasl.jaas.config") == "sasl.jaas.config"
    assert base_name("listener.name.internal.nobody") == "nobody"
    assert base_name("log.dirs") == "log.dirs"
    assert is_dynamic("listener.name.internal.ssl.keystore.type")
    assert not is_dynamic("num.partitions")
    assert not is_dynamic("nobody.knows.this")


def test_units_are_synonyms_of_each_other() -> None:
    assert synonyms_of("log.retention.hours") == ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
    assert synonyms_of("log.roll.ms") == ("log.roll.ms", "log.roll.hours")
    assert synonyms_of("log.flush.interval.ms") == ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
    assert synonyms_of("log.flush.scheduler.interval.ms") == ("log.flush.scheduler.interval.ms",)
    assert synonyms_of("listener.name.a.max.connections") == ("listener.name.a.max.connections", "max.connections")
