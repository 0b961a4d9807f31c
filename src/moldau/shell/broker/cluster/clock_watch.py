"""Compares this machine's clock with the active controller's, and logs a warning if they differ too much."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from moldau.core.clocks import CLOCK_SKEW_MS, clock_of_leader, clock_skew_ms
from moldau.errors import KafkaError

if TYPE_CHECKING:
    from moldau.shell.broker.own_node import OwnNode
    from moldau.wire.protocol.messages.cluster import DescribeQuorumResponse

FIRST_LOOK_S = 10.0
LOOK_S = 600.0

Describe = Callable[[], Awaitable["DescribeQuorumResponse"]]
"""The quorum, described by its leader or, failing that, by this node."""


async def watch_clock(node: OwnNode, describe: Describe) -> None:
    """Looks soon after the start, then every ten minutes."""
    await asyncio.sleep(FIRST_LOOK_S)
    while True:
        await look_at_clock(node, describe)
        await asyncio.sleep(LOOK_S)


async def look_at_clock(node: OwnNode, describe: Describe) -> None:
    """Compares once. Does nothing unless another node answers as the leader."""
    asked_ms, began_ms = node.clock.now_ms(), node.clock.monotonic_ms()
    try:
        found = clock_of_leader(await describe(), node.node_id)
    except KafkaError:
        return
    if found is None:
        return
    leader_id, leader_ms = found
    ahead_ms = -clock_skew_ms(leader_ms, asked_ms, node.clock.monotonic_ms() - began_ms)
    if abs(ahead_ms) >= CLOCK_SKEW_MS:
        node.log.warn(
            "clock",
            f"node {node.node_id}: the clock of this machine is {abs(ahead_ms) / 1000:.1f} s "
            f"{'ahead of' if ahead_ms > 0 else 'behind'} that of the active controller (node {leader_id}): run NTP on "
            "all machines, for retention and timestamps go by their clocks",
        )
