"""A request to the leader of a partition that moves is retried at its new leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.partitions import delete_records
from moldau.client.admin.transactions import abort_transaction, describe_producers
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from moldau.wire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.protocol.messages.producer_ids import (
    DescribeProducersPartitionResponse,
    DescribeProducersResponse,
    DescribeProducersTopicResponse,
    ProducerState,
)
from moldau.wire.protocol.messages.transactions import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.support.scripted_brokers import ScriptedBrokers

ADDRESSES = {1: ("one", 9092), 2: ("two", 9092)}
NOT_LEADER, FENCED_EPOCH, UNKNOWN_TOPIC = 6, 47, 3
PARTITIONS = TopicPartition("t", 0), TopicPartition("t", 1)
LOST = ConnectionResetError("it has crashed")

Answer = Callable[[Any, int], msgspec.Struct]
"""To a request, with the error code of partition 0."""


def cluster_of(answer: Answer, *firsts: int | Exception) -> ScriptedBrokers:
    """Broker 1 leads partition 1 of topic t. It also leads partition 0 until it has answered with each of `firsts`,
    error codes of that partition; then broker 2 leads it."""
    left = list(firsts)

    def script(broker_id: int, request: Any) -> msgspec.Struct:
        if isinstance(request, MetadataRequest):
            rows = (
                MetadataResponsePartition(partition_index=0, leader_id=1 if left else 2, leader_epoch=1),
                MetadataResponsePartition(partition_index=1, leader_id=1),
            )
            named = MetadataResponseTopic(name="t", partitions=rows)
            wanted = request.topics is None or any(topic.name == "t" for topic in request.topics)
            absent = [topic.name for topic in request.topics or () if topic.name != "t"]
            unknown = tuple(MetadataResponseTopic(UNKNOWN_TOPIC, name) for name in absent)
            brokers = tuple(MetadataResponseBroker(each, *at) for each, at in ADDRESSES.items())
            return MetadataResponse(brokers=brokers, topics=((named,) if wanted else ()) + unknown)
        first = left.pop(0) if left else NOT_LEADER if broker_id == 1 else 0
        if isinstance(first, Exception):
            raise first
        return answer(request, first)

    return ScriptedBrokers(
        {at: lambda request, broker_id=broker_id: script(broker_id, request) for broker_id, at in ADDRESSES.items()}
    )


def marked(_: Any, code: int) -> msgspec.Struct:
    row = WritableTxnMarkerTopicResult("t", (WritableTxnMarkerPartitionResult(0, code),))
    return WriteTxnMarkersResponse((WritableTxnMarkerResult(7, (row,)),))


def abort(admin: ClusterAdmin, partition: TopicPartition = PARTITIONS[0]) -> None:
    abort_transaction(admin, partition, producer_id=7, producer_epoch=0, coordinator_epoch=0)


@pytest.mark.parametrize("first", [NOT_LEADER, LOST], ids=["moved", "lost"])
def test_a_transaction_is_aborted_at_the_leader_that_the_partition_has_by_then(admin_of, first):
    brokers = cluster_of(marked, first)
    abort(admin_of(brokers))
    assert brokers.dialled[-1] == ADDRESSES[2]


def test_what_the_leader_itself_refuses_is_an_error_at_once(admin_of):
    brokers = cluster_of(marked, FENCED_EPOCH)
    with pytest.raises(KafkaError) as raised:
        abort(admin_of(brokers))
    assert raised.value.code == FENCED_EPOCH
    with pytest.raises(KafkaError) as raised:
        abort(admin_of(brokers), TopicPartition("absent", 0))
    assert raised.value.code == UNKNOWN_TOPIC
    assert brokers.now_ms == 0


def deleted(request: Any, code: int) -> msgspec.Struct:
    asked = [row.partition_index for row in request.topics[0].partitions]
    results = {0: DeleteRecordsPartitionResult(0, -1 if code else 5, code), 1: DeleteRecordsPartitionResult(1, 5)}
    return DeleteRecordsResponse(topics=(DeleteRecordsTopicResult("t", tuple(results[index] for index in asked)),))


def test_records_are_deleted_at_the_leader_that_the_partition_has_by_then(admin_of):
    found = delete_records(admin_of(cluster_of(deleted, NOT_LEADER)), dict.fromkeys(PARTITIONS, 5))
    assert found == dict.fromkeys(PARTITIONS, 5)


def test_a_leader_that_stays_away_keeps_no_result_of_the_other_partitions_back(admin_of):
    brokers = cluster_of(deleted, *[NOT_LEADER] * 1_000)
    found = delete_records(admin_of(brokers), dict.fromkeys(PARTITIONS, 5))
    moved = found[PARTITIONS[0]]
    assert isinstance(moved, KafkaError)
    assert (moved.code, found[PARTITIONS[1]]) == (NOT_LEADER, 5)
    assert 10_000 < brokers.now_ms <= 15_000


def test_a_leader_that_is_not_reached_keeps_no_result_of_the_other_partitions_back(admin_of):
    brokers = cluster_of(deleted)
    del brokers.scripts[ADDRESSES[2]]
    found = delete_records(admin_of(brokers), dict.fromkeys(PARTITIONS, 5))
    assert "cannot reach" in str(found[PARTITIONS[0]])
    assert found[PARTITIONS[1]] == 5
    assert 10_000 < brokers.now_ms <= 15_000


def with_producer(request: Any, code: int) -> msgspec.Struct:
    producer = ProducerState(producer_id=7, current_txn_start_offset=code)
    indexes = request.topics[0].partition_indexes
    rows = tuple(DescribeProducersPartitionResponse(index, active_producers=(producer,)) for index in indexes)
    return DescribeProducersResponse(topics=(DescribeProducersTopicResponse("t", rows),))


def test_an_unreachable_leader_hides_no_producers_of_other_partitions(admin_of):
    brokers = cluster_of(with_producer)
    del brokers.scripts[ADDRESSES[2]]
    found = describe_producers(admin_of(brokers), PARTITIONS)
    assert "cannot reach" in str(found[PARTITIONS[0]])
    assert [producer.producer_id for producer in found[PARTITIONS[1]]] == [7]
    with pytest.raises(KafkaError, match="cannot reach"):
        describe_producers(admin_of(brokers), PARTITIONS, broker_id=2)


def test_what_may_have_been_deleted_is_not_asked_for_again(admin_of):
    """The leader died during the request; -1 would delete records that have come since."""
    brokers = cluster_of(deleted, LOST)
    found = delete_records(admin_of(brokers), dict.fromkeys(PARTITIONS, -1))
    assert [str(each) for each in found.values()] == ["lost the connection to one:9092: it has crashed"] * 2
    assert brokers.now_ms == 0
