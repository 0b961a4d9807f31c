"""What names many partitions is answered in slices, as what names few is answered at once."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.broker.handlers.slices import SLICE
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
from moldau.wire.protocol.messages.metadata import MetadataRequest

pytestmark = pytest.mark.asyncio

LATEST = -1
COUNT = 2 * SLICE
NAMES = tuple(f"absent{number:04d}" for number in range(COUNT))


async def answer_beside_others(node: Any, key: ApiKey, version: int, request: Any) -> Any:
    client, other = node.connect(), node.connect()
    client.send(key, version, request)
    await node.turns(1)
    assert client.answers() == []
    other.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    assert len(other.answers()) == 1
    return await client.answer()


async def with_topic(start_node: Any) -> Any:
    node = await start_node()
    await node.create_topic("t", 2)
    return node


def list_offsets(names: tuple[str, ...], indexes: tuple[int, ...]) -> ListOffsetsRequest:
    rows = tuple(ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in indexes)
    return ListOffsetsRequest(topics=tuple(ListOffsetsTopic(name, rows) for name in names))


async def test_ends_of_many_topics(start_node: Any) -> None:
    node = await with_topic(start_node)
    answer = await answer_beside_others(node, ApiKey.LIST_OFFSETS, 7, list_offsets((*NAMES, "t"), (0, 1)))
    assert [topic.name for topic in answer.topics] == [*NAMES, "t"]
    codes = [[row.error_code for row in topic.partitions] for topic in answer.topics]
    assert codes == [*([3, 3],) * COUNT, [0, 0]]


async def test_ends_of_many_partitions_of_one_topic(start_node: Any) -> None:
    node = await with_topic(start_node)
    indexes = (*range(COUNT), 1)
    answer = await answer_beside_others(node, ApiKey.LIST_OFFSETS, 7, list_offsets(("t",), indexes))
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
    answer = await answer_beside_others(node, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)
    found = [(topic.topic, [row.error_code for row in topic.partitions]) for topic in answer.topics]
    assert found == [("t", [0, 0, *(3,) * (COUNT - 2)]), ("u", [3] * COUNT)]


async def test_records_of_many_partitions_are_deleted(start_node: Any) -> None:
    node = await with_topic(start_node)
    rows = tuple(DeleteRecordsPartition(index, 0) for index in range(COUNT))
    topics = (DeleteRecordsTopic("t", rows), *(DeleteRecordsTopic(name, rows[:1]) for name in NAMES))
    answer = await answer_beside_others(node, ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics))
    found = [[(row.low_watermark, row.error_code) for row in topic.partitions] for topic in answer.topics]
    assert found == [[(0, 0), (0, 0), *((-1, 3),) * (COUNT - 2)], *([(-1, 3)],) * COUNT]
