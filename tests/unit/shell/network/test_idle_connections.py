"""Which connections are closed because nothing comes or goes."""

from __future__ import annotations

from typing import Any

import pytest

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
