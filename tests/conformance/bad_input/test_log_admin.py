"""Sections "Topics" (DeleteRecords), "Fetch, offsets" (leader epochs) and "Configs and admin" (log directories) of the
table of bad input, and DescribeProducers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch
from tests.support.wire import RawConnection
from tests.support.wire_log_admin import delete, fetch_error

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


def append(raw: RawConnection, topic: str, count: int) -> None:
    batch = build_batch([(b"k", b"v", -1, ())] * count)
    data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(0, batch),)),)
    answer = raw.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_up_to_an_offset_go(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    topic = new_topic()
    append(raw, topic, 5)
    assert delete(raw, topic, (0, 2), version=version) == {0: (0, 2)}
    assert fetch_error(raw, topic, 1) == 1
    assert fetch_error(raw, topic, 2) == 0
    assert delete(raw, topic, (0, 1), version=version) == {0: (0, 2)}
    assert delete(raw, topic, (0, -1), version=version) == {0: (0, 5)}
    assert fetch_error(raw, topic, 5) == 0


def test_one_bad_partition_does_not_spoil_the_others(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    append(raw, topic, 3)
    assert delete(raw, topic, (0, 2), (1, 1)) == {0: (0, 2), 1: (1, -1)}


def test_a_partition_twice_counts_once(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    append(raw, topic, 3)
    assert delete(raw, topic, (0, 99), (0, 2)) == {0: (0, 2)}


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_deletion_that_may_take_no_time(raw: RawConnection, new_topic: NewTopic, timeout_ms: int) -> None:
    topic = new_topic()
    append(raw, topic, 1)
    assert delete(raw, topic, (0, 1), timeout_ms=timeout_ms) == {0: (0, 1)}


def test_no_topic_no_partition(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert raw.ask(DeleteRecordsRequest(topics=(), timeout_ms=1), 2).topics == ()
    assert raw.ask(DeleteRecordsRequest(topics=(DeleteRecordsTopic(topic),), timeout_ms=1), 2).topics == ()


def epoch_end(
    raw: RawConnection, topic: str, epoch: int, *, partition: int = 0, current: int = -1, version: int = 4
) -> tuple[int, int, int]:
    asked = OffsetForLeaderTopic(topic, (OffsetForLeaderPartition(partition, current, epoch),))
    replica_id = -2 if version < 3 else -1
    found = raw.ask(OffsetForLeaderEpochRequest(replica_id, (asked,)), version).topics[0].partitions[0]
    assert found.partition == partition
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_leader_epoch_and_one_that_nobody_knows(raw: RawConnection, new_topic: NewTopic, version: int) -> None:
    topic = new_topic()
    assert epoch_end(raw, topic, 0, version=version) == (0, 0, 0)
    append(raw, topic, 3)
    assert epoch_end(raw, topic, 0, version=version) == (0, 0, 3)
    assert epoch_end(raw, topic, 0, current=0, version=version) == (0, 0, 3)
    for unknown in (1, 99, 2**31 - 1, -1):
        assert epoch_end(raw, topic, unknown, version=version) == (0, -1, -1)


def test_an_epoch_asked_twice_is_answered_twice(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    asked = OffsetForLeaderTopic(topic, (OffsetForLeaderPartition(0, -1, 0), OffsetForLeaderPartition(0, -1, 5)))
    answer = raw.ask(OffsetForLeaderEpochRequest(-1, (asked, asked)), 4)
    found = [[(one.leader_epoch, one.end_offset) for one in one_topic.partitions] for one_topic in answer.topics]
    assert found == [[(0, 0), (-1, -1)]] * 2
