"""A machine on which brokers with one replica run, one process after the other."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Protocol

from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.loop import ProcessKilledError
from moldau.simulation.machine import Machine
from moldau.simulation.ports import CrashPlan
from moldau.simulation.replication.broker import PARTITION, BrokerProcess
from moldau.simulation.replication.story import Story


class MayFail(Protocol):
    """Whether what was acknowledged must survive this failure of `machine`, too."""

    def __call__(self, machine: ReplicaMachine, *, is_power_lost: bool) -> bool: ...


class ReplicaMachine(Machine):
    """`broker` is None while nothing runs."""

    def __init__(self, story: Story, broker_id: int, may_fail: MayFail, acknowledged: Callable[[int], None]) -> None:
        """`acknowledged`: see BrokerProcess."""
        super().__init__(story, f"broker-{broker_id}", [MemoryDisk()], ended=self._check_survivors)
        self.story = story
        self.broker_id = broker_id
        self.broker: BrokerProcess | None = None
        self.has_failed = False
        """The broker did not stop cleanly since it registered."""
        self.has_lost_power = False
        """Since it registered: what the controller thinks that it has may be gone."""
        self._may_fail = may_fail
        self._acknowledged = acknowledged

    def start(self) -> None:
        """Does nothing if a process runs."""
        if self.is_alive:
            return
        process, story = self.begin_process(), self.story
        story.trace.tell(f"{self.host} starts ({self.boots})")
        disk = self.process_disks[0]
        self.broker = broker = BrokerProcess(story, self.broker_id, self.boots, process, disk, self._acknowledged)
        story.calls.serve(self.host, process, broker.receive)
        broker.start()

    def registered(self) -> None:
        """The controller counts on nothing that the broker had before."""
        self.has_failed = self.has_lost_power = False

    def crash(self, *, is_power_lost: bool, is_clean: bool = False) -> None:
        """kill -9, or the loss of power, which takes what was not flushed. `is_clean`: the broker had stopped."""
        if not self.is_alive:
            return
        self.story.trace.tell(f"{self.host} {'loses power' if is_power_lost else 'is killed'}")
        self.has_failed = self.has_failed or not is_clean
        self.has_lost_power = self.has_lost_power or is_power_lost
        self.kill("machine" if is_power_lost else "process", is_told=False)

    def _dropped(self) -> None:
        self.broker = None

    def _check_survivors(self, is_power_lost: bool) -> None:
        self.story.ledger.survived(self.host, self.disks[0], f"{PARTITION}", is_power_lost=is_power_lost)

    def stop(self) -> None:
        """A clean stop of the broker, once it is registered."""
        broker = self.broker
        if broker is None or broker.broker_epoch < 0:
            return
        self.story.trace.tell(f"{self.host} stops")
        broker.stop()
        self.crash(is_power_lost=False, is_clean=True)

    def plan_death(self, changes: int, random: Random) -> None:
        """The process dies inside its `changes`-th change of the disk from now, or the first one after that at which it
        may; power is lost then if it may be."""
        if self.broker is None:
            return
        disk = self.broker.disk
        plan = disk.plan = CrashPlan(changes, random.choice(("power", "process")), random, self._die)

        def postpone() -> None:
            if plan.changes_left <= 1 and not self._may_fail(self, is_power_lost=False):
                plan.changes_left = 2

        disk.before_call = postpone

    def _die(self, kind: str) -> None:
        self.crash(is_power_lost=kind == "power" and self._may_fail(self, is_power_lost=True))

    def start_if_down(self) -> None:
        """As `start`; a process that dies of its own crash plan meanwhile is started again by the next call."""
        try:
            self.start()
        except ProcessKilledError:
            return
