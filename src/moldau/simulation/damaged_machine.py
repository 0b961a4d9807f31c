"""The machine of the broker with damaged disks, after the end of the story. One node starts and stops on it."""

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
"""Deleted files are removed before the node stops again."""
MAX_CALLS = 300_000


class DamagedMachine(NodeMachine):
    """Starts, stops and kills the node. Raises ViolationError if a start, a stop or a kill does not finish."""

    def __init__(self, broker: NodeMachine, disks: list[MemoryDisk]) -> None:
        super().__init__(broker.around, broker.host, broker.settings | QUICK_DELETION, disks, broker.clock)
        # the next processes of the machine need a new name: with the name of an earlier process they would draw its
        # incarnation id again, and the controller would take them for the stopped broker
        self.boots = broker.boots
        self.max_calls = MAX_CALLS
        """The maximum of disk calls by one process. It ends an endless loop."""
        self._calls = 0

    async def start(self) -> BaseException | None:
        """Returns the error of a failed start; None if the node serves."""
        self._calls = 0
        node = self._make_process()
        refusal = await self._run(node.start(), "start")
        self.node = node
        if refusal is not None:
            self.kill("process", is_told=False)
        return refusal

    async def end(self) -> None:
        """A clean stop. Raises ViolationError if it fails."""
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
