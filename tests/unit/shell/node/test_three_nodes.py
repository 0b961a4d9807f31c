"""Three whole nodes are one cluster: brokers and controllers in the simulator's network and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.metadata.image import BrokerListener, PartitionImage
from moldau.errors import MoldauError
from moldau.shell.io.twins.memory_disk import MemoryDisk
from moldau.shell.io.twins.random import SeededRandom
from moldau.shell.io.twins.workers import InlineWorkers
from moldau.shell.node.assemble import Node
from moldau.shell.node.doors import Doors
from moldau.shell.node.metrics.collect import collect
from moldau.shell.node.storage_format import format_directory
from moldau.simulation.doors import SimulatedClock
from moldau.simulation.loop import SimulatedProcess, VirtualLoop
from moldau.simulation.network import HostNetwork, SimulatedNetwork
from moldau.simulation.trace import Trace
from moldau.types import BrokerId, TopicPartition
from moldau.wire.protocol.messages.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

NODE_IDS = (1, 2, 3)
CLUSTER_ID = "tBkDQh1jQTWVvPkPqJ9o1w"
VOTERS = ",".join(f"{node_id}@node-{node_id}:9093" for node_id in NODE_IDS)
PATIENCE_S = 60


class Cluster:
    """`nodes`: those that run, by id. `kill` ends one as kill -9 does; `start` begins another life on the same disk."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, 1, Trace(loop.time))
        self.clock = SimulatedClock(loop)
        self.disks = {node_id: MemoryDisk() for node_id in NODE_IDS}
        self.nodes: dict[int, Node] = {}
        self._processes: dict[int, SimulatedProcess] = {}
        self._lives = 0
        for node_id, disk in self.disks.items():
            format_directory(
                disk,
                SeededRandom(node_id),
                now_ms=self.clock.now_ms(),
                node_id=BrokerId(node_id),
                controller_listener=BrokerListener("CONTROLLER", "", 0),
                cluster_id=CLUSTER_ID,
                initial_controllers=(),
            )

    async def start(self, *node_ids: int) -> None:
        """Returns when they serve."""
        await asyncio.gather(*(self._start(node_id) for node_id in node_ids))

    async def _start(self, node_id: int) -> None:
        self._lives += 1
        host = f"node-{node_id}"
        texts = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{host}:9092,CONTROLLER://{host}:9093",
            "controller.quorum.voters": VOTERS,
            "moldau.http.listener": f"{host}:9644",
        }
        network = HostNetwork(self.network, host)
        random = SeededRandom(1_000 * node_id + self._lives)
        doors = Doors(self.clock, random, self.disks[node_id], InlineWorkers(), network)
        node = self.nodes[node_id] = Node(parse_broker_settings(texts), doors)
        process = self._processes[node_id] = SimulatedProcess(host)
        await self.loop.run_in_process(process, node.start())

    def kill(self, node_id: int) -> None:
        process = self._processes[node_id]
        self.loop.kill(process)
        self.network.drop_process(process)
        self.disks[node_id].crash_process()
        del self.nodes[node_id]

    async def metrics(self, node_id: int) -> dict[str, float]:
        """What `/metrics` of the node has, by name and labels."""
        operations = self.nodes[node_id].operations
        assert operations is not None
        page = (await collect(operations.status)).decode()
        rows = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()

    async def create(self, name: str, *replicas: int, by: int) -> None:
        """A topic of one partition, asked of a broker."""
        topic = CreatableTopic(name, -1, -1, (CreatableReplicaAssignment(0, replicas),))
        response = await self.nodes[by].broker.submit(CreateTopicsRequest((topic,), 10_000))
        assert [result.error_code for result in response.topics] == [0]

    async def leads_quorum(self, node_id: int) -> bool:
        described = await self.nodes[node_id].broker.controller.describe_quorum()
        return described.topics[0].partitions[0].leader_id == node_id

    def partition(self, name: str, as_known_to: int) -> PartitionImage | None:
        return self.nodes[as_known_to].broker.image.partition(TopicPartition(name, 0))

    def epochs_led_by(self, node_id: int) -> list[int]:
        """Of the partitions of a node that may still be starting, those that it leads."""
        try:
            partitions = self.nodes[node_id].broker.partitions
        except MoldauError:
            return []
        return [partition.leader_epoch for partition in partitions if partition.leader is not None]

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(PATIENCE_S * 50):
            if condition():
                return
            await asyncio.sleep(0.02)
        pytest.fail("it took too long")

    async def all_know(self, name: str, leader: int, *isr: int) -> None:
        def is_known() -> bool:
            seen = [self.partition(name, node_id) for node_id in self.nodes]
            return all(one is not None and (one.leader, sorted(one.isr)) == (leader, sorted(isr)) for one in seen)

        await self.until(is_known)


def tell(story: Callable[[Cluster], Awaitable[None]]) -> None:
    """Runs `story` with three nodes that serve."""
    loop = VirtualLoop()

    async def run() -> None:
        cluster = Cluster(loop)
        await cluster.start(*NODE_IDS)
        await story(cluster)
        assert [node.failure for node in cluster.nodes.values()] == [None] * len(cluster.nodes)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


