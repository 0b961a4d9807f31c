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
    """Whether `machine` may fail like this, because acknowledged records must survive the failure too."""

    def __call__(self, machine: ReplicaMachine, *, is_power_lost: bool) -> bool: ...


class ReplicaMachine(Machine):
    """`broker` is None while no process runs."""

    def __init__(self, story: Story, broker_id: int, may_fail: MayFail, acknowledged: Callable[[int], None]) -> None:
        """`acknowledged`: see BrokerProcess."""
        super().__init__(story, f"broker-{broker_id}", [MemoryDisk()], ended=self._check_survivors)
        self.story = story
        self.broker_id = broker_id
        self.broker: BrokerProcess | None = None
        self.has_failed = False
        """The broker has not stopped cleanly since it registered."""
        self.has_lost_power = False
        """Power was lost since the broker registered: records that the controller expects on it may be gone."""
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
        """The controller no longer relies on the earlier state of the broker."""
        self.has_failed = self.has_lost_power = False

    def crash(self, *, is_power_lost: bool, is_clean: bool = False) -> None:
        """kill -9, or a loss of power, which drops unflushed data. `is_clean`: the broker had stopped before."""
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
        """Stops the broker cleanly, once it is registered."""
        broker = self.broker
        if broker is None or broker.broker_epoch < 0:
            return
        self.story.trace.tell(f"{self.host} stops")
        broker.stop()
        self.crash(is_power_lost=False, is_clean=True)

    def plan_death(self, changes: int, random: Random) -> None:
        """The process dies inside its `changes`-th change of the disk from now, or in the first later one at which it
        may. It loses power then, if allowed."""
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
        """As `start`. If the process dies by its own crash plan during the start, the next call starts it again."""
        try:
            self.start()
        except ProcessKilledError:
            return
