"""A partition removed from a starting broker, after it has opened its logs, does not stay on its disk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.errors import MoldauError
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.three_nodes import NODE_IDS, Cluster, tell

LATE = 3
"""The broker that starts: a voter, or a broker only."""
CUT_S = 2.0
QUORUMS = pytest.mark.parametrize("voter_ids", [NODE_IDS, (1,)])


def logs_of(cluster: Cluster, node_id: int) -> list[str]:
    return sorted(str(log.topic_partition) for log in cluster.nodes[node_id].broker.partitions.logs.logs())


def partitions_on_disk(cluster: Cluster, node_id: int) -> list[str]:
    """Without those that are marked as deleted."""
    names = cluster.disks[node_id].list_directory("")
    return sorted(
        name for name in names if "-0" in name and not name.endswith("-delete") and name != METADATA_DIRECTORY
    )


async def start_late(cluster: Cluster, meanwhile: Callable[[], Awaitable[None]]) -> None:
    """Calls `meanwhile` when the broker has opened its logs, and cannot learn of it yet."""
    cluster.kill(LATE)
    starting = asyncio.ensure_future(cluster.start(LATE))
    await cluster.until(lambda: has_logs(cluster))
    for other in NODE_IDS:
        cluster.network.cut(f"node-{LATE}", f"node-{other}", CUT_S)
        cluster.network.cut(f"node-{other}", f"node-{LATE}", CUT_S)
    assert not starting.done()
    await meanwhile()
    assert not starting.done()
    await starting


def has_logs(cluster: Cluster) -> bool:
    try:
        return LATE in cluster.nodes and cluster.nodes[LATE].broker is not None
    except MoldauError:
        return False


async def delete(cluster: Cluster, name: str) -> None:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name),), timeout_ms=10_000)
    response = await cluster.nodes[1].broker.submit(request)
    assert [result.error_code for result in response.responses] == [0]


@QUORUMS
def test_a_topic_that_is_deleted_while_a_broker_starts_leaves_nothing_on_it(voter_ids: tuple[int, ...]) -> None:
    async def story(cluster: Cluster) -> None:
        for name in ("gone", "kept"):
            await cluster.create(name, 1, 2, 3, by=1)
            await cluster.all_know(name, 1, 1, 2, 3)
        await start_late(cluster, lambda: delete(cluster, "gone"))
        await cluster.all_know("kept", 1, 1, 2, 3)
        assert logs_of(cluster, LATE) == partitions_on_disk(cluster, LATE) == ["kept-0"]

    tell(story, voter_ids=voter_ids)


@QUORUMS
def test_a_topic_that_is_made_anew_while_a_broker_starts_has_nothing_of_the_old(voter_ids: tuple[int, ...]) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create_known("t", 1, 2, 3, by=1)

        async def make_anew() -> None:
            await delete(cluster, "t")
            await cluster.create("t", 1, 2, 3, by=1)

        await start_late(cluster, make_anew)
        await cluster.all_know("t", 1, 1, 2, 3)
        log = cluster.nodes[LATE].broker.partitions.find("t", 0).log
        assert log.topic_id == cluster.nodes[1].broker.image.topic_id("t")
        assert partitions_on_disk(cluster, LATE) == ["t-0"]

    tell(story, voter_ids=voter_ids)


@QUORUMS
def test_a_partition_that_moves_while_a_broker_starts_leaves_nothing_on_it(voter_ids: tuple[int, ...]) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.create_known("t", 2, 3, by=1)

        async def move() -> None:
            moved = ReassignableTopic("t", (ReassignablePartition(0, (2, 1)),))
            response = await cluster.nodes[1].broker.submit(AlterPartitionReassignmentsRequest(topics=(moved,)))
            assert response.error_code == 0
            await cluster.until(lambda: (known := cluster.partition("t", 1)) is not None and known.replicas == (2, 1))

        await start_late(cluster, move)
        assert logs_of(cluster, LATE) == partitions_on_disk(cluster, LATE) == []

    tell(story, voter_ids=voter_ids)