def active(cluster: Cluster, node_id: int) -> list[int]:
    return [one.broker_id for one in cluster.nodes[node_id].broker.image.brokers.values() if one.is_active]


def test_every_broker_registers_and_knows_all_others() -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in NODE_IDS:
            await cluster.until(lambda node_id=node_id: sorted(active(cluster, node_id)) == [1, 2, 3])

    tell(story)


def test_a_topic_that_any_broker_is_asked_for_is_known_to_all() -> None:
    async def story(cluster: Cluster) -> None:
        for node_id in NODE_IDS:
            await cluster.create(f"t{node_id}", 1, 2, 3, by=node_id)
            await cluster.all_know(f"t{node_id}", 1, 1, 2, 3)

    tell(story)


@pytest.mark.parametrize("victim", NODE_IDS)
def test_a_broker_that_dies_is_fenced_soon_and_comes_back_into_the_replicas_in_sync(victim: int) -> None:
    async def story(cluster: Cluster) -> None:
        successor, third = (node_id for node_id in NODE_IDS if node_id != victim)
        await cluster.create("t", victim, successor, third, by=third)
        await cluster.all_know("t", victim, 1, 2, 3)
        most_s = 1.5 if await cluster.leads_quorum(victim) else 0.8
        cluster.kill(victim)
        died_s = cluster.loop.time()
        await cluster.all_know("t", successor, successor, third)
        assert cluster.loop.time() - died_s < most_s
        await cluster.start(victim)
        await cluster.all_know("t", successor, 1, 2, 3)

    tell(story)


def test_one_node_says_that_its_controller_is_active_and_all_say_who_leads() -> None:
    async def story(cluster: Cluster) -> None:
        pages = [await cluster.metrics(node_id) for node_id in NODE_IDS]
        active = [page["kafka_controller_kafkacontroller_activecontrollercount"] for page in pages]
        assert sorted(active) == [0, 0, 1]
        assert {page["kafka_server_raftmetrics_current_leader"] for page in pages} == {1 + active.index(1)}
        assert [page["kafka_server_raftmetrics_number_of_voters"] for page in pages] == [3, 3, 3]
        states = [page.get('kafka_server_raftmetrics_current_state{current_state="leader"}', 0) for page in pages]
        assert states == active

    tell(story)


def test_a_leader_counts_who_comes_back_into_the_replicas_in_sync() -> None:
    async def story(cluster: Cluster) -> None:
        under, expands = "underreplicatedpartitions", "isrexpands_total"
        await cluster.create("t", 1, 2, 3, by=1)
        await cluster.all_know("t", 1, 1, 2, 3)
        cluster.kill(3)
        await cluster.all_know("t", 1, 1, 2)
        assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{under}"] == 1
        assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{expands}"] == 0
        await cluster.start(3)
        await cluster.all_know("t", 1, 1, 2, 3)
        assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{under}"] == 0
        assert (await cluster.metrics(1))[f"kafka_server_replicamanager_{expands}"] == 1

    tell(story)


def test_a_broker_that_comes_back_at_once_does_not_lead_what_it_led_before_its_death() -> None:
    """A loss of power may have taken from it what the others have: it would append something else in its old epoch."""

    async def story(cluster: Cluster) -> None:
        await cluster.create("t", 1, 2, 3, by=1)
        await cluster.all_know("t", 1, 1, 2, 3)
        epochs: list[int] = []
        cluster.kill(1)
        starting = asyncio.ensure_future(cluster.start(1))
        while not starting.done():
            await asyncio.sleep(0.001)
            epochs += cluster.epochs_led_by(1)
        assert min(epochs, default=1) > 0
        await cluster.all_know("t", 2, 1, 2, 3)

    tell(story)


@pytest.mark.parametrize("leaver", NODE_IDS)
def test_a_broker_that_stops_hands_over_what_it_leads_first(leaver: int) -> None:
    async def story(cluster: Cluster) -> None:
        successor, third = (node_id for node_id in NODE_IDS if node_id != leaver)
        await cluster.create("t", leaver, successor, third, by=third)
        await cluster.all_know("t", leaver, 1, 2, 3)
        began_s = cluster.loop.time()
        await cluster.stop(leaver)
        await cluster.all_know("t", successor, successor, third)
        assert cluster.loop.time() - began_s < 5
        await cluster.start(leaver)
        await cluster.all_know("t", successor, 1, 2, 3)

    tell(story)


def test_a_broker_whose_directory_is_of_another_cluster_is_not_taken() -> None:
    async def story(cluster: Cluster) -> None:
        cluster.kill(3)
        disk = cluster.disks[3] = MemoryDisk()
        format_directory(
            disk,
            SeededRandom(99),
            now_ms=cluster.clock.now_ms(),
            node_id=BrokerId(3),
            controller_listener=BrokerListener("CONTROLLER", "", 0),
            initial_controllers=(),
        )
        with pytest.raises((MoldauError, TimeoutError)):
            async with asyncio.timeout(PATIENCE_S):
                await cluster.start(3)

    tell(story)
