"""A broker that lags behind the cluster does not hold a client up: the client asks others, and keeps newer metadata."""

from __future__ import annotations

import pytest

from moldau.client.blocking.cluster import METADATA_MAX_AGE_MS, ClusterClient
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError, kafka_error
from moldau.types import TopicPartition, Uuid
from moldau.wire.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.scripted_brokers import Script, ScriptedBrokers

PARTITION = TopicPartition("t", 0)
ADDRESSES = {1: ("one", 9092), 2: ("two", 9092), 3: ("three", 9092)}
OLD, NEW = 1, 2
"""The leaders of the epochs 5 and 6."""


def knows(leader_id: int) -> Script:
    """A broker that knows this leader."""
    brokers = tuple(MetadataResponseBroker(node_id, *address) for node_id, address in ADDRESSES.items())
    row = MetadataResponsePartition(partition_index=0, leader_id=leader_id, leader_epoch=4 + leader_id)
    topic = MetadataResponseTopic(name="t", topic_id=Uuid(bytes(15) + b"\x07"), partitions=(row,))
    return lambda request: MetadataResponse(brokers=brokers, topics=(topic,))


def leader_that_answers(client: ClusterClient) -> int:
    """As a writer finds one: NOT_LEADER_OR_FOLLOWER from the old leader makes the client ask again."""

    def ask() -> int:
        found = client.leader_of(PARTITION).leader_id
        if found == OLD:
            client.forget(PARTITION.topic)
            raise kafka_error("NOT_LEADER_OR_FOLLOWER")
        return found

    return client.retry(ask)


@pytest.mark.parametrize("bootstrap", ["one:9092", "one:9092,two:9092", "nowhere:9092,one:9092"])
def test_another_broker_is_asked_after_an_error_that_is_worth_a_retry(bootstrap: str) -> None:
    brokers = ScriptedBrokers({ADDRESSES[1]: knows(OLD), ADDRESSES[2]: knows(NEW), ADDRESSES[3]: knows(NEW)})
    with ClusterClient(brokers, ClusterAccess(bootstrap)) as client:
        assert leader_that_answers(client) == NEW
    assert brokers.now_ms < 1_000


def test_a_broker_that_is_not_reached_is_tried_once_while_another_answers() -> None:
    """Each attempt at a machine that is gone takes the full connection timeout."""
    brokers = ScriptedBrokers({ADDRESSES[1]: knows(OLD), ADDRESSES[3]: knows(OLD)})
    with ClusterClient(brokers, ClusterAccess("one:9092", retry_timeout_ms=5_000)) as client:
        with pytest.raises(KafkaError, match="tried for"):
            leader_that_answers(client)
        assert brokers.dialled.count(ADDRESSES[2]) == 1
        assert brokers.dialled.count(ADDRESSES[1]) > 1


def test_a_broker_that_was_not_reached_is_tried_again_although_another_answers() -> None:
    brokers = ScriptedBrokers({ADDRESSES[1]: knows(OLD)})
    with ClusterClient(brokers, ClusterAccess("one:9092", retry_timeout_ms=60_000)) as client:
        client.refresh(["t"])
        client.close()
        brokers.scripts[ADDRESSES[3]] = brokers.scripts.pop(ADDRESSES[1])  # "one" is gone, "two" never existed
        client.any_connection()
        brokers.scripts[ADDRESSES[2]] = knows(NEW)
        assert leader_that_answers(client) == NEW


def test_the_connection_to_the_only_broker_is_kept_after_an_error() -> None:
    brokers = ScriptedBrokers({("only", 9092): knows(OLD)})
    tries = iter((kafka_error("COORDINATOR_LOAD_IN_PROGRESS"), kafka_error("COORDINATOR_LOAD_IN_PROGRESS"), None))

    with ClusterClient(brokers, ClusterAccess("only:9092")) as client:

        def ask() -> None:
            client.any_connection()
            error = next(tries)
            if error is not None:
                raise error

        client.retry(ask)
    assert brokers.dialled == [("only", 9092)]


def test_a_stale_broker_does_not_take_back_a_leader_that_is_known_already() -> None:
    brokers = ScriptedBrokers({ADDRESSES[1]: knows(NEW)})
    with ClusterClient(brokers, ClusterAccess("one:9092")) as client:
        assert client.leader_of(PARTITION).leader_id == NEW
        brokers.scripts[ADDRESSES[1]] = knows(OLD)
        client.close()
        client.forget("t")
        assert client.leader_of(PARTITION).leader_id == NEW


def test_a_writer_that_lives_long_sees_partitions_that_were_added() -> None:
    def has(count: int) -> Script:
        rows = tuple(MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(count))
        topic = MetadataResponseTopic(name="t", topic_id=Uuid(bytes(15) + b"\x07"), partitions=rows)
        return lambda request: MetadataResponse(brokers=(MetadataResponseBroker(1, "one", 9092),), topics=(topic,))

    brokers = ScriptedBrokers({ADDRESSES[1]: has(2)})
    with ClusterClient(brokers, ClusterAccess("one:9092")) as client:
        assert len(client.topic_to_write("t").partitions) == 2
        client.close()
        brokers.scripts[ADDRESSES[1]] = has(3)
        brokers.now_ms += METADATA_MAX_AGE_MS - 1
        assert len(client.topic_to_write("t").partitions) == 2
        brokers.now_ms += 1
        assert len(client.topic_to_write("t").partitions) == 3
