"""The world of a cluster: its machines, their network, the promises to clients, and the rules."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from moldau.core.config.topic_settings import TRANSACTION_STATE_TOPIC
from moldau.core.groups.group_partitions import partition_for_group
from moldau.simulation.client import Client
from moldau.simulation.client_world import ClientWorld
from moldau.simulation.cluster.machine import ClusterMachine
from moldau.simulation.cluster.routed_client import RoutedClient
from moldau.simulation.cluster.settings import Voters, brokers_of, host_of, node_ids_of, voters_of
from moldau.simulation.cluster.watch import ClusterEvent, ClusterWatch
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.violation import ViolationError
from moldau.types import Uuid

RETRIABLE_IN_A_CLUSTER = (19, 20, 74, 75, 78)
"""Too few in-sync replicas, before or after the append; another leader epoch; a leader that does not know the high
watermark yet."""


class ClusterWorld(ClientWorld):
    """All draws come from `seed`."""

    retriable = (*ClientWorld.retriable, *RETRIABLE_IN_A_CLUSTER)
    pauses_s = (0.05, 0.2, 0.4)

    def __init__(self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None = None) -> None:
        super().__init__(seed, loop, write_line, SimulatedClock(loop))
        self.machines = [ClusterMachine(self, node_id) for node_id in node_ids_of(seed)]
        self.hosts = tuple(host_of(node_id) for node_id in brokers_of(seed))
        """The hosts of the brokers, which clients connect to."""
        self.watch = ClusterWatch(self.machines, self.trace)
        self._epochs: dict[str, dict[tuple[Uuid, int], int]] = {}
        """The leader epochs that each client remembers."""
        self.watch.lost = lambda topic_id, index: self.ledger.partition(topic_id, index).allow_loss()
        self.racks: dict[str, str] = {}
        """The racks of clients that read from a near replica."""
        for machine in self.machines:
            machine.dropping = lambda node, machine=machine: self._checked(self.watch.look_at_image, machine)  # type: ignore[misc]
        self.network.after_request = self.look

    async def connect(self, name: str, random: Random) -> RoutedClient:
        return RoutedClient(
            self.network,
            self.hosts,
            name,
            random,
            self._epochs.setdefault(name, {}),
            rack=self.racks.get(name, ""),
            read_near=self._read_near,
            is_leader=self._is_leader,
        )

    def _is_leader(self, host: str, topic: str | Uuid, index: int) -> bool:
        """Whether the host is the leader, by the newest image of any node."""
        image = self.watch.newest
        found = image.topics_by_name.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
        return found is not None and index in found.partitions and host == host_of(found.partitions[index].leader)

    def coordinates(self, client: Client, transactional_id: str) -> bool:
        answering, topic = client.answering, self.watch.newest.topics_by_name.get(TRANSACTION_STATE_TOPIC)
        if answering is None or topic is None:
            return False
        index = partition_for_group(transactional_id, len(topic.partitions))
        return self._is_leader(answering.host, TRANSACTION_STATE_TOPIC, index)

    def _read_near(self) -> None:
        self.watch.happened[ClusterEvent.NEAR_READ] += 1

    @property
    def is_disk_limited(self) -> bool:
        return any(machine.is_disk_limited for machine in self.machines)

    def end_work(self) -> None:
        """Stops the threads of all machines at the end of the world."""
        for machine in self.machines:
            machine.end_work()

    def look(self) -> None:
        """Checks the internal state of nodes after every request."""
        self._checked(self.watch.look)

    def _checked(self, look: Callable[..., None], *of: ClusterMachine) -> None:
        if self.failed.done():
            return
        try:
            look(*of)
        except ViolationError as violation:
            self.violate(violation)

    def is_whole(self) -> bool:
        """Whether every node is up, and every partition known to any of them has all replicas in sync."""
        if not all(machine.is_up for machine in self.machines):
            return False
        image = self.watch.newest
        topics = image.topics_by_id.values()
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        return all(broker.is_active for broker in image.brokers.values()) and all(
            len(partition.isr) == len(partition.replicas) for partition in partitions
        )

    def lacks_nothing(self) -> bool:
        """Whether everything is whole, every node has all committed metadata, and the voters are the controllers with
        their present disks."""
        self.look()  # a flush may have committed more since the last request
        return self.is_whole() and self.watch.is_quorum_whole(voters_of(self.seed) is Voters.REPLACED)

    def check_nodes(self) -> None:
        """Checks the rules about each node as a whole."""
        for machine in self.machines:
            if machine.node is not None and machine.node.failure is not None:
                raise ViolationError("invariants hold", f"{machine.host} stopped: {machine.node.failure}")
