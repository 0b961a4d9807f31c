"""A machine of a cluster: formatted in advance, and started again whenever its process has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from moldau.core.metadata.image import BrokerListener
from moldau.shell.io.twins.memory_disk import MemoryDisk
from moldau.shell.io.twins.random import SeededRandom
from moldau.shell.node.storage_format import format_directory
from moldau.simulation.cluster.settings import host_of, settings_of
from moldau.simulation.node_machine import NodeMachine
from moldau.simulation.surroundings import Surroundings
from moldau.simulation.violation import ViolationError
from moldau.types import BrokerId

CLUSTER_ID = "tBkDQh1jQTWVvPkPqJ9o1w"
DOWN_S = (0.05, 0.5, 2.5, 8.0)
"""How long a process that has ended stays away: one of these."""


class ClusterMachine(NodeMachine):
    """`has_lost_power`: what it had not flushed is gone, and it has not come back into all in-sync replicas since."""

    def __init__(self, around: Surroundings, node_id: int) -> None:
        host, disk = host_of(node_id), MemoryDisk()
        super().__init__(around, host, settings_of(around.seed, node_id), [disk], ended=self._process_ended)
        self.node_id = node_id
        self.has_lost_power = False
        self.is_calm = False
        """Trouble has ended: a start that fails is a fault of the node."""
        self._restarts = around.random_of(f"{host}/restarts")
        format_directory(
            disk,
            SeededRandom(around.random_of(f"{host}/format").getrandbits(64)),
            now_ms=self.clock.now_ms(),
            node_id=BrokerId(node_id),
            controller_listener=BrokerListener("CONTROLLER", "", 0),
            cluster_id=CLUSTER_ID,
            initial_controllers=(),
        )

    def start_if_down(self) -> None:
        if not self.is_alive:
            self.heal_disks()
            self.is_disk_troubled = False
            self._begin(self.boot())

    def stop_soon(self) -> None:
        """A clean stop; the process may die on the way."""
        if self.is_up:
            self._begin(self.stop())

    def give_room(self) -> None:
        """The disk has room again. A directory that went offline for want of it is served after the next start."""
        self.limit_disks(None)
        if self.node is not None and self.node.quorum.is_offline:
            self.kill("process")

    def replace_disk(self) -> None:
        """Whoever sees that a disk fails starts the node anew on one that does not."""
        if self.is_disk_troubled:
            self.kill("process")

    def _begin(self, work: Coroutine[Any, Any, bool]) -> None:
        async def until_violated() -> None:
            try:
                await work
            except ViolationError as violation:
                self.around.violate(violation)

        task = asyncio.ensure_future(until_violated())
        self.around.loop.graveyard.append(task)

    def _process_ended(self, is_power_lost: bool) -> None:
        self.has_lost_power = self.has_lost_power or is_power_lost
        self.around.after(0.0 if self.is_calm else 1_000 * self._restarts.choice(DOWN_S), self.start_if_down)

    def _failed(self, what: str, error: BaseException) -> None:
        """In trouble a start may not find the others in time."""
        if self.is_calm:
            super()._failed(what, error)
        self.kill("process")

    def plan_death(self, changes: int, random: Random) -> None:
        self.plan_crash("process", changes, random)
