"""The world of one seed: its machines, its network, the promises to clients, and the rules."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.checkers.survivors import log_end_on_disk
from moldau.simulation.client import BrokerClient
from moldau.simulation.client_world import ClientWorld
from moldau.simulation.kinds import has_kind
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.node_machine import NodeMachine
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.transaction_events import TransactionWatch
from moldau.simulation.violation import ViolationError

DIRECTORIES = 2
"""The number of log directories, if a seed has several."""
BROKER = "broker"
"""The host of the broker that the clients use."""


class World(ClientWorld):
    """The world of a broker and its clients."""

    def __init__(
        self, seed: int, loop: VirtualLoop, settings: dict[str, str], write_line: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(seed, loop, write_line, SimulatedClock(loop))
        self.settings = settings
        self.machines: dict[str, NodeMachine] = {}
        disks = [MemoryDisk() for _ in range(DIRECTORIES if has_kind(seed, "directories") else 1)]
        self.broker = self.add_machine(BROKER, settings, disks, self._check_survivors, self.clock)
        self.after_end: Callable[[bool], None] = lambda is_power_lost: None
        """Called after each stop and crash of the broker, with the final state of the disks."""
        self.stale_batch: tuple[int, int] | None = None
        """Partition and end offset of an aborted batch that will be sent again: see StaleSender."""
        self.transactions = TransactionWatch(self.count)
        self.broker.dropping = lambda node: self.transactions.process_dies(node.broker.coordination.transactions)
        self._high_watermarks: dict[int, int] = {}
        self._watched_boot = 0
        self.network.after_request = self.check_partitions

    def add_machine(
        self,
        host: str,
        settings: dict[str, str],
        disks: list[MemoryDisk],
        ended: Callable[[bool], None] = lambda is_power_lost: None,
        clock: SimulatedClock | None = None,
    ) -> NodeMachine:
        """Adds a host with a node, which starts with `boot`. `ended`, `clock`: see Machine."""
        machine = self.machines[host] = NodeMachine(self, host, settings, disks, clock, ended)
        return machine

    async def connect(self, name: str, random: Random) -> BrokerClient:
        return await BrokerClient.open(self.network, name, self.broker.host, random)

    @property
    def is_disk_limited(self) -> bool:
        return self.broker.is_disk_limited

    def end_work(self) -> None:
        """Stops the threads of all machines at the end of the world."""
        for machine in self.machines.values():
            machine.end_work()

    # -- rules

    def _check_survivors(self, is_power_lost: bool) -> None:
        """Compares the present contents of the broker's disks with the promises."""
        disks = self.broker.disks
        for (_, partition), ledger in self.ledger.partitions.items():
            directory = f"{ledger.topic}-{partition}"
            may_have_gaps = ledger.rules.is_compacted
            end = max(log_end_on_disk(disk, directory, may_have_gaps=may_have_gaps) for disk in disks)
            lost = ledger.survived(end, is_power_lost=is_power_lost)
            self.trace.note("survived", ledger.topic, partition, end, lost)
        self.after_end(is_power_lost)
        if is_power_lost:
            for group in self.groups.values():
                group.power_lost()

    # -- rules that look inside

    def metadata(self) -> tuple[object, ...]:
        """The node's topics, settings, quotas and features, and the next producer id. Omits the broker's own
        registration, which changes with each start."""
        if self.broker.node is None:
            return ()
        image = self.broker.node.broker.image
        topics = {
            topic.name: (topic.topic_id, tuple(sorted(topic.partitions)))
            for topic in sorted(image.topics_by_id.values(), key=lambda topic: topic.name)
        }
        return (
            topics,
            dict(sorted(image.configs.items(), key=lambda item: str(item[0]))),
            dict(sorted(image.client_quotas.items(), key=lambda item: str(item[0]))),
            dict(sorted(image.features.items())),
            image.next_producer_id,
        )

    def check_partitions(self) -> None:
        """After every request: the offsets of each partition must be in order, and no high watermark may go back."""
        node = self.broker.node
        if node is None or self.failed.done():
            return
        if self._watched_boot != self.broker.boots:
            self._watched_boot = self.broker.boots
            self._high_watermarks.clear()
        self.transactions.look(node.broker.coordination.transactions)
        known = self._high_watermarks
        for topic in node.broker.partitions.by_id.values():
            for partition in topic.partitions.values():
                number, high_watermark = partition.number, partition.position.high_watermark
                if not partition.are_offsets_in_order:
                    story = f"{partition.topic_partition}: offsets out of order"
                    self.violate(ViolationError("invariants hold", story))
                before = known.get(number, -1)
                if high_watermark < before:
                    story = f"{partition.topic_partition}: {before} to {high_watermark}"
                    self.violate(ViolationError("the high watermark never goes back", story))
                if high_watermark != before:
                    known[number] = high_watermark

    def check_node(self) -> None:
        """Checks the rules about the node and the loop as a whole."""
        node = self.broker.node
        if node is not None and node.failure is not None:
            raise ViolationError("invariants hold", f"the node stopped: {node.failure}")
