"""Section "Configs and admin" of the table of bad input, as far as it is about settings, and how settings work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    ListConfigResourcesRequest,
)
from tests.support.wire import RawConnection

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
BROKER_ID = "1"

Soon = Callable[[Callable[[], bool]], bool]


@pytest.fixture
def soon(is_moldau: bool) -> Soon:
    """Whether a condition holds: with Moldau once the change is answered, with Apache Kafka a little later."""
    return lambda condition: any(condition() for _ in range(1 if is_moldau else 5_000))


@pytest.fixture
def topic(raw: RawConnection, new_topic: NewTopic, soon: Soon) -> str:
    """A new topic that can be described."""
    name = new_topic()
    assert soon(lambda: describe(raw, TOPIC, name).error_code == 0)
    return name


def describe(raw: RawConnection, kind: int, name: str, *keys: str, version: int = 4) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(kind, name, keys or None)
    return raw.ask(DescribeConfigsRequest((resource,), include_synonyms=True), version).results[0]


def one(raw: RawConnection, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (entry,) = describe(raw, kind, name, key).configs
    return entry


def resource(kind: int, name: str, *changes: tuple[int, str, str | None]) -> IncrementalAlterConfigsResource:
    configs = tuple(IncrementalAlterableConfig(key, operation, value) for operation, key, value in changes)
    return IncrementalAlterConfigsResource(kind, name, configs)


def change(
    raw: RawConnection, kind: int, name: str, *changes: tuple[int, str, str | None], validate_only: bool = False
) -> int:
    request = IncrementalAlterConfigsRequest((resource(kind, name, *changes),), validate_only)
    return raw.ask(request, 1).responses[0].error_code


def replace(raw: RawConnection, kind: int, name: str, **configs: str | None) -> int:
    entries = tuple(AlterableConfig(key.replace("_", "."), value) for key, value in configs.items())
    return raw.ask(AlterConfigsRequest((AlterConfigsResource(kind, name, entries),)), 2).responses[0].error_code


def test_an_unknown_key_is_left_out_and_no_key_is_all(raw: RawConnection, topic: str) -> None:
    assert describe(raw, TOPIC, topic, "nope").configs == ()
    empty = DescribeConfigsRequest((DescribeConfigsResource(TOPIC, topic, ()),))
    assert len(raw.ask(empty, 4).results[0].configs) == 37


def test_a_topic_shows_its_public_settings(raw: RawConnection, topic: str, soon: Soon) -> None:
    entries = {entry.name: entry for entry in describe(raw, TOPIC, topic).configs}
    assert len(entries) == 37
    assert "internal.segment.bytes" not in entries
    bare = [name for name in ("flush.ms", "retention.ms", "segment.ms", "segment.jitter.ms") if entries[name].synonyms]
    assert not bare
    minimum = "min.insync.replicas"
    assert soon(lambda: [item.source for item in one(raw, TOPIC, topic, minimum).synonyms] == [3, 5])
    assert change(raw, TOPIC, topic, (SET, "internal.segment.bytes", "1048577")) == 0
    assert soon(lambda: one(raw, TOPIC, topic, "internal.segment.bytes").value == "1048577")


def test_one_resource_refused_leaves_the_others(raw: RawConnection, topic: str, soon: Soon) -> None:
    asked = (
        resource(TOPIC, "no-such-topic", (SET, "retention.ms", "7")),
        resource(TOPIC, topic, (SET, "retention.ms", "7")),
        resource(LOGGER, BROKER_ID, (SET, "no.such.logger", "INFO")),
    )
    answer = raw.ask(IncrementalAlterConfigsRequest(asked), 1)
    told = [(entry.resource_name, entry.error_code) for entry in answer.responses]
    assert sorted(told) == sorted([("no-such-topic", 3), (topic, 0), (BROKER_ID, 40)])
    assert soon(lambda: one(raw, TOPIC, topic, "retention.ms").value == "7")


def test_lists(raw: RawConnection, topic: str, soon: Soon) -> None:
    assert change(raw, TOPIC, topic, (APPEND, "retention.ms", "5")) == 40
    assert change(raw, TOPIC, topic, (SUBTRACT, "nope", "5")) == 40
    assert change(raw, TOPIC, topic, (APPEND, "cleanup.policy", None)) == 42
    assert change(raw, TOPIC, topic, (APPEND, "cleanup.policy", "delete")) == 0
    assert soon(lambda: one(raw, TOPIC, topic, "cleanup.policy").value == "delete")
    assert change(raw, TOPIC, topic, (SUBTRACT, "cleanup.policy", "compact")) == 0
    assert soon(lambda: one(raw, TOPIC, topic, "cleanup.policy").value == "delete")
    assert change(raw, TOPIC, topic, (SUBTRACT, "cleanup.policy", "delete")) == 0
    assert soon(lambda: one(raw, TOPIC, topic, "cleanup.policy").value == "")
    assert change(raw, TOPIC, topic, (APPEND, "cleanup.policy", "bogus")) == 40


def test_what_is_not_set_may_be_deleted(raw: RawConnection, topic: str) -> None:
    assert change(raw, TOPIC, topic, (DELETE, "nope", None), (DELETE, "retention.ms", "7")) == 0


def test_alter_configs_replaces_all(raw: RawConnection, topic: str, soon: Soon) -> None:
    assert replace(raw, TOPIC, topic, retention_ms="100", segment_ms="200") == 0
    assert replace(raw, TOPIC, topic, retention_ms=" 300 ") == 0
    assert soon(lambda: one(raw, TOPIC, topic, "retention.ms").value == "300")
    assert soon(lambda: one(raw, TOPIC, topic, "segment.ms").config_source == 5)
    assert replace(raw, TOPIC, topic) == 0
    assert soon(lambda: one(raw, TOPIC, topic, "retention.ms").config_source == 5)


def test_two_settings_that_contradict_each_other(raw: RawConnection, topic: str) -> None:
    lags = ((SET, "min.compaction.lag.ms", "100"), (SET, "max.compaction.lag.ms", "10"))
    assert change(raw, TOPIC, topic, *lags) == 40


@pytest.mark.parametrize(
    ("name", "change_", "code"),
    [
        (BROKER_ID, (SET, "num.partitions", "3"), 42),
        ("", (SET, "num.partitions", "3"), 42),
        ("", (SET, "log.segment.bytes", "100"), 42),
        ("", (SET, "log.retention.ms", "0"), 42),
        ("", (SET, "log.roll.ms", "0"), 42),
        (BROKER_ID, (SET, "num.io.threads", "3"), 42),
        (BROKER_ID, (SET, "num.io.threads", None), 42),
        (BROKER_ID, (SET, "min.insync.replicas", "1"), 40),
        (BROKER_ID, (DELETE, "min.insync.replicas", None), 40),
        ("", (DELETE, "min.insync.replicas", None), 40),
        ("", (SET, "min.insync.replicas", "0"), 42),
        ("", (SET, "max.connections.per.ip.overrides", "bogus"), 42),
        (BROKER_ID, (SET, "cordoned.log.dirs", "/nope"), 42),
    ],
)
def test_a_broker_setting_that_is_refused(
    raw: RawConnection, name: str, change_: tuple[int, str, str | None], code: int
) -> None:
    assert change(raw, BROKER, name, change_) == code
    raw.assert_alive()


def test_replacing_all_cluster_defaults_may_not_drop_the_minimum(raw: RawConnection) -> None:
    """With ELR `min.insync.replicas` is one value for the whole cluster (KIP-966)."""
    assert replace(raw, BROKER, "") == 40
    assert replace(raw, BROKER, "", min_insync_replicas="1") == 0


def test_an_unknown_broker_setting_is_kept_as_a_secret(raw: RawConnection, new_name: NewName, soon: Soon) -> None:
    name = new_name("unknown")

    def found() -> list[DescribeConfigsResourceResult]:
        return [entry for entry in describe(raw, BROKER, "").configs if entry.name == name]

    assert change(raw, BROKER, "", (SET, name, "value")) == 0
    assert soon(lambda: bool(found()))
    (entry,) = found()
    assert (entry.value, entry.is_sensitive, entry.read_only, entry.config_type) == (None, True, True, 0)
    assert change(raw, BROKER, "", (DELETE, name, None)) == 0
    assert soon(lambda: not found())


def test_a_group_that_does_not_exist_has_settings(raw: RawConnection, new_name: NewName) -> None:
    group = new_name("group\n../x")
    assert len(describe(raw, GROUP, group).configs) == 21
    assert change(raw, GROUP, group, (SET, "consumer.session.timeout.ms", "50000")) == 0
    entry = one(raw, GROUP, group, "consumer.session.timeout.ms")
    assert [(item.name, item.value, item.source) for item in entry.synonyms] == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert change(raw, GROUP, group, (DELETE, "consumer.session.timeout.ms", None)) == 0


def test_a_client_metrics_subscription_is_kept(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("metrics")
    assert change(raw, METRICS, name, (SET, "interval.ms", "100"), (SET, "match", "client_id=a,client_id=b")) == 0
    assert change(raw, METRICS, name, (APPEND, "metrics", "d")) == 40
    entries = {entry.name: (entry.value, entry.config_source) for entry in describe(raw, METRICS, name).configs}
    assert entries == {"interval.ms": ("100", 7), "match": ("client_id=a,client_id=b", 7), "metrics": ("", 5)}
    listed = raw.ask(ListConfigResourcesRequest(), 0).config_resources
    assert name in [entry.resource_name for entry in listed]
    assert replace(raw, METRICS, name) == 0


def test_broker_loggers(raw: RawConnection, soon: Soon) -> None:
    levels = {entry.name: entry for entry in describe(raw, LOGGER, BROKER_ID).configs}
    before = levels["root"].value
    assert levels["root"].config_source == 6
    assert change(raw, LOGGER, BROKER_ID, (SET, "root", "FATAL"), (SET, "no.such.logger", "INFO")) == 40
    assert change(raw, LOGGER, BROKER_ID, (SET, "root", "FATAL"), validate_only=True) == 0
    assert soon(lambda: one(raw, LOGGER, BROKER_ID, "root").value == before)
    assert change(raw, LOGGER, BROKER_ID, (SET, "root", "FATAL")) == 0
    assert soon(lambda: one(raw, LOGGER, BROKER_ID, "root").value == "FATAL")
    assert change(raw, LOGGER, BROKER_ID, (SET, "root", before)) == 0
