"""A transaction that is open when a directory moves to the other broker is committed there: records and offsets."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing import Cluster
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.offsets import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.records.builder import build_batch
from tests.support.apache_kafka import CLIENT_S, NEEDS_APACHE_KAFKA, apache_kafka
from tests.support.wire import RawConnection

pytestmark = NEEDS_APACHE_KAFKA

GROUP, UNSTABLE = "copiers", 88
LATER = (3, 5, 6, 14, 15, 16, 51)
"""Retriable errors of a broker that has just started, or whose coordinator still ends the transaction before."""
V1, V2 = 1, 2


class Copier(msgspec.Struct):
    """A transactional producer: `protocol` V1 adds partitions by requests, V2 adds them by writing to them."""

    transactional_id: str
    protocol: int
    producer_id: int = -1
    epoch: int = -1

    def write(self, servers: str, value: bytes, offset: int) -> None:
        """Begins a transaction with one record in topic `copied`, and one offset of topic `read`."""
        with RawConnection(servers) as broker:
            answer = until_served(broker, 4, InitProducerIdRequest(self.transactional_id, 600_000), error_code)
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            if self.protocol == V1:
                add = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=self.transactional_id,
                    v3_and_below_producer_id=self.producer_id,
                    v3_and_below_producer_epoch=self.epoch,
                    v3_and_below_topics=(AddPartitionsToTxnTopic("copied", (0,)),),
                )
                until_served(broker, 3, add, added)
                until_served(
                    broker,
                    3,
                    AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, GROUP),
                    error_code,
                )
            until_served(broker, 12 if self.protocol == V2 else 9, self._record(value), produced)
            until_served(broker, 5 if self.protocol == V2 else 3, self._offset(offset), committed)

    def _record(self, value: bytes) -> ProduceRequest:
        batch = build_batch(
            [(None, value, time.time_ns() // 1_000_000, ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = (TopicProduceData(name="copied", partition_data=(PartitionProduceData(0, batch),)),)
        return ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=30_000, topic_data=data)

    def _offset(self, offset: int) -> TxnOffsetCommitRequest:
        topics = (TxnOffsetCommitRequestTopic("read", partitions=(TxnOffsetCommitRequestPartition(0, offset),)),)
        return TxnOffsetCommitRequest(self.transactional_id, GROUP, self.producer_id, self.epoch, topics=topics)

    def commit(self, servers: str) -> None:
        """Ends the transaction; its markers follow a moment later."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, True)
        with RawConnection(servers) as broker:
            until_served(broker, 5 if self.protocol == V2 else 3, request, error_code)


def error_code(answer: Any) -> int:
    return int(answer.error_code)


def added(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def produced(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def committed(answer: Any) -> int:
    return int(answer.topics[0].partitions[0].error_code)


def until_served(broker: RawConnection, version: int, request: msgspec.Struct, code: Callable[[Any], int]) -> Any:
    """The response, once the broker has found its coordinators. Then only error code 0 is allowed."""
    deadline = time.monotonic() + CLIENT_S
    while True:
        if isinstance(request, InitProducerIdRequest):
            broker.ask(FindCoordinatorRequest(key=str(request.transactional_id), key_type=1), 3)
        answer = broker.ask(request, version)
        if code(answer) == 0:
            return answer
        assert code(answer) in LATER, answer
        assert time.monotonic() < deadline


def create(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic("copied", 1, 1), NewTopic("read", 1, 1)]).values():
        future.result(CLIENT_S)
    with RawConnection(servers) as broker:
        until_served(broker, 3, FindCoordinatorRequest(key=GROUP), error_code)


def stable_offset(servers: str) -> tuple[int, int]:
    """The group's offset on topic `read`, and the error code."""
    topics = (OffsetFetchRequestTopic("read", partition_indexes=(0,)),)
    request = OffsetFetchRequest(group_id=GROUP, topics=topics, require_stable=True)
    with RawConnection(servers) as broker:
        row = until_served(broker, 7, request, error_code).topics[0].partitions[0]
    return row.committed_offset, row.error_code


def values(servers: str) -> list[bytes]:
    """The values of committed records in topic `copied`."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "nobody", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition("copied", 0, OFFSET_BEGINNING)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(CLIENT_S)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return found
        found.append(message.value())


def wait_for(servers: str, expected: tuple[list[bytes], int]) -> None:
    deadline = time.monotonic() + CLIENT_S
    while (values(servers), stable_offset(servers)) != (expected[0], (expected[1], 0)):
        assert time.monotonic() < deadline, (values(servers), stable_offset(servers))


@pytest.mark.parametrize("protocol", [V1, V2])
def test_each_broker_commits_what_the_other_left_open(tmp_path: Path, protocol: int) -> None:
    data = tmp_path / "data"
    first, second = Copier("first", protocol), Copier("second", protocol)
    with Cluster(data_dir=data) as cluster:
        create(cluster.bootstrap_servers)
        first.write(cluster.bootstrap_servers, b"by Moldau", 5)
        assert (values(cluster.bootstrap_servers), stable_offset(cluster.bootstrap_servers)) == ([], (-1, UNSTABLE))
    with apache_kafka(tmp_path / "kafka", data) as servers:
        assert (values(servers), stable_offset(servers)) == ([], (-1, UNSTABLE))
        first.commit(servers)
        wait_for(servers, ([b"by Moldau"], 5))
        second.write(servers, b"by Kafka", 7)
        assert (values(servers), stable_offset(servers)) == ([b"by Moldau"], (-1, UNSTABLE))
    with Cluster(data_dir=data) as cluster:
        servers = cluster.bootstrap_servers
        assert (values(servers), stable_offset(servers)) == ([b"by Moldau"], (-1, UNSTABLE))
        second.commit(servers)
        wait_for(servers, ([b"by Moldau", b"by Kafka"], 7))
