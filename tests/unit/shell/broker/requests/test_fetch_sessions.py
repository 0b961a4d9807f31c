"""Fetch sessions through a node: the handler's part. Their rules: tests/unit/core/replication."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.core.log.files.transaction_index import AbortedTransaction, encode_transactions
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.support.node import produce, result_of

pytestmark = pytest.mark.asyncio


async def append(client: Any, partition: int) -> None:
    answer = await client.ask(ApiKey.PRODUCE, 9, produce(b"x", partition=partition))
    assert result_of(answer).error_code == 0


def request(*positions: tuple[int, int], topic_id: bytes | None = None, forget: tuple[int, ...] = (), **fields: Any):
    named: Any = {"topic": "t"} if topic_id is None else {"topic_id": topic_id}
    rows = tuple(FetchPartition(partition=p, fetch_offset=o, partition_max_bytes=1 << 20) for p, o in positions)
    return FetchRequest(
        topics=(FetchTopic(partitions=rows, **named),) if rows else (),
        forgotten_topics_data=(ForgottenTopic(partitions=forget, **named),) if forget else (),
        **{"max_wait_ms": 0, "min_bytes": 1, **fields},
    )


def told(answer: FetchResponse) -> list[tuple[int, int, int]]:
    """(partition, error code, high watermark) of each in the response."""
    return [(p.partition_index, p.error_code, p.high_watermark) for t in answer.responses for p in t.partitions]


@pytest.mark.parametrize("version", [7, 9, 11, 12, 13, 16, 18])
async def test_a_session_from_its_first_request_to_its_last(start_node: Any, version: int) -> None:
    node = await start_node()
    await node.create_topic("t", 3)
    client = node.connect()
    topic_id = node.node.broker.image.topic_id("t") if version >= 13 else None

    async def ask(*positions: tuple[int, int], **fields: Any) -> FetchResponse:
        answer = await client.ask(ApiKey.FETCH, version, request(*positions, topic_id=topic_id, **fields))
        assert isinstance(answer, FetchResponse)
        return answer

    full = await ask((0, 0), (1, 0), (2, 0), session_epoch=0)
    assert full.session_id > 0
    assert told(full) == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    session = {"session_id": full.session_id}
    assert told(await ask(**session, session_epoch=1)) == []
    await append(client, 1)
    news = await ask(**session, session_epoch=2)
    assert (news.session_id, told(news)) == (full.session_id, [(1, 0, 1)])
    assert told(await ask((1, 1), forget=(0,), **session, session_epoch=3)) == []
    await append(client, 0)
    assert told(await ask(**session, session_epoch=4)) == [], "partition 0 is forgotten"
    wrong = await ask(**session, session_epoch=4)
    assert (wrong.error_code, wrong.session_id, told(wrong)) == (71, 0, [])
    closed = await ask((0, 0), **session, session_epoch=-1)
    assert (closed.error_code, closed.session_id, told(closed)) == (0, 0, [(0, 0, 1)])
    assert (await ask(**session, session_epoch=5)).error_code == 70
    assert node.node.broker.fetches.sessions.count == 0


async def test_an_incremental_fetch_waits_for_any_partition_of_its_session(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t", 2)
    reader, writer = node.connect(), node.connect()
    full = await reader.ask(ApiKey.FETCH, 12, request((0, 0), (1, 0), session_epoch=0))
    reader.send(ApiKey.FETCH, 12, request(session_id=full.session_id, session_epoch=1, max_wait_ms=60_000))
    assert reader.answers() == []
    await append(writer, 1)
    assert told(await reader.answer()) == [(1, 0, 1)]


async def test_a_waiting_fetch_that_was_overtaken_gets_71(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t", 2)
    reader, other = node.connect(), node.connect()
    full = await reader.ask(ApiKey.FETCH, 12, request((0, 0), session_epoch=0))
    reader.send(ApiKey.FETCH, 12, request(session_id=full.session_id, session_epoch=1, max_wait_ms=60_000))
    await other.ask(ApiKey.FETCH, 12, request(session_id=full.session_id, session_epoch=2))
    await append(other, 0)
    answer = await reader.answer()
    assert (answer.error_code, told(answer)) == (71, [])


async def test_a_refused_request_leaves_its_session_as_it_was(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    client = node.connect()
    full = await client.ask(ApiKey.FETCH, 12, request((0, 0), session_epoch=0))
    session = {"session_id": full.session_id, "session_epoch": 1}
    for fields in ({"isolation_level": 2}, {"max_bytes": -1}):
        assert (await client.ask(ApiKey.FETCH, 12, request(**session, **fields))).error_code == 42
    assert (await client.ask(ApiKey.FETCH, 12, request(**session))).error_code == 0


async def test_without_a_slot_every_fetch_is_answered_in_full(start_node: Any) -> None:
    node = await start_node({"max.incremental.fetch.session.cache.slots": "0"})
    await node.create_topic("t")
    answer = await node.connect().ask(ApiKey.FETCH, 12, request((0, 0), session_epoch=0))
    assert (answer.error_code, answer.session_id, told(answer)) == (0, 0, [(0, 0, 0)])


async def test_sessions_beyond_the_memory_bound_are_not_opened(start_node: Any) -> None:
    node = await start_node({"moldau.fetch.session.memory.bytes": "3000"})
    await node.create_topic("t")
    client = node.connect()
    ids = [(await client.ask(ApiKey.FETCH, 12, request((0, 0), session_epoch=0))).session_id for _ in range(4)]
    assert [bool(session_id) for session_id in ids] == [True, True, False, False]


async def test_readers_of_committed_records_hear_which_transactions_were_aborted(start_node: Any) -> None:
    """In a log with transactions by Apache Kafka: its `.txnindex` lists those that do not count."""
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await first.create_topic("t", 2)
    for _ in range(5):
        await append(first.connect(), 0)
    await first.node.stop()
    index = encode_transactions([AbortedTransaction(7, 1, 2, 3), AbortedTransaction(9, 3, 4, 5)])
    disk.open("t-0/00000000000000000000.txnindex").append(index)
    client = (await start_node(disk=disk)).connect()

    async def aborted(offset: int, version: int, **fields: Any) -> list[Any]:
        answer = await client.ask(ApiKey.FETCH, version, request((0, offset), (1, 0), (9, 0), **fields))
        return [p.aborted_transactions for t in answer.responses for p in t.partitions]

    for version in (4, 11, 12):
        entries = [
            (entry.producer_id, entry.first_offset) for entry in (await aborted(0, version, isolation_level=1))[0]
        ]
        assert entries == [(7, 1), (9, 3)]
    assert [entry.producer_id for entry in (await aborted(3, 12, isolation_level=1))[0]] == [9]
    assert [entry.producer_id for entry in (await aborted(0, 12, isolation_level=1, max_bytes=1))[0]] == []
    assert (await aborted(0, 12, isolation_level=1))[1:] == [(), ()]
    assert await aborted(0, 12) == [None, None, ()], "nobody asked; but what is unknown is told with an empty list"
    assert await aborted(99, 12, isolation_level=1) == [None, (), ()]


async def test_a_damaged_transaction_index_fails_readers_of_committed_records_only(start_node: Any) -> None:
    disk = MemoryDisk()
    first = await start_node(disk=disk)
    await first.create_topic("t")
    await append(first.connect(), 0)
    await first.node.stop()
    client = (await start_node(disk=disk)).connect()
    # after the start, which rebuilds such a file
    disk.open("t-0/00000000000000000000.txnindex").append(b"\x00\x63" + bytes(32))
    assert told(await client.ask(ApiKey.FETCH, 12, request((0, 0), isolation_level=1))) == [(0, 56, -1)]
    assert told(await client.ask(ApiKey.FETCH, 12, request((0, 0)))) == [(0, 0, 1)]
