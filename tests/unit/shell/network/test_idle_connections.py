"""Connections that are closed because no data comes or goes."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.node import fetch, produce

pytestmark = pytest.mark.asyncio


def now_ms_of(client: Any) -> int:
    return int(client.connection.group.loop.time() * 1000)


async def test_a_negative_idle_time_closes_nobody(start_node: Any) -> None:
    node = await start_node({"connections.max.idle.ms": "-1"})
    began_s = node.node.connections.loop.time()
    client = node.connect()
    assert node.node.connections._sweep_timer.when() - began_s > 0.9
    now_ms = now_ms_of(client)
    for later_ms in (0, 1_000, 10**12):
        client.connection.sweep(now_ms + later_ms)
    assert not client.wire.is_closed


async def stuck_reader(start_node: Any, requests: int = 4) -> Any:
    """A client that does not read its responses; the third request, and later ones, wait for that."""
    node = await start_node({"connections.max.idle.ms": "10000"})
    await node.create_topic("t")
    client = node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(b"x" * 900_000))
    client.wire.is_stuck = True
    client.feed(b"".join(client.request(ApiKey.FETCH, 12, fetch(0)) for _ in range(requests)))
    assert client.connection.is_write_paused
    assert (client.connection._held is not None) == (requests > 2)
    return client


async def test_a_client_that_does_not_take_its_answers_is_idle(start_node: Any) -> None:
    client = await stuck_reader(start_node)
    now_ms = now_ms_of(client)
    for later_ms in (0, 9_000):
        client.connection.sweep(now_ms + later_ms)
        assert not client.wire.is_closed
    client.connection.sweep(now_ms + 10_000)
    assert client.wire.is_closed


@pytest.mark.parametrize("requests", [2, 4])
async def test_a_client_that_takes_its_answers_slowly_is_not_idle(start_node: Any, requests: int) -> None:
    client = await stuck_reader(start_node, requests)
    now_ms = now_ms_of(client)
    for step in range(10):
        client.wire.unsent -= 10_000
        client.connection.sweep(now_ms + step * 9_000)
    assert not client.wire.is_closed


async def test_who_waits_for_a_place_is_given_up_after_the_idle_time(start_node: Any) -> None:
    """Its end is not seen, because its data is not read: otherwise abandoned connections would pile up while there is
    no place."""
    node = await start_node({"connections.max.idle.ms": "10000", "max.connections": "1"})
    served, waiting = node.connect(), node.connect()
    waiting.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    assert waiting.wire.is_read_paused
    now_ms = now_ms_of(waiting)
    for later_ms in (0, 9_000):
        waiting.connection.sweep(now_ms + later_ms)
        assert not waiting.wire.is_closed
    waiting.connection.sweep(now_ms + 10_000)
    assert waiting.wire.is_closed
    assert not served.wire.is_closed
