"""What names many partitions is answered in slices, as what names few is answered at once."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.network.pauses import TURN_THINGS
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.log_dirs import DescribeLogDirsRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.records.builder import build_batch

pytestmark = pytest.mark.asyncio

LATEST = -1
COUNT = 4 * TURN_THINGS
NAMES = tuple(f"absent{number:04d}" for number in range(COUNT))


async def with_topic(start_node: Any) -> Any:
    node = await start_node()
    await node.create_topic("t", 2)
    return node


def list_offsets(names: tuple[str, ...], indexes: tuple[int, ...]) -> ListOffsetsRequest:
    rows = tuple(ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes)
    return ListOffsetsRequest(topics=tuple(ListOffsetsTopic(name, rows) for name in names))


async def test_ends_of_many_topics(start_node: Any) -> None:
    node = await with_topic(start_node)
    answer = await node.answer_beside_others(ApiKey.LIST_OFFSETS, 7, list_offsets((*NAMES, "t"), (0, 1)))
    assert [topic.name for topic in answer.topics] == [*NAMES, "t"]
    codes = [[row.error_code for row in topic.partitions] for topic in answer.topics]
    assert codes == [*([3, 3],) * COUNT, [0, 0]]


async def test_ends_of_many_partitions_of_one_topic(start_node: Any) -> None:
    node = await with_topic(start_node)
    indexes = (*range(COUNT), 1)
    answer = await node.answer_beside_others(ApiKey.LIST_OFFSETS, 7, list_offsets(("t",), indexes))
    rows = answer.topics[0].partitions
    # a partition that stands twice is refused, and told once
    assert [(row.partition_index, row.error_code) for row in rows] == [
        (0, 0),
        (1, 42),
        *((i, 3) for i in indexes[2:-1]),
    ]


async def test_leader_epochs_of_many_partitions(start_node: Any) -> None:
    node = await with_topic(start_node)
    rows = tuple(OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(COUNT))
    request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic("t", rows), OffsetForLeaderTopic("u", rows)))
    answer = await node.answer_beside_others(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)
    found = [(topic.topic, [row.error_code for row in topic.partitions]) for topic in answer.topics]
    assert found == [("t", [0, 0, *(3,) * (COUNT - 2)]), ("u", [3] * COUNT)]


async def test_records_of_many_partitions_are_deleted(start_node: Any) -> None:
    node = await with_topic(start_node)
    rows = tuple(DeleteRecordsPartition(index, 0) for index in range(COUNT))
    topics = (DeleteRecordsTopic("t", rows), *(DeleteRecordsTopic(name, rows[:1]) for name in NAMES))
    answer = await node.answer_beside_others(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics))
    found = [[(row.low_watermark, row.error_code) for row in topic.partitions] for topic in answer.topics]
    assert found == [[(0, 0), (0, 0), *((-1, 3),) * (COUNT - 2)], *([(-1, 3)],) * COUNT]


def produce(names: tuple[str, ...], indexes: tuple[int, ...], acks: int = 1) -> ProduceRequest:
    batch = build_batch([(None, b"v", 1_000_000, ())])
    rows = tuple(PartitionProduceData(index=index, records=batch) for index in indexes)
    topics = tuple(TopicProduceData(name=name, partition_data=rows) for name in names)
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)


@pytest.mark.parametrize("version", [3, 9])
async def test_many_partitions_are_appended_to(start_node: Any, version: int) -> None:
    node = await start_node()
    await node.create_topic("t", COUNT)
    request = produce(("t", *NAMES[:3]), (*range(COUNT), 0))
    answer = await node.answer_beside_others(ApiKey.PRODUCE, version, request)
    found = [[(row.index, row.error_code) for row in topic.partition_responses] for topic in answer.responses]
    # a partition that stands twice gets nothing
    assert found[0] == [(0, 42), *((index, 0) for index in range(1, COUNT)), (0, 42)]
    assert found[1:] == [[(index, 42 if index == 0 else 3) for index in (*range(COUNT), 0)]] * 3
    ends = [partition.log.log_end_offset for partition in node.node.broker.partitions]
    assert ends == [0, *(1,) * (COUNT - 1)]


async def test_what_follows_many_appends_on_the_connection_comes_behind_them(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t", COUNT)
    client = node.connect()
    last = produce(("t",), (COUNT - 1,))
    client.feed(
        client.request(ApiKey.PRODUCE, 9, produce(("t",), tuple(range(COUNT))))
        + client.request(ApiKey.PRODUCE, 9, last)
    )
    await node.turns(1)
    assert node.node.connections.request_memory.used_bytes > 0
    answers: list[Any] = []
    while len(answers) < 2:
        await node.turns(1)
        answers += client.answers()
    assert [answer.responses[0].partition_responses[-1].base_offset for answer in answers] == [0, 1]
    await node.turns(1)
    assert node.node.connections.request_memory.used_bytes == 0


async def test_an_error_among_many_appends_without_an_answer_closes_the_connection(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t", COUNT)
    client = node.connect()
    client.send(ApiKey.PRODUCE, 9, produce(("t",), tuple(range(COUNT)), acks=0))
    await node.turns(30)
    assert not client.wire.is_closed
    client.send(ApiKey.PRODUCE, 9, produce(("t",), tuple(range(COUNT + 1)), acks=0))
    await node.turns(30)
    assert client.wire.is_closed
    assert not client.wire.sent


async def test_the_directories_of_many_partitions_are_told(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t", COUNT)
    answer = await node.answer_beside_others(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None))
    (topic,) = answer.results[0].topics
    assert [row.partition_index for row in topic.partitions] == list(range(COUNT))
