"""Requests and answers between hosts: delayed, lost one way or both, delivered in any order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.replication.timeline import Timeline
from moldau.simulation.trace import Trace

Respond = Callable[[object], None]
Receive = Callable[[object, Respond], None]
"""Takes a request; `respond` may be called later, at most once."""


class Network:
    """A host that is down, or was never there, receives nothing."""

    def __init__(self, timeline: Timeline, random: Random, trace: Trace, *, loss_percent: int) -> None:
        self.timeline = timeline
        self.trace = trace
        self.loss_percent = loss_percent
        self.hosts: dict[str, tuple[SimulatedProcess, Receive]] = {}
        """The process that runs on the host, and what takes its requests."""
        self._cut: dict[tuple[str, str], int] = {}
        """Until when nothing passes from one host to the other."""
        self._slow: dict[tuple[str, str], tuple[int, int]] = {}
        """Until when, and by how many ms, a link delays."""
        self._random = random

    def cut(self, source: str, target: str, duration_ms: int) -> None:
        self._cut[source, target] = self.timeline.now_ms + duration_ms

    def slow(self, source: str, target: str, duration_ms: int, delay_ms: int) -> None:
        self._slow[source, target] = (self.timeline.now_ms + duration_ms, delay_ms)

    def heal(self) -> None:
        self._cut.clear()
        self._slow.clear()
        self.loss_percent = 0

    def call(
        self,
        caller: SimulatedProcess,
        source: str,
        target: str,
        request: object,
        take_answer: Callable[[object | None], None],
        timeout_ms: int,
    ) -> None:
        """`take_answer` is called once: with the answer, or with None after `timeout_ms`."""
        is_answered = False

        def answer(value: object | None) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                take_answer(value)

        def receive() -> None:
            host = self.hosts.get(target)
            if host is None or host[0].is_dead:
                return
            process, take = host

            def respond(value: object) -> None:
                self._carry(target, source, lambda: answer(value), caller)

            # a paused process takes its requests when it goes on
            self.timeline.after(0, lambda: take(request, respond), process)

        self._carry(source, target, receive, None)
        self.timeline.after(timeout_ms, lambda: answer(None), caller)

    def _carry(self, source: str, target: str, act: Callable[[], None], process: SimulatedProcess | None) -> None:
        delay_ms = 1 + self._random.randrange(4)
        is_lost = self._random.randrange(100) < self.loss_percent
        until_ms, extra_ms = self._slow.get((source, target), (0, 0))
        jitter_ms = self._random.randrange(1 + extra_ms)
        if is_lost or self._cut.get((source, target), 0) > self.timeline.now_ms:
            self.trace.note("lost", source, target)
            return
        if until_ms > self.timeline.now_ms:
            delay_ms += jitter_ms
        self.timeline.after(delay_ms, act, process)
