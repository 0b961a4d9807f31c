"""A broker's request to the controller when a topic is missing."""

from __future__ import annotations

import pytest

from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.core.controller.automatic_topics import automatic_topic, lacking_replicas

INTERNAL = {
    "__consumer_offsets": "offsets.topic",
    "__transaction_state": "transaction.state.log",
    "__share_group_state": "share.coordinator.state.topic",
}
LISTENERS = {
    "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@a:9093",
}
BROKER = {"process.roles": "broker", "node.id": "2", "controller.quorum.voters": "1@a:9093"}


def asked(name: str, settings: BrokerSettings, broker_count: int = 1) -> tuple[int, int, dict[str, str | None]]:
    """(partitions, replicas, configs)"""
    topic = automatic_topic(name, settings, broker_count)
    return topic.num_partitions, topic.replication_factor, {config.name: config.value for config in topic.configs}


def test_a_topic_of_clients_has_the_numbers_of_the_broker() -> None:
    settings = parse_broker_settings({**BROKER, "num.partitions": "4", "default.replication.factor": "2"})
    assert asked("t", settings) == (4, 2, {})


@pytest.mark.parametrize(("name", "prefix"), INTERNAL.items())
def test_an_internal_topic_has_the_numbers_and_configs_of_the_broker(name: str, prefix: str) -> None:
    texts = {f"{prefix}.num.partitions": "5", f"{prefix}.replication.factor": "2", f"{prefix}.segment.bytes": "2097152"}
    partitions, replicas, configs = asked(name, parse_broker_settings({**BROKER, **texts}))
    assert (partitions, replicas, configs["segment.bytes"]) == (5, 2, "2097152")


@pytest.mark.parametrize("name", INTERNAL)
def test_a_node_alone_gives_each_registered_broker_a_replica_up_to_three(name: str) -> None:
    for texts in ({}, LISTENERS):
        settings = parse_broker_settings(texts)
        assert [asked(name, settings, count)[1] for count in (0, 1, 2, 3, 4)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("name", INTERNAL)
def test_a_node_among_others_asks_for_three_replicas_before_they_are_there(name: str) -> None:
    several = {**LISTENERS, "controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}
    for texts in (BROKER, several, {**LISTENERS, f"{INTERNAL[name]}.replication.factor": "3"}):
        assert asked(name, parse_broker_settings(texts), 1)[1] == 3


def test_fewer_replicas_than_kafkas_default_are_told_where_brokers_may_join() -> None:
    def lacking(texts: dict[str, str], broker_count: int, name: str = "__consumer_offsets") -> int:
        settings = parse_broker_settings(texts)
        return lacking_replicas(automatic_topic(name, settings, broker_count), settings)

    assert [lacking(LISTENERS, count) for count in (1, 2, 3)] == [2, 1, 0]
    assert lacking({}, 1) == lacking(LISTENERS, 1, "t") == 0
    assert lacking({**LISTENERS, "offsets.topic.replication.factor": "1"}, 3) == 0


def test_a_minimum_of_in_sync_replicas_that_nobody_set_is_at_most_their_number() -> None:
    def minimum(texts: dict[str, str], broker_count: int) -> str | None:
        return asked("__transaction_state", parse_broker_settings(texts), broker_count)[2]["min.insync.replicas"]

    assert [minimum({}, count) for count in (1, 2, 3)] == ["1", "2", "2"]
    assert minimum(BROKER, 1) == "2"
    assert minimum({"transaction.state.log.min.isr": "3"}, 1) == "3"
