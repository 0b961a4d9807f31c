"""A request whose client is gone ends at its next pause, unless it has changed something or asked for a decision."""

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
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.records.builder import build_batch

pytestmark = pytest.mark.asyncio

COUNT = 4 * TURN_THINGS
NAMES = tuple(f"t{number:04d}" for number in range(COUNT))


async def leave_after(node: Any, turns: int, key: ApiKey, version: int, request: Any) -> int:
    """The client sends `request` and leaves after that many turns of the loop; gives how many more its work took."""
    client = node.connect()
    client.send(key, version, request)
    await node.turns(turns)
    assert client.answers() == []
    client.wire.close()
    await node.turns(2)
    took = 0
    while node.node.dispatcher._tasks:
        await node.turns(1)
        took += 1
    assert node.node.connections.request_memory.used_bytes == 0
    return took


@pytest.mark.parametrize(("turns", "created"), [(1, 0), (7, COUNT)])
async def test_topics_are_created_only_if_the_controller_was_asked(node: Any, turns: int, created: int) -> None:
    asked = CreateTopicsRequest(tuple(CreatableTopic(name, 1, 1) for name in NAMES), 10_000)
    took = await leave_after(node, turns, ApiKey.CREATE_TOPICS, 7, asked)
    assert len(node.node.broker.image.topics_by_name) == created
    assert (took > 0) == (created > 0)


async def test_a_question_is_given_up(node: Any) -> None:
    assert await leave_after(node, 1, ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(NAMES)) == 0


async def test_records_that_are_being_deleted_are_deleted_to_the_end(node: Any) -> None:
    await node.create_topic("t", COUNT)
    batch = build_batch([(None, b"v", 1_000_000, ())])
    rows = tuple(PartitionProduceData(index, batch) for index in range(COUNT))
    data = (TopicProduceData(name="t", partition_data=rows),)
    # by then the first append is made: the others follow
    assert await leave_after(node, 12, ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1_000, topic_data=data)) > 0
    partitions = list(node.node.broker.partitions)
    assert [partition.log.log_end_offset for partition in partitions] == [1] * COUNT
    asked = DeleteRecordsTopic("t", tuple(DeleteRecordsPartition(index, 1) for index in range(COUNT)))
    assert await leave_after(node, 5, ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest((asked,))) > 0
    assert [partition.log.log_start_offset for partition in partitions] == [1] * COUNT
