"""The trouble of a story: the faults of all hosts, and those of brokers and their controller."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from moldau.simulation.host_faults import HostFaults
from moldau.simulation.replication.controller import Controller
from moldau.simulation.replication.machine import MayFail, ReplicaMachine
from moldau.simulation.replication.story import Story


class Faults:
    """`begin` starts all kinds; no fault begins after `end`."""

    def __init__(
        self,
        story: Story,
        machines: Sequence[ReplicaMachine],
        controller: Controller,
        client_names: Sequence[str],
        may_fail: MayFail,
    ) -> None:
        self._story = story
        self._machines = machines
        self._controller = controller
        server_names = ["controller", *(machine.host for machine in machines)]
        self._host_names = [*server_names, *client_names]
        self._hosts = HostFaults(story, server_names)
        self._may_fail = may_fail
        self._armed: Random | None = None

    def begin(self) -> None:
        self._hosts.begin(
            {
                "kill": (4_000, self._kill),
                "power": (3_500, self._lose_power),
                "stop": (6_000, self._stop),
                "crash inside a call": (5_000, self._crash_inside_a_call),
                "isolate": (3_000, self._isolate),
                "cut one way": (3_000, self._hosts.cut_one_way),
                "slow link": (2_500, self._hosts.slow_link),
                "pause": (4_000, self._pause),
                "unheard answer": (3_000, self._arm),
            }
        )

    def end(self) -> None:
        self._hosts.end()

    def _machine(self, random: Random) -> ReplicaMachine:
        """A random machine, often the leader, where faults matter most."""
        leader = self._controller.partition.leader
        choice = random.choice(self._story.replicas)
        return self._machines[leader if leader >= 0 and random.randrange(2) else choice]

    def _kill(self, random: Random) -> None:
        self._fail(random, is_power_lost=False)

    def _lose_power(self, random: Random) -> None:
        self._fail(random, is_power_lost=True)

    def _fail(self, random: Random, *, is_power_lost: bool) -> None:
        machine = self._machine(random)
        if self._may_fail(machine, is_power_lost=is_power_lost):
            machine.crash(is_power_lost=is_power_lost)
        self._hosts.start_later(machine, random)

    def _stop(self, random: Random) -> None:
        self._hosts.stop(self._machine(random), random)

    def _crash_inside_a_call(self, random: Random) -> None:
        self._hosts.crash_inside_a_call(self._machine(random), random, within=40)

    def _isolate(self, random: Random) -> None:
        """Isolates a broker from all hosts, only from the controller, or only from the other brokers."""
        machine, duration_ms = self._machine(random), random.choice((300, 1_500, 3_000))
        others = [name for name in self._host_names if name != machine.host]
        kind = random.randrange(3)
        if kind == 1:
            others = ["controller"]
        elif kind == 2:
            others = [name for name in others if name.startswith("broker-")]
        self._hosts.cut_off(machine.host, others, duration_ms)

    def _pause(self, random: Random) -> None:
        self._hosts.pause(self._machine(random), random)

    def _arm(self, random: Random) -> None:
        """At the next addition to the in-sync replicas, the leader will not be notified."""
        self._armed = random

    def replicas_joined(self, joined: list[int], leader: int) -> None:
        """The new replica also receives nothing from the leader and falls behind. Then the leader often dies."""
        random = self._armed
        if self._hosts.is_ended or random is None or not joined or leader in (-1, *joined):
            return
        self._armed = None
        machine, duration_ms = self._machines[leader], random.choice((500, 2_000))
        self._story.trace.tell(f"{machine.host} does not hear for {duration_ms} ms that broker {joined[0]} joined")
        self._story.network.cut("controller", machine.host, duration_ms / 1_000)
        self._story.network.cut(machine.host, f"broker-{joined[0]}", duration_ms / 1_000)
        if random.randrange(2):
            self._story.after(random.randrange(duration_ms), lambda: self._kill_leader(machine, random))

    def _kill_leader(self, machine: ReplicaMachine, random: Random) -> None:
        if not self._hosts.is_ended and self._may_fail(machine, is_power_lost=False):
            machine.crash(is_power_lost=False)
            self._hosts.start_later(machine, random)
