"""The machine of the broker with damaged disks, once the story has ended: one node starts and stops on it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.loop import ProcessKilledError, SimulatedProcess
from moldau.simulation.node_machine import NodeMachine
from moldau.simulation.violation import ViolationError

PATIENCE_S = 120.0
QUICK_DELETION = {"log.segment.delete.delay.ms": "2000"}
"""What the node deletes is gone before it stops again."""
MAX_CALLS = 300_000


class DamagedMachine(NodeMachine):
    """Starts, stops and kills the node. Raises ViolationError where one of that does not come to an end."""

    def __init__(self, broker: NodeMachine, disks: list[MemoryDisk]) -> None:
        super().__init__(broker.around, broker.host, broker.settings | QUICK_DELETION, disks, broker.clock)
        # the next processes of the machine: one that has the name of an earlier process draws its incarnation id again,
        # and the controller takes it for the broker that has stopped
        self.boots = broker.boots
        self.max_calls = MAX_CALLS
        """Of the disk by one process: a walk that goes on without end is stopped by it."""
        self._calls = 0

    async def start(self) -> BaseException | None:
        """Gives what the start was refused with; None: the node serves."""
        self._calls = 0
        node = self._make_process()
        refusal = await self._run(node.start(), "start")
        self.node = node
        if refusal is not None:
            self.kill("process", is_told=False)
        return refusal

    async def end(self) -> None:
        """A clean stop. Raises ViolationError where that fails."""
        error = None if self.node is None else await self._run(self.node.stop(), "stop")
        if error is not None:
            raise ViolationError("the node starts and stops", f"stop with a flipped bit: {error!r}") from error
        self.kill("process", is_told=False)

    def _before_call(self) -> None:
        self._calls += 1
        if self._calls > self.max_calls:
            story = f"a node calls its disk {self._calls} times"
            self.around.violate(ViolationError("nothing hangs", story))
            raise ProcessKilledError(self.host)
        super()._before_call()

    async def _run(self, work: Coroutine[Any, Any, None], what: str) -> BaseException | None:
        process: SimulatedProcess | None = self.process
        if process is None:
            return None
        task = self.around.loop.run_in_process(process, work)
        done, _ = await asyncio.wait((task,), timeout=PATIENCE_S)
        if not done:
            raise ViolationError("nothing hangs", f"a {what} with a flipped bit takes longer than {PATIENCE_S} s")
        return task.exception()
