"""The trouble of a story. Each kind draws from a stream of its own name, so that a new kind changes no old draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from moldau.simulation.replication.controller import Controller
from moldau.simulation.replication.machine import MayFail, ReplicaMachine
from moldau.simulation.replication.story import Story


class Faults:
    """`begin` sets all kinds going; none begins after `end`."""

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
        self._server_names = ["controller", *(machine.host for machine in machines)]
        self._host_names = [*self._server_names, *client_names]
        self._may_fail = may_fail
        self.is_ended = False
        self._armed: Random | None = None
        self._kinds: dict[str, tuple[int, Callable[[Random], None]]] = {
            "kill": (4_000, self._kill),
            "power": (3_500, self._lose_power),
            "stop": (6_000, self._stop),
            "crash inside a call": (5_000, self._crash_inside_a_call),
            "isolate": (3_000, self._isolate),
            "cut one way": (3_000, self._cut_one_way),
            "slow link": (2_500, self._slow_link),
            "pause": (4_000, self._pause),
            "unheard answer": (3_000, self._arm),
        }

    def begin(self) -> None:
        for name, (mean_ms, act) in self._kinds.items():
            random = self._story.random_of(name)
            if random.randrange(3):  # two of three kinds, so that a story has a character
                self._plan(random, mean_ms, act)

    def end(self) -> None:
        self.is_ended = True

    def _plan(self, random: Random, mean_ms: int, act: Callable[[Random], None]) -> None:
        def happen() -> None:
            if not self.is_ended:
                act(random)
                self._plan(random, mean_ms, act)

        self._story.after(1 + int(random.expovariate(1 / mean_ms)), happen)

    def _machine(self, random: Random) -> ReplicaMachine:
        """Often the leader, where faults matter most."""
        leader = self._controller.partition.leader
        choice = random.choice(self._story.replicas)
        return self._machines[leader if leader >= 0 and random.randrange(2) else choice]

    def _start_later(self, machine: ReplicaMachine, random: Random) -> None:
        self._story.after(random.choice((50, 500, 2_500)), machine.start_if_down)

    def _kill(self, random: Random) -> None:
        self._fail(random, is_power_lost=False)

    def _lose_power(self, random: Random) -> None:
        self._fail(random, is_power_lost=True)

    def _fail(self, random: Random, *, is_power_lost: bool) -> None:
        machine = self._machine(random)
        if self._may_fail(machine, is_power_lost=is_power_lost):
            machine.crash(is_power_lost=is_power_lost)
        self._start_later(machine, random)

    def _stop(self, random: Random) -> None:
        machine = self._machine(random)
        machine.stop()
        self._start_later(machine, random)

    def _crash_inside_a_call(self, random: Random) -> None:
        machine = self._machine(random)
        machine.plan_death(1 + random.randrange(40), random)
        for delay_ms in (1_000, 2_000, 4_000):
            self._story.after(delay_ms, machine.start_if_down)

    def _isolate(self, random: Random) -> None:
        """From everybody, from the controller alone, or from the other brokers alone."""
        machine, duration_ms = self._machine(random), random.choice((300, 1_500, 3_000))
        others = [name for name in self._host_names if name != machine.host]
        kind = random.randrange(3)
        if kind == 1:
            others = ["controller"]
        elif kind == 2:
            others = [name for name in others if name.startswith("broker-")]
        self._story.trace.tell(f"{machine.host} is cut off from {', '.join(others)} for {duration_ms} ms")
        for other in others:
            self._story.network.cut(machine.host, other, duration_ms / 1_000)
            self._story.network.cut(other, machine.host, duration_ms / 1_000)

    def _cut_one_way(self, random: Random) -> None:
        source, target = random.sample(self._server_names, 2)
        duration_ms = random.choice((300, 1_500, 3_000))
        self._story.trace.tell(f"nothing passes from {source} to {target} for {duration_ms} ms")
        self._story.network.cut(source, target, duration_ms / 1_000)

    def _slow_link(self, random: Random) -> None:
        source, target = random.sample(self._server_names, 2)
        self._story.network.slow(source, target, random.choice((0.5, 3.0)), random.choice((0.05, 0.8, 2.5)))

    def _pause(self, random: Random) -> None:
        broker = self._machine(random).broker
        if broker is not None:
            duration_ms = random.choice((200, 1_500, 3_000))
            self._story.trace.tell(f"{broker.name} pauses for {duration_ms} ms")
            loop, process = self._story.loop, broker.process
            loop.pause(process)
            self._story.after(duration_ms, lambda: loop.resume(process))

    def _arm(self, random: Random) -> None:
        """The next time that a replica joins the in-sync replicas, the leader gets no word of it."""
        self._armed = random

    def replicas_joined(self, joined: list[int], leader: int) -> None:
        """The new replica gets nothing from the leader either, and falls behind; then, often, the leader dies."""
        random = self._armed
        if self.is_ended or random is None or not joined or leader in (-1, *joined):
            return
        self._armed = None
        machine, duration_ms = self._machines[leader], random.choice((500, 2_000))
        self._story.trace.tell(f"{machine.host} does not hear for {duration_ms} ms that broker {joined[0]} joined")
        self._story.network.cut("controller", machine.host, duration_ms / 1_000)
        self._story.network.cut(machine.host, f"broker-{joined[0]}", duration_ms / 1_000)
        if random.randrange(2):
            self._story.after(random.randrange(duration_ms), lambda: self._kill_leader(machine, random))

    def _kill_leader(self, machine: ReplicaMachine, random: Random) -> None:
        if not self.is_ended and self._may_fail(machine, is_power_lost=False):
            machine.crash(is_power_lost=False)
            self._start_later(machine, random)
