"""Three whole nodes of one cluster, brokers and controllers, in the simulator's network and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.metadata.image import BrokerListener, PartitionImage
from moldau.errors import MoldauError
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.node.assemble import Node
from moldau.shell.node.metrics.collect import collect
from moldau.shell.node.ports import NodePorts
from moldau.shell.node.storage_format import format_directory
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.loop import SimulatedProcess, VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.trace import Trace
from moldau.types import BrokerId, TopicPartition
from moldau.wire.protocol.messages.topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from tests.support.virtual_time import until

NODE_IDS = (1, 2, 3)
CLUSTER_ID = "tBkDQh1jQTWVvPkPqJ9o1w"


class Cluster:
    """`nodes`: the running ones, by id. `kill` ends one like kill -9; `start` begins another life on the same disk."""

    def __init__(
        self,
        loop: VirtualLoop,
        voter_ids: tuple[int, ...] = NODE_IDS,
        texts: Mapping[int, dict[str, str]] = MappingProxyType({}),
        machine: str = "",
    ) -> None:
        """All nodes are brokers, those of `voter_ids` controllers too. `texts`: settings of some nodes, which override
        the common ones. `machine`: the host name that each node reports, if the others reach it by another one."""
        self._voter_ids = voter_ids
        self.loop = loop
        self._texts = texts
        self.machine = machine
        self.network = SimulatedNetwork(loop, 1, Trace(loop.time))
        self.clock = SimulatedClock(loop)
        self.disks = {node_id: MemoryDisk() for node_id in NODE_IDS}
        self.nodes: dict[int, Node] = {}
        self.further_disks: dict[int, tuple[MemoryDisk, ...]] = {}
        self.unopened_paths: dict[int, tuple[str, ...]] = {}
        """The further log directories of a node's next life: those that it opens, and those that it cannot open."""
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

    async def start(self, *node_ids: int, settings: dict[str, str] | None = None) -> None:
        """Returns when they serve; `settings`: further ones, of this life."""
        await asyncio.gather(*(self._start(node_id, settings or {}) for node_id in node_ids))

    async def _start(self, node_id: int, settings: dict[str, str]) -> None:
        self._lives += 1
        host, is_voter = f"node-{node_id}", node_id in self._voter_ids
        texts = {
            "node.id": str(node_id),
            "process.roles": "broker,controller" if is_voter else "broker",
            "listeners": f"PLAINTEXT://{host}:9092" + (f",CONTROLLER://{host}:9093" if is_voter else ""),
            "controller.quorum.voters": ",".join(f"{voter}@node-{voter}:9093" for voter in self._voter_ids),
            "moldau.http.listener": f"{host}:9644",
            **self._texts.get(node_id, {}),
            **settings,
        }
        network = HostNetwork(self.network, host)
        random = SeededRandom(1_000 * node_id + self._lives)
        ports = NodePorts(
            self.clock,
            random,
            self.disks[node_id],
            InlineWorkers(),
            network,
            further_disks=self.further_disks.get(node_id, ()),
            unopened_paths=self.unopened_paths.get(node_id, ()),
            host_name=lambda: self.machine or host,
        )
        node = self.nodes[node_id] = Node(parse_broker_settings(texts), ports)
        process = self._processes[node_id] = SimulatedProcess(host)
        await self.loop.run_in_process(process, node.start())

    def kill(self, node_id: int) -> None:
        process = self._processes[node_id]
        self.loop.kill(process)
        self.network.drop_process(process)
        self.disks[node_id].crash_process()
        del self.nodes[node_id]

    async def metrics(self, node_id: int) -> dict[str, float]:
        """The samples of the node's `/metrics`, by name and labels."""
        operations = self.nodes[node_id].operations
        assert operations is not None
        page = (await collect(operations.status)).decode()
        rows = (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in rows}

    async def stop(self, node_id: int) -> None:
        await self.nodes.pop(node_id).stop()

    async def create(self, name: str, *replicas: int, by: int) -> None:
        """Creates a topic of one partition by a request to a broker."""
        topic = CreatableTopic(name, -1, -1, (CreatableReplicaAssignment(0, replicas),))
        response = await self.nodes[by].broker.submit(CreateTopicsRequest((topic,), 10_000))
        assert [result.error_code for result in response.topics] == [0]

    async def create_known(self, name: str, *replicas: int, by: int) -> None:
        """As `create`, and waits until all brokers know the topic with its replicas in sync."""
        await self.create(name, *replicas, by=by)
        await self.all_know(name, replicas[0], *replicas)

    async def leads_quorum(self, node_id: int) -> bool:
        described = await self.nodes[node_id].broker.controller.describe_quorum()
        return described.topics[0].partitions[0].leader_id == node_id

    def partition(self, name: str, as_known_to: int) -> PartitionImage | None:
        return self.nodes[as_known_to].broker.image.partition(TopicPartition(name, 0))

    def epochs_led_by(self, node_id: int) -> list[int]:
        """Of the partitions that a node leads; it may still be starting."""
        try:
            partitions = self.nodes[node_id].broker.partitions
        except MoldauError:
            return []
        return [partition.leader_epoch for partition in partitions if partition.leader is not None]

    async def pass_time(self, duration_s: float) -> None:
        """On the virtual clock."""
        await asyncio.sleep(duration_s)

    async def until(self, condition: Callable[[], bool]) -> None:
        await until(condition)

    async def all_know(self, name: str, leader: int, *isr: int) -> None:
        def is_known() -> bool:
            seen = [self.partition(name, node_id) for node_id in self.nodes]
            return all(one is not None and (one.leader, sorted(one.isr)) == (leader, sorted(isr)) for one in seen)

        await self.until(is_known)


def tell(
    story: Callable[[Cluster], Awaitable[None]],
    texts: Mapping[int, dict[str, str]] = MappingProxyType({}),
    *,
    voter_ids: tuple[int, ...] = NODE_IDS,
    settings: dict[str, str] | None = None,
    machine: str = "",
) -> None:
    """Runs `story` with three nodes that serve. `settings`: of all nodes; for the others see Cluster."""
    loop = VirtualLoop()
    texts = {node_id: {**(settings or {}), **texts.get(node_id, {})} for node_id in NODE_IDS}

    async def run() -> None:
        cluster = Cluster(loop, voter_ids, texts, machine)
        await cluster.start(*NODE_IDS)
        await story(cluster)
        assert [node.failure for node in cluster.nodes.values()] == [None] * len(cluster.nodes)

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
