"""Requests that name many partitions are answered in slices, with the same results as small requests."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from msgspec.structs import replace

from moldau.core.metadata.image import MetadataDelta, PartitionImage, TopicImage
from moldau.shell.broker.cluster.announcements import announce
from moldau.shell.broker.handlers.fetch import MAX_SESSION_PARTITIONS
from moldau.shell.network.pauses import TURN_THINGS
from moldau.types import LeaderEpoch, TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
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
    # a partition that is named twice is rejected, and answered once
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
async def test_many_partitions_are_appended_to(node: Any, version: int) -> None:
    await node.create_topic("t", COUNT)
    request = produce(("t", *NAMES[:3]), (*range(COUNT), 0))
    answer = await node.answer_beside_others(ApiKey.PRODUCE, version, request)
    found = [[(row.index, row.error_code) for row in topic.partition_responses] for topic in answer.responses]
    # a partition that is named twice gets nothing
    assert found[0] == [(0, 42), *((index, 0) for index in range(1, COUNT)), (0, 42)]
    assert found[1:] == [[(index, 42 if index == 0 else 3) for index in (*range(COUNT), 0)]] * 3
    ends = [partition.log.log_end_offset for partition in node.node.broker.partitions]
    assert ends == [0, *(1,) * (COUNT - 1)]


def fetch(names: tuple[str, ...], indexes: tuple[int, ...], **fields: Any) -> FetchRequest:
    rows = tuple(FetchPartition(partition=index, partition_max_bytes=1_000) for index in indexes)
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    return FetchRequest(topics=tuple(FetchTopic(topic=name, partitions=rows) for name in names), **values)


@pytest.mark.parametrize("version", [4, 12])
async def test_many_partitions_are_read_from(node: Any, client: Any, version: int) -> None:
    await node.create_topic("t", COUNT)
    await client.ask(ApiKey.PRODUCE, 9, produce(("t",), (0, 7, COUNT - 1)))
    few = await client.ask(ApiKey.FETCH, version, fetch((NAMES[0], "t"), (0, 1, 7, COUNT)))
    # a partition that is named twice counts once
    indexes = (*range(COUNT + 1), 7)
    many = await node.answer_beside_others(ApiKey.FETCH, version, fetch((*NAMES[:6], "t"), indexes))
    rows = {(topic.topic, row.partition_index): row for topic in many.responses for row in topic.partitions}
    # unknown ones come after the rest
    assert [(topic.topic, len(topic.partitions)) for topic in many.responses] == [
        ("t", COUNT),
        *((name, COUNT + 1) for name in NAMES[:6]),
        ("t", 1),
    ]
    for topic in few.responses:
        for row in topic.partitions:
            assert rows[topic.topic, row.partition_index] == row
    assert [index for (_, index), row in rows.items() if row.records] == [0, 7, COUNT - 1]


async def test_a_fetch_of_many_waits_for_a_record(node: Any, client: Any) -> None:
    await node.create_topic("t", 3 * COUNT)
    client.send(ApiKey.FETCH, 12, fetch(("t",), tuple(range(3 * COUNT)), max_wait_ms=60_000))
    await node.turns(20)
    assert client.answers() == []
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(("t",), (5,)))
    answer = await client.answer()
    assert [row.partition_index for row in answer.responses[0].partitions if row.records] == [5]


async def test_very_many_partitions_are_fetched_without_a_session(start_node: Any) -> None:
    node = await with_topic(start_node)
    client = node.connect()
    some = await client.ask(ApiKey.FETCH, 12, fetch(NAMES, (0, 1), session_id=0, session_epoch=0))
    assert some.session_id > 0
    indexes = tuple(range(MAX_SESSION_PARTITIONS + 1))
    very_many = await client.ask(ApiKey.FETCH, 12, fetch(("t",), indexes, session_id=0, session_epoch=0))
    assert (very_many.error_code, very_many.session_id) == (0, 0)
    assert sum(len(topic.partitions) for topic in very_many.responses) == len(indexes)
    more = fetch(("t",), indexes, session_id=some.session_id, session_epoch=1)
    assert (await client.ask(ApiKey.FETCH, 12, more)).error_code == 70


@pytest.mark.parametrize("session_epoch", [-1, 1])
async def test_many_partitions_are_not_read_at_an_isolation_level_that_is_none(
    start_node: Any, session_epoch: int
) -> None:
    node = await with_topic(start_node)
    request = fetch(NAMES, (0, 1, 2), isolation_level=7, session_epoch=session_epoch)
    answer = await node.connect().ask(ApiKey.FETCH, 12, request)
    codes = {row.error_code for topic in answer.responses for row in topic.partitions}
    assert (answer.error_code, codes) == ((0, {42}) if session_epoch < 0 else (42, set()))


async def test_what_follows_many_appends_on_the_connection_comes_behind_them(node: Any, client: Any) -> None:
    await node.create_topic("t", COUNT)
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


async def test_an_error_among_many_appends_without_an_answer_closes_the_connection(node: Any, client: Any) -> None:
    await node.create_topic("t", COUNT)
    client.send(ApiKey.PRODUCE, 9, produce(("t",), tuple(range(COUNT)), acks=0))
    await node.turns(30)
    assert not client.wire.is_closed
    client.send(ApiKey.PRODUCE, 9, produce(("t",), tuple(range(COUNT + 1)), acks=0))
    await node.turns(30)
    assert client.wire.is_closed
    assert not client.wire.sent


async def test_the_directories_of_many_partitions_are_told(node: Any) -> None:
    await node.create_topic("t", COUNT)
    answer = await node.answer_beside_others(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None))
    (topic,) = answer.results[0].topics
    assert [row.partition_index for row in topic.partitions] == list(range(COUNT))


class Unread(dict[int, PartitionImage]):
    """Partitions of a topic that has very many: each may be looked up, but none may be iterated."""

    def __iter__(self) -> Any:
        raise AssertionError("all partitions are gone through")

    items = values = keys = __iter__


async def test_a_change_of_one_partition_looks_at_no_other(node: Any, caplog: pytest.LogCaptureFixture) -> None:
    await node.create_topic("t", 5)
    broker = node.node.broker
    known = broker.image.topics_by_name["t"]
    changed = {
        index: replace(known.partitions[index], partition_epoch=1, leader_epoch=LeaderEpoch(7)) for index in (4, 2)
    }
    delta = MetadataDelta(
        topics={known.topic_id: TopicImage("t", known.topic_id, Unread({**known.partitions, **changed}))},
        partitions={TopicPartition("t", index): partition for index, partition in changed.items()},
    )
    caplog.set_level(logging.INFO)
    caplog.clear()
    broker.partitions.apply(broker.image, delta)
    announce(node.node.log, delta)
    epochs = [broker.partitions.find("t", index).leader_epoch for index in range(5)]
    assert epochs == [0, 0, 7, 0, 7]
    told = [record.getMessage() for record in caplog.records]
    assert told == ["t-2: leader 1, leader epoch 7, in sync 1"]  # those after the first one come together, later
