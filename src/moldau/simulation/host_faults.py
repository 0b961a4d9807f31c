"""The faults of hosts in every story: deaths, cut and slow links, pauses.

Each kind has its own random stream, so a new kind changes no existing draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.surroundings import Surroundings

FaultKinds = dict[str, tuple[int, Callable[[Random], None]]]
"""The average time in ms between two faults, and the fault, by the name of its stream."""
ONE_WAY_MS = (300, 1_500, 3_000)


class FaultyHost(Protocol):
    """The methods of a machine that faults use. `process` is the last process, perhaps dead; None before the first."""

    @property
    def host(self) -> str: ...
    @property
    def process(self) -> SimulatedProcess | None: ...
    @property
    def is_alive(self) -> bool: ...
    def start_if_down(self) -> None: ...
    def stop(self) -> None: ...
    def plan_death(self, changes: int, random: Random) -> None: ...


class HostFaults:
    """`begin` starts two of three kinds; no fault begins after `end`. Links between the hosts `server_names` are
    slowed, and cut in one direction."""

    def __init__(self, story: Surroundings, server_names: Sequence[str]) -> None:
        self._story = story
        self._server_names = [*server_names]
        self.is_ended = False

    def begin(self, kinds: FaultKinds) -> None:
        for name, (mean_ms, act) in kinds.items():
            random = self._story.random_of(name)
            if random.randrange(3):  # two of three kinds, so that stories differ
                self._plan(random, mean_ms, act)

    def end(self) -> None:
        self.is_ended = True

    def _plan(self, random: Random, mean_ms: int, act: Callable[[Random], None]) -> None:
        def happen() -> None:
            if not self.is_ended:
                act(random)
                self._plan(random, mean_ms, act)

        self._story.after(1 + int(random.expovariate(1 / mean_ms)), happen)

    def start_later(self, machine: FaultyHost, random: Random) -> None:
        self._story.after(random.choice((50, 500, 2_500)), machine.start_if_down)

    def stop(self, machine: FaultyHost, random: Random) -> None:
        machine.stop()
        self.start_later(machine, random)

    def crash_inside_a_call(self, machine: FaultyHost, random: Random, *, within: int) -> None:
        """Plans a crash inside one of its next `within` changes of the disk."""
        machine.plan_death(1 + random.randrange(within), random)
        for delay_ms in (1_000, 2_000, 4_000):
            self._story.after(delay_ms, machine.start_if_down)

    def cut_off(self, host: str, others: Sequence[str], duration_ms: int) -> None:
        self._story.trace.tell(f"{host} is cut off from {', '.join(others)} for {duration_ms} ms")
        for other in others:
            self._story.network.cut(host, other, duration_ms / 1_000)
            self._story.network.cut(other, host, duration_ms / 1_000)

    def cut_one_way(self, random: Random, durations_ms: Sequence[int] = ONE_WAY_MS) -> None:
        if len(self._server_names) < 2:
            return
        source, target = random.sample(self._server_names, 2)
        duration_ms = random.choice(durations_ms)
        self._story.trace.tell(f"nothing passes from {source} to {target} for {duration_ms} ms")
        self._story.network.cut(source, target, duration_ms / 1_000)

    def slow_link(self, random: Random) -> None:
        if len(self._server_names) < 2:
            return
        source, target = random.sample(self._server_names, 2)
        self._story.network.slow(source, target, random.choice((0.5, 3.0)), random.choice((0.05, 0.8, 2.5)))

    def pause(self, machine: FaultyHost, random: Random) -> None:
        process = machine.process
        if process is not None and machine.is_alive:
            duration_ms = random.choice((200, 1_500, 3_000))
            self._story.trace.tell(f"{machine.host} pauses for {duration_ms} ms")
            loop = self._story.loop
            loop.pause(process)
            self._story.after(duration_ms, lambda: loop.resume(process))
