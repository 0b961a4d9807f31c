"""A machine of a world. Its disks and clock outlive the processes that run on it one after the other.

A world may have any number of machines. Each is a host on the network and has its own random streams. A subclass
decides what runs on it: a whole node (`node_machine`), or a replica of one partition (`replication`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.simulation.loop import SimulatedProcess
from moldau.simulation.ports import CrashPlan, ProcessDisk, SimulatedClock
from moldau.simulation.surroundings import Surroundings
from moldau.simulation.violation import ViolationError

SILENT_SHARE = 0.3
"""The default, unless a scenario sets another share."""


class Machine:
    """`host` is its name on the network. `ended` is called after each stop and crash, when the disks have their final
    state; the argument is whether power was lost."""

    def __init__(
        self,
        around: Surroundings,
        host: str,
        disks: list[MemoryDisk],
        clock: SimulatedClock | None = None,
        ended: Callable[[bool], None] = lambda is_power_lost: None,
    ) -> None:
        self.around = around
        self.host = host
        self.disks = disks
        self.clock = clock or SimulatedClock(around.loop)
        self.boots = 0
        self.process: SimulatedProcess | None = None
        self.process_disks: list[ProcessDisk] = []
        """The disks of the running process, one for each log directory."""
        self.died = asyncio.Event()
        self.silent_share = SILENT_SHARE
        """The share of power losses after which peers receive nothing, not even a reset."""
        self._ended = ended
        self._losses = around.random_of(f"{host}/losses of power")

    # -- processes

    @property
    def is_alive(self) -> bool:
        """Whether a process runs."""
        return self.process is not None and not self.process.is_dead

    def begin_process(self) -> SimulatedProcess:
        """Starts the next process, with its disk ports."""
        self.boots += 1
        self.process = process = SimulatedProcess(f"{self.host}-{self.boots}")
        self.process_disks = [ProcessDisk(disk, process, self.around.trace) for disk in self.disks]
        self.died.clear()
        return process

    def plan_crash(
        self,
        kind: str,
        changes: int,
        random: Random,
        begins_with: re.Pattern[str] | None = None,
        dying: Callable[[], None] = lambda: None,
    ) -> None:
        """Makes the process die inside its `changes`-th change of the disk from now, see CrashPlan. `dying` is called
        at the death."""
        if self.is_alive:
            begin = f" from {begins_with.pattern} on" if begins_with is not None else ""
            self.around.trace.tell(f"{self.host}: {kind} crash planned within {changes} changes of the disk{begin}")

            def kill(kind: str) -> None:
                dying()
                self.kill(kind)

            plan = CrashPlan(changes, kind, random, kill, begins_with)
            for disk in self.process_disks:
                disk.plan = plan

    def kill(self, kind: str, *, is_told: bool = True) -> None:
        """Ends the process at once: "process" keeps the page cache, "machine" loses it."""
        process = self.process
        if process is None or process.is_dead:
            return
        around = self.around
        if is_told:
            around.trace.tell(f"{self.host}: {kind} crash")
        around.loop.kill(process)
        self._dropped()
        is_power_lost = kind == "machine"
        around.network.drop_process(process, is_silent=is_power_lost and self._losses.random() < self.silent_share)
        self._leave_disks(is_power_lost)

    def lose_power(self) -> None:
        """Loses power, whether or not a process runs: unflushed data may be lost."""
        if self.is_alive:
            self.kill("machine")
        else:
            self.around.trace.tell(f"{self.host}: power is lost")
            self._leave_disks(is_power_lost=True)

    def _leave_disks(self, is_power_lost: bool) -> None:
        """Applies the end of the process, or the loss of power, to the disks."""
        for disk in self.disks:
            if is_power_lost:
                disk.crash_machine(SeededRandom(self._losses.getrandbits(64)))
            else:
                disk.crash_process()
        self.died.set()
        try:
            with self.without_faults():
                self._ended(is_power_lost)
        except ViolationError as violation:
            self.around.violate(violation)

    def _dropped(self) -> None:
        """The process is dead, so its objects are dropped."""

    # -- the disks

    def fail_disk(self, fault: Fault, random: Random) -> None:
        """Gives `fault` to one of the disks from now on."""
        random.choice(self.disks).fail(fault)

    def heal_disks(self) -> None:
        for disk in self.disks:
            disk.heal()

    def limit_disks(self, room_bytes: int | None) -> None:
        """Limits the space on each disk to this many more bytes; None: no limit."""
        for disk in self.disks:
            disk.capacity_bytes = None if room_bytes is None else disk.used_bytes() + room_bytes

    @property
    def is_disk_limited(self) -> bool:
        return any(disk.capacity_bytes is not None for disk in self.disks)

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Suspends disk faults for the checkers, because faults are meant for the node."""
        faults = [disk.faults for disk in self.disks]
        for disk in self.disks:
            disk.faults = []
        try:
            yield
        finally:
            for disk, kept in zip(self.disks, faults, strict=True):
                disk.faults = kept
