"""Replicas move between brokers during writes: added, removed, cancelled, and through a broker's death."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from moldau.core.metadata.image import BrokerListener
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.peers.peer import Peer
from moldau.simulation.host_network import HostNetwork
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.logs import batches_in
from tests.support.node import produce, result_of
from tests.support.stories import run_by
from tests.support.three_nodes import Cluster, tell

NO_REASSIGNMENT_IN_PROGRESS = 85
PLACE = TopicPartition("t", 0)


async def reassign(cluster: Cluster, *replicas: int, by: int, may_change_factor: bool = False) -> int:
    """The error code; without replicas the reassignment is cancelled."""
    asked = ReassignablePartition(0, replicas or None)
    response = await cluster.nodes[by].broker.submit(
        AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change_factor, topics=(ReassignableTopic("t", (asked,)),)
        )
    )
    return int(response.responses[0].partitions[0].error_code)


def client_of(cluster: Cluster, broker_id: int) -> Peer:
    return Peer(BrokerListener("PLAINTEXT", f"node-{broker_id}", 9092), HostNetwork(cluster.network, "client"))


async def under_way(cluster: Cluster, by: int) -> list[Any]:
    peer = client_of(cluster, by)
    response = await peer.request(ListPartitionReassignmentsRequest(), 30_000)
    peer.close()
    return [
        (row.replicas, row.adding_replicas, row.removing_replicas)
        for topic in response.topics
        for row in topic.partitions
    ]


def is_of_under_replicated(name: str) -> bool:
    """Whether the sample counts under-replicated partitions, of all topics or of topic t."""
    return "_underreplicatedpartitions" in name or ("under" in name and "replicated" in name and 'topic="t"' in name)


async def write(cluster: Cluster, broker_id: int, count: int) -> None:
    """Records that all in-sync replicas have."""
    peer = client_of(cluster, broker_id)
    topic_id = cluster.nodes[broker_id].broker.image.topic_id("t")
    for _ in range(count):
        request = produce(b"value")
        topics = (replace(request.topic_data[0], topic_id=topic_id),)
        assert result_of(await peer.request(replace(request, topic_data=topics), 30_000)).error_code == 0
    peer.close()


def count_at(cluster: Cluster, broker_id: int) -> int:
    """Batches in the log of a replica; -1: the broker has none."""
    broker = cluster.nodes[broker_id].broker
    hosted = broker.partitions.by_name.get(b"t")
    if hosted is None or 0 not in hosted.partitions:
        return -1
    return sum(1 for _ in batches_in(hosted.partitions[0].log))


async def until_settled(cluster: Cluster, *replicas: int) -> None:
    """All nodes know these replicas, and no reassignment is in progress."""

    def is_settled() -> bool:
        known = [cluster.partition("t", node_id) for node_id in cluster.nodes]
        return all(
            one is not None and (one.replicas, one.adding_replicas, one.removing_replicas) == (replicas, (), ())
            for one in known
        )

    await cluster.until(is_settled)


@run_by(tell)
async def test_a_replica_moves_with_all_that_it_holds_and_leaves_nothing_behind(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, 2, by=1)
    await write(cluster, 1, 5)
    assert await reassign(cluster, 3, 2, by=2) == 0
    await until_settled(cluster, 3, 2)
    assert await under_way(cluster, by=3) == []
    await cluster.all_know("t", 3, 2, 3)
    await write(cluster, 3, 5)
    assert [count_at(cluster, node_id) for node_id in (1, 2, 3)] == [-1, 10, 10]
    await cluster.until(lambda: PLACE not in cluster.nodes[1].broker.partitions.logs)


@run_by(tell)
async def test_a_factor_grows_and_shrinks_where_that_is_allowed(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, by=1)
    await write(cluster, 1, 3)
    assert await reassign(cluster, 1, 2, 3, by=1) == 38
    assert await reassign(cluster, 1, 2, 3, by=1, may_change_factor=True) == 0
    await until_settled(cluster, 1, 2, 3)
    await cluster.all_know("t", 1, 1, 2, 3)
    await write(cluster, 1, 2)
    assert [count_at(cluster, node_id) for node_id in (1, 2, 3)] == [5, 5, 5]
    assert await reassign(cluster, 2, by=3, may_change_factor=True) == 0
    await until_settled(cluster, 2)
    await write(cluster, 2, 1)
    assert [count_at(cluster, node_id) for node_id in (1, 2, 3)] == [-1, 6, -1]


@run_by(tell)
async def test_a_reassignment_to_a_broker_that_is_down_waits_for_it(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, 2, by=1)
    await write(cluster, 1, 5)
    cluster.kill(3)
    await cluster.until(lambda: cluster.nodes[1].broker.image.brokers[3].is_fenced)
    assert await reassign(cluster, 1, 3, by=2) == 0
    await write(cluster, 1, 5)
    assert await under_way(cluster, by=1) == [((1, 3, 2), (3,), (2,))]
    # broker 3 was never in sync, and no record is lost without it
    assert [value for name, value in (await cluster.metrics(1)).items() if is_of_under_replicated(name)] == [
        0,
        0,
        0,
    ]
    await cluster.start(3)
    await until_settled(cluster, 1, 3)
    assert [count_at(cluster, node_id) for node_id in (1, 2, 3)] == [10, -1, 10]


@run_by(tell)
async def test_a_replica_is_moved_to_a_broker_one_of_whose_log_directories_is_offline(cluster: Cluster) -> None:
    """That directory cannot hold the partition: the broker had no replica of it when it started."""
    await cluster.create_known("t", 1, 2, by=1)
    assert await reassign(cluster, 2, 1, by=1) == 0
    await until_settled(cluster, 2, 1)
    await write(cluster, 1, 5)
    cluster.kill(3)
    cluster.unopened_paths[3] = ("/gone",)
    await cluster.start(3)
    assert await reassign(cluster, 1, 3, by=1) == 0
    await until_settled(cluster, 1, 3)
    assert [count_at(cluster, node_id) for node_id in (1, 2, 3)] == [5, -1, 5]


@run_by(tell)
async def test_a_returned_broker_copies_new_partitions_despite_an_offline_directory(cluster: Cluster) -> None:
    """The metadata names no log directory for it yet, and the broker had two."""
    cluster.kill(3)
    cluster.further_disks[3] = (MemoryDisk(),)
    await cluster.start(3)
    assert len(cluster.nodes[1].broker.image.brokers[3].log_directories) == 2
    cluster.kill(3)
    await cluster.until(lambda: cluster.nodes[1].broker.image.brokers[3].is_fenced)
    await cluster.create("t", 1, 3, by=1)
    await cluster.all_know("t", 1, 1)
    del cluster.further_disks[3]
    cluster.unopened_paths[3] = ("/gone",)
    await cluster.start(3)
    await cluster.all_know("t", 1, 1, 3)
    await write(cluster, 1, 2)
    assert [count_at(cluster, node_id) for node_id in (1, 2, 3)] == [2, -1, 2]


@run_by(tell)
async def test_what_is_under_way_can_be_taken_back(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, 2, by=1)
    assert await reassign(cluster, by=1) == NO_REASSIGNMENT_IN_PROGRESS
    cluster.kill(3)
    await cluster.until(lambda: cluster.nodes[1].broker.image.brokers[3].is_fenced)
    assert await reassign(cluster, 3, 2, by=1) == 0
    await write(cluster, 1, 2)
    assert await reassign(cluster, by=2) == 0
    await until_settled(cluster, 2, 1)
    await cluster.all_know("t", 1, 1, 2)
    await cluster.start(3)
    await write(cluster, 1, 2)
    assert [count_at(cluster, node_id) for node_id in (1, 2, 3)] == [4, 4, -1]


@run_by(tell)
async def test_the_death_of_the_leader_does_not_end_a_reassignment(cluster: Cluster) -> None:
    await cluster.create_known("t", 1, 2, by=1)
    await write(cluster, 1, 5)
    cluster.kill(3)
    await cluster.until(lambda: cluster.nodes[1].broker.image.brokers[3].is_fenced)
    assert await reassign(cluster, 2, 3, by=1) == 0
    await write(cluster, 1, 1)
    await cluster.start(3)
    cluster.kill(1)
    await cluster.all_know("t", 2, 2, 3)
    await until_settled(cluster, 2, 3)
    await write(cluster, 2, 1)
    assert [count_at(cluster, node_id) for node_id in (2, 3)] == [7, 7]
    await cluster.start(1)
    await cluster.until(lambda: count_at(cluster, 1) == -1)
