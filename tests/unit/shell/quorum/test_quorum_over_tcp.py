"""Three nodes of a quorum over real sockets, at ports that the system chose."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from moldau.shell.io.clock import SystemClock
from moldau.transport.network import TcpNetwork
from tests.support.quorum_of_three import QuorumNode, QuorumOfThree, quota, quotas_of

PATIENCE_S = 60.0


async def until(quorum: QuorumOfThree, condition: Callable[[], bool]) -> None:
    """Returns when `condition` holds; it is checked whenever a node publishes committed records."""
    changed = asyncio.Event()
    for node in quorum.nodes.values():
        node.role.subscribe(lambda image, delta: changed.set())
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await changed.wait()
            changed.clear()


@pytest.mark.asyncio
async def test_a_leader_is_elected_and_followed_and_when_it_dies_another_one_goes_on() -> None:
    quorum = QuorumOfThree(
        SystemClock(),
        lambda node_id: TcpNetwork(),
        lambda node_id: ("127.0.0.1", 0),
        controller_quorum_election_timeout_ms="100",
        controller_quorum_fetch_timeout_ms="400",
    )
    await quorum.start()

    async def leader(*but: QuorumNode) -> QuorumNode:
        await until(quorum, lambda: any(node not in but for node in quorum.leaders()))
        return next(node for node in quorum.leaders() if node not in but)

    first = await leader()
    await first.role.submit(quota("ada", 1.0))
    await until(quorum, lambda: all(quotas_of(node.role) == {"ada": 1.0} for node in quorum.nodes.values()))
    first.die()
    second = await leader(first)
    await second.role.submit(quota("bob", 2.0))
    others = [node for node in quorum.nodes.values() if node is not first]
    await until(quorum, lambda: all(quotas_of(node.role) == {"ada": 1.0, "bob": 2.0} for node in others))
    for node in others:
        await node.stop()
    assert [node.broken for node in quorum.nodes.values()] == [[], [], []]
