"""Fetches that find much at once share the turns of the loop with all other clients."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from moldau.shell.broker.fetch_turns import TURN_BYTES
from moldau.shell.broker.handlers.parked_fetch import ParkedFetch
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.support.node import produce

pytestmark = pytest.mark.asyncio

MIB = 1 << 20
READERS = 40
AT_ONCE = 2 * (TURN_BYTES + MIB)
"""A turn of the test is two turns of the loop, each with at most one response too many."""


def fetch(offset: int) -> FetchRequest:
    partition = FetchPartition(0, fetch_offset=offset, partition_max_bytes=55 * MIB)
    topics = (FetchTopic(topic="t", partitions=(partition,)),)
    return FetchRequest(max_wait_ms=60_000, min_bytes=1, max_bytes=55 * MIB, topics=topics)


def sent_bytes(clients: list[Any]) -> int:
    return sum(len(client.wire.sent) for client in clients)


async def answers_by_turn(node: Any, clients: list[Any]) -> list[int]:
    """The bytes of each turn of the loop, until all have a response."""
    given, before = [], sent_bytes(clients)
    for _ in range(10 * READERS):
        if all(client.wire.sent for client in clients):
            return given
        await node.turns(1)
        given.append(sent_bytes(clients) - before)
        before += given[-1]
    raise AssertionError(f"no answer for some: {given}")


async def test_readers_that_are_woken_at_once_are_answered_over_several_turns(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    readers = [node.connect() for _ in range(READERS)]
    for reader in readers:
        reader.send(ApiKey.FETCH, 12, fetch(0))
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(bytes(900_000)))
    given = await answers_by_turn(node, readers)
    assert max(given) < AT_ONCE
    assert all(len(reader.answers()) == 1 for reader in readers)


async def test_many_readers_are_answered_over_several_turns_and_a_small_read_at_once(
    start_node: Any,
) -> None:
    node = await start_node()
    await node.create_topic("t")
    producer = node.connect()
    for size in (900_000, 100):
        await producer.ask(ApiKey.PRODUCE, 9, produce(bytes(size)))
    readers = [node.connect() for _ in range(READERS)]
    for reader in readers:
        reader.send(ApiKey.FETCH, 12, fetch(0))
    other = node.connect()
    other.send(ApiKey.FETCH, 12, fetch(1))
    assert len(other.answers()) == 1
    assert sent_bytes(readers) < AT_ONCE
    assert max(await answers_by_turn(node, readers)) < AT_ONCE


async def test_a_reader_that_leaves_before_its_turn_costs_nothing(start_node: Any) -> None:
    node = await start_node()
    await node.create_topic("t")
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(bytes(900_000)))
    readers = [node.connect() for _ in range(READERS)]
    for reader in readers:
        reader.send(ApiKey.FETCH, 12, fetch(0))
    for reader in readers[:-1]:
        reader.wire.close()
    assert len((await readers[-1].answer()).responses) == 1
    assert sent_bytes(readers[:-1]) < AT_ONCE


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_fetch_that_waited_for_a_turn_is_freed_without_the_collector(start_node: Any, is_gone: bool) -> None:
    """A reference cycle keeps the response, a MiB, until a collection; one that `gc.freeze` has frozen stays for
    ever."""
    node = await start_node()
    await node.create_topic("t")
    await node.connect().ask(ApiKey.PRODUCE, 9, produce(bytes(900_000)))
    readers = [node.connect() for _ in range(READERS)]
    gc.collect()
    gc.disable()
    try:
        for reader in readers:
            reader.send(ApiKey.FETCH, 12, fetch(0))
        if is_gone:
            for reader in readers:
                reader.wire.close()
            await node.turns(2 * READERS)
        else:
            await answers_by_turn(node, readers)
        assert [each for each in gc.get_objects() if isinstance(each, ParkedFetch)] == []
    finally:
        gc.enable()
