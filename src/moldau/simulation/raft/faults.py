"""The trouble of a story: the faults of all hosts, and splits of the whole quorum."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from moldau.simulation.host_faults import HostFaults
from moldau.simulation.raft.machine import QuorumMachine
from moldau.simulation.raft.membership import Membership
from moldau.simulation.raft.story import Story


class Faults:
    """`begin` starts all kinds; no fault begins after `end`."""

    def __init__(self, story: Story, machines: Sequence[QuorumMachine], membership: Membership) -> None:
        self._story = story
        self._membership = membership
        self._machines = machines
        self._names = [machine.host for machine in machines]
        self._hosts = HostFaults(story, self._names)

    def begin(self) -> None:
        self._hosts.begin(
            {
                "kill": (3_000, self._kill),
                "power": (3_000, self._lose_power),
                "stop": (5_000, self._stop),
                "crash inside a call": (4_000, self._crash_inside_a_call),
                "isolate": (3_000, self._isolate),
                "split": (4_000, self._split),
                "cut one way": (2_000, self._hosts.cut_one_way),
                "slow link": (2_500, self._hosts.slow_link),
                "pause": (3_000, self._pause),
                "empty disk": (4_000, self._replace_disk),
            }
        )
        self._membership.begin()

    def end(self) -> None:
        self._hosts.end()
        self._membership.end()

    def _machine(self, random: Random) -> QuorumMachine:
        """A random machine, often a leader, where faults matter most."""
        leaders = [each for each in self._machines if each.node is not None and each.node.quorum.is_leader]
        choice = random.choice(self._machines)
        return leaders[0] if leaders and random.randrange(2) else choice

    def _kill(self, random: Random) -> None:
        self._end(self._machine(random), "process", random)

    def _lose_power(self, random: Random) -> None:
        """For one machine, or for all at once."""
        machine = self._machine(random)
        for each in self._machines if random.randrange(4) == 0 else [machine]:
            self._end(each, "machine", random)

    def _end(self, machine: QuorumMachine, kind: str, random: Random) -> None:
        self._story.trace.tell(f"{machine.host} {'loses power' if kind == 'machine' else 'is killed'}")
        machine.kill(kind, is_told=False)
        self._hosts.start_later(machine, random)

    def _replace_disk(self, random: Random) -> None:
        self._membership.replace_disk(random)
        for machine in self._machines:
            self._hosts.start_later(machine, random)

    def _stop(self, random: Random) -> None:
        self._hosts.stop(self._machine(random), random)

    def _crash_inside_a_call(self, random: Random) -> None:
        self._hosts.crash_inside_a_call(self._machine(random), random, within=30)

    def _isolate(self, random: Random) -> None:
        name = self._machine(random).host
        self.cut_off(name, [each for each in self._names if each != name], self._length_ms(random))

    def cut_off(self, name: str, others: Sequence[str], length_ms: int) -> None:
        self._hosts.cut_off(name, others, length_ms)

    def _split(self, random: Random) -> None:
        """Splits the quorum into two parts that do not reach each other."""
        if len(self._names) < 2:
            return
        names = random.sample(self._names, len(self._names))
        size, length_ms = 1 + random.randrange(len(names) - 1), self._length_ms(random)
        for machine in self._machines:
            if machine.host in names[:size]:
                self._hosts.cut_off(machine.host, names[size:], length_ms)

    @staticmethod
    def _length_ms(random: Random) -> int:
        return random.choice((300, 1_500, 4_000))

    def _pause(self, random: Random) -> None:
        self._hosts.pause(self._machine(random), random)
