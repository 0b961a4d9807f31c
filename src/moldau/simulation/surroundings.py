"""The shared parts of a world: the seed, the time, the network, the trace, and the end by a broken rule."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from random import Random
from traceback import format_exception
from typing import Any

from moldau.ports import Clock
from moldau.shell.network.event_log import EventLog
from moldau.simulation.kinds import random_of
from moldau.simulation.loop import SimulatedProcess, VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.trace import Trace
from moldau.simulation.violation import ViolationError

KEPT_LINES = 2_000


class Surroundings:
    """One world. All randomness comes from `random_of`, and no code draws from another's stream."""

    def __init__(self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = Trace(loop.time, write_line)
        self.network = SimulatedNetwork(loop, seed, self.trace)
        self.failed: asyncio.Future[ViolationError] = loop.create_future()
        loop.on_unhandled = self.failed_unseen
        self._nobody = copy_context()

    def random_of(self, name: str) -> Random:
        """The random stream for `name`."""
        return random_of(self.seed, name)

    def after(self, delay_ms: float, act: Callable[[], None], process: SimulatedProcess | None = None) -> None:
        """Calls `act` after `delay_ms`, unless `process` is dead by then."""
        context = self._nobody if process is None else process.context
        self.loop.call_later(delay_ms / 1_000, act, context=context)

    def violate(self, violation: ViolationError) -> None:
        """Ends the world with the first violation."""
        if not self.failed.done():
            self.trace.tell(f"VIOLATION {violation}")
            self.failed.set_result(violation)

    def failed_unseen(self, story: str, error: BaseException | None) -> None:
        """An error reached the loop's exception handler."""
        self.violate(error if isinstance(error, ViolationError) else ViolationError("nothing fails unseen", story))

    async def first_violation(self, story: Coroutine[Any, Any, None]) -> ViolationError | None:
        """Runs `story` to its end or to the first violation, and returns the violation. Raises any other error of the
        story."""
        telling = asyncio.ensure_future(story)
        await asyncio.wait((telling, self.failed), return_when=asyncio.FIRST_COMPLETED)
        if self.failed.done():
            telling.cancel()
            return self.failed.result()
        error = telling.exception()
        if error is None or isinstance(error, ViolationError):
            return error
        raise error


class SimulatedEventLog(EventLog):
    """Adds the node's log to the story. An unexpected error is a violation."""

    __slots__ = ("_around", "_who", "lines")

    def __init__(self, around: Surroundings, clock: Clock, who: str) -> None:
        """`who` is the source of the lines."""
        super().__init__(clock)
        self._around = around
        self._who = who
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        """The warnings and errors of this node."""

    def write(self, level: int, kind: str, message: str, **fields: str | int) -> None:
        if level >= logging.WARNING:
            self.lines.append(message)
        self._around.trace.tell(f"{self._who}: {logging.getLevelName(level)} {message.splitlines()[0]}")

    def finding(self, level: int, kind: str, message: str) -> None:
        self.write(level, kind, message)

    def unforeseen(self, kind: str, message: str, error: BaseException) -> None:
        story = f"{message}\n{''.join(format_exception(error))}"
        self._around.violate(ViolationError("nothing fails unseen", story))
