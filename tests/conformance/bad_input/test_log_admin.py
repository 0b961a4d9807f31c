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
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import DescribeProducersRequest, DescribeProducersTopic
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


@pytest.mark.parametrize("offset", [6, 2**62, -2, -(2**63)])
def test_an_offset_beyond_the_high_watermark_or_below_minus_one(
    raw: RawConnection, new_topic: NewTopic, offset: int
) -> None:
    topic = new_topic()
    append(raw, topic, 5)
    assert delete(raw, topic, (0, offset)) == {0: (1, -1)}
    assert fetch_error(raw, topic, 0) == 0


def test_an_unknown_target_of_a_deletion(raw: RawConnection, new_topic: NewTopic, new_name: NewName) -> None:
    topic = new_topic()
    assert delete(raw, new_name("absent"), (0, 0)) == {0: (3, -1)}
    assert delete(raw, "a/b", (0, 0)) == {0: (3, -1)}
    # the table says 6 for an unknown partition; Apache Kafka 4.3.1 answers 3
    assert delete(raw, topic, (9, 0), (-1, 0), (0, 0)) == {9: (3, -1), -1: (3, -1), 0: (0, 0)}


def test_an_internal_topic_keeps_its_records(raw: RawConnection) -> None:
    from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest

    # brings the topic into being; the first answers may say that it is on its way
    while raw.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4).coordinators[0].error_code:
        continue
    assert delete(raw, "__consumer_offsets", (0, 0)) == {0: (17, -1)}
    assert delete(raw, "__cluster_metadata", (0, 0)) == {0: (3, -1)}


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


def test_an_epoch_of_another_leader(raw: RawConnection, new_topic: NewTopic, new_name: NewName) -> None:
    topic = new_topic()
    assert epoch_end(raw, topic, 0, current=1) == (75, -1, -1)
    assert epoch_end(raw, topic, 0, current=-7) == (74, -1, -1)
    assert epoch_end(raw, topic, 0, partition=9) == (3, -1, -1)
    assert epoch_end(raw, new_name("absent"), 0) == (3, -1, -1)
    assert epoch_end(raw, "a/b", 0) == (3, -1, -1)


def test_an_epoch_asked_twice_is_answered_twice(raw: RawConnection, new_topic: NewTopic) -> None:
    topic = new_topic()
    asked = OffsetForLeaderTopic(topic, (OffsetForLeaderPartition(0, -1, 0), OffsetForLeaderPartition(0, -1, 5)))
    answer = raw.ask(OffsetForLeaderEpochRequest(-1, (asked, asked)), 4)
    found = [[(one.leader_epoch, one.end_offset) for one in one_topic.partitions] for one_topic in answer.topics]
    assert found == [[(0, 0), (-1, -1)]] * 2


def test_producers_of_what_is_not_there(raw: RawConnection, new_topic: NewTopic, new_name: NewName) -> None:
    topic, absent = new_topic(), new_name("absent")
    asked = (
        DescribeProducersTopic(topic, (0, 9, -1, 0)),
        DescribeProducersTopic(absent, (0,)),
        DescribeProducersTopic("a/b", (0,)),
        DescribeProducersTopic("__cluster_metadata", (0,)),
        DescribeProducersTopic(topic, ()),
    )
    answer = raw.ask(DescribeProducersRequest(asked), 0)
    told = [(one.name, [partition.error_code for partition in one.partitions]) for one in answer.topics]
    assert told == [
        (topic, [0, 3, 3, 0]),
        (absent, [3]),
        ("a/b", [17]),
        ("__cluster_metadata", [3]),
        (topic, []),
    ]


def test_a_log_directory_that_is_not_the_brokers(raw: RawConnection, new_topic: NewTopic, new_name: NewName) -> None:
    topic = new_topic()

    def alter(path: str, name: str, partition: int) -> list[int]:
        directory = AlterReplicaLogDir(path, (AlterReplicaLogDirTopic(name, (partition,)),))
        answer = raw.ask(AlterReplicaLogDirsRequest((directory,)), 2)
        return [one.error_code for result in answer.results for one in result.partitions]

    (own, *_) = [result.log_dir for result in raw.ask(DescribeLogDirsRequest(topics=()), 5).results]
    for path in ("", "/nowhere", "relative", own + "/", "..", own + "/../x"):
        assert alter(path, topic, 0) == [57]
    assert alter(own, new_name("absent"), 0) == [3]
    assert alter(own, topic, 9) == [3]
    assert raw.ask(AlterReplicaLogDirsRequest(()), 1).results == ()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_log_directories_of_partitions_that_are_not_there(raw: RawConnection, new_name: NewName, version: int) -> None:
    asked = (DescribableLogDirTopic(new_name("absent"), (0, -1)), DescribableLogDirTopic("a/b", (0,)))
    answer = raw.ask(DescribeLogDirsRequest(topics=asked), version)
    assert answer.error_code == 0
    assert [(result.error_code, result.topics) for result in answer.results] == [(0, ())] * len(answer.results)
