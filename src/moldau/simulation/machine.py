"""A second machine of a story, with disks and a wire of its own, on which one node starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import TYPE_CHECKING, Any

from moldau.shell.io.twins.memory_disk import MemoryDisk
from moldau.shell.node.assemble import Node
from moldau.simulation.doors import ProcessDisk
from moldau.simulation.loop import ProcessKilledError, SimulatedProcess
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.violation import ViolationError
from moldau.simulation.workers import SimulatedWorkers

if TYPE_CHECKING:
    from moldau.simulation.world import SimulatedEventLog, World

PATIENCE_S = 120.0
QUICK_DELETION = {"log.segment.delete.delay.ms": "2000"}
"""What the node deletes is gone before it stops again."""
MAX_CALLS = 300_000
"""Of the disk by one process: a walk that goes on without end is stopped by it."""


class DamagedMachine:
    """Starts, stops and kills the node. Raises ViolationError where one of that does not come to an end."""

    def __init__(self, world: World, disks: list[MemoryDisk]) -> None:
        self.world = world
        self.disks = disks
        self.port = world.port
        self.boots = 0
        self.calls = 0
        self.process: SimulatedProcess
        self.network: SimulatedNetwork
        self.workers: SimulatedWorkers
        self.node: Node
        self.log: SimulatedEventLog

    async def start(self) -> BaseException | None:
        """Gives what the start was refused with; None: the node serves."""
        world = self.world
        self.boots += 1
        self.calls = 0
        name = f"flipped-{self.boots}"
        self.process = process = SimulatedProcess(name)
        self.network = SimulatedNetwork(world.loop, Random(f"{world.seed}/{name}/network"), world.trace)
        self.network.kept_buffer_of = world.network.kept_buffer_of
        self.workers = SimulatedWorkers(
            world.loop, process, Random(f"{world.seed}/{name}/workers"), world.worker_weather
        )
        disks = [ProcessDisk(disk, process, world.trace) for disk in self.disks]
        for disk in disks:
            disk.before_call = self.before_call
        random = Random(f"{world.seed}/{name}")
        settings = world.settings | QUICK_DELETION
        self.node, self.log = world.make_node(settings, disks, self.workers, self.network, random)
        refusal = await self._run(self.node.start(), "start")
        if refusal is not None:
            self.kill()
        return refusal

    async def stop(self) -> None:
        error = await self._run(self.node.stop(), "stop")
        if error is not None:
            raise ViolationError("the node starts and stops", f"stop with a flipped bit: {error!r}") from error
        self.kill()

    def kill(self) -> None:
        """The process ends; the disks keep what it wrote."""
        self.world.loop.kill(self.process)
        self.world.loop.graveyard.append(self.node)
        self.workers.close()
        self.network.drop_process(self.process, is_silent=False)
        for disk in self.disks:
            disk.crash_process()

    def before_call(self) -> None:
        self.calls += 1
        if self.calls > MAX_CALLS:
            self.world.violate(ViolationError("nothing hangs", f"a node calls its disk {self.calls} times"))
            raise ProcessKilledError(self.process.name)
        self.workers.rest()

    async def _run(self, work: Coroutine[Any, Any, None], what: str) -> BaseException | None:
        task = self.world.loop.run_in_process(self.process, work)
        done, _ = await asyncio.wait((task,), timeout=PATIENCE_S)
        if not done:
            raise ViolationError("nothing hangs", f"a {what} with a flipped bit takes longer than {PATIENCE_S} s")
        return task.exception()
