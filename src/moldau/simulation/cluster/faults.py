"""The faults of a cluster: those of its processes, disks and clocks, and of the network between all hosts.

**Possible losses.** Kafka acknowledges a record when all in-sync replicas have it in their page caches. Replication
protects it, not the disk. If `flush.messages` is not 1, the story therefore cuts the power of a machine only while
every node is up and every partition has all replicas in sync. No other process ends until this is true again. The same
applies to the loss of a disk, with or without flushes. In addition, every node must know the quorum leader and have
everything that it committed, because a lost disk loses votes, and the lost voters are never a majority. Any number of
processes may be killed at once, because their page caches stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import count
from random import Random

from moldau.shell.io.simulated.memory_disk import Fault, Operation
from moldau.simulation.cluster.machine import ClusterMachine
from moldau.simulation.cluster.settings import Voters, voters_of
from moldau.simulation.host_faults import HostFaults
from moldau.simulation.links import NetworkWeather, storm
from moldau.simulation.surroundings import Surroundings

CUT_MS = (300, 1_500, 4_000, 12_000)
CALM_WEATHER = NetworkWeather(delay_max=0.001, spike_share=0.0)


Act = tuple[str, int]
"""One act of trouble: its kind, and its number within the kind in this seed, from 1."""
MEANS_MS = {
    "kill": 9_000,
    "kill all": 40_000,
    "fall behind": 20_000,
    "loss of power": 9_000,
    "empty disk": 6_000,
    "clean stop": 12_000,
    "crash inside a call": 9_000,
    "pause": 9_000,
    "full disk": 12_000,
    "broken disk": 12_000,
    "slow disk": 9_000,
    "clock step": 9_000,
    "clock drift": 20_000,
    "isolate": 9_000,
    "split": 12_000,
    "cut one way": 6_000,
    "slow link": 6_000,
    "storm": 9_000,
    "resets": 6_000,
    "torn connections": 9_000,
}
"""Every kind of trouble, and the average time in ms between two acts in a seed that has it."""


class Faults:
    """`begin` starts all kinds; no act begins after `end`. `is_whole`: whether no node lacks anything. `chosen`: only
    these acts happen; None: all. `happened`: the number of acts of each kind.

    The time and the draws of an act depend on no other act, so leaving one out does not change the others.
    """

    def __init__(
        self,
        world: Surroundings,
        machines: Sequence[ClusterMachine],
        is_whole: Callable[[], bool],
        chosen: Collection[Act] | None,
    ) -> None:
        self.happened: Counter[str] = Counter()
        self._world = world
        self._machines = machines
        self._client_names: Sequence[str] = ()
        self._has_ended = False
        self._is_whole = is_whole
        self._chosen = chosen
        self.may_lose_disk: Callable[[ClusterMachine], bool] = lambda machine: True
        """Whether other machines have everything on its disk."""
        self.losing: Callable[[ClusterMachine], None] = lambda machine: None
        """Called when a machine is about to lose its unflushed data."""
        self._hosts = HostFaults(world, [machine.host for machine in machines])

    def begin(self, client_names: Sequence[str]) -> None:
        self._client_names = client_names
        acts: dict[str, Callable[[Random], bool]] = {
            "kill": self._kill,
            "kill all": self._kill_all,
            "fall behind": self._fall_behind,
            "loss of power": self._lose_power,
            "empty disk": self._lose_disk,
            "clean stop": self._stop,
            "crash inside a call": self._crash_inside_a_call,
            "pause": self._pause,
            "full disk": self._fill_disk,
            "broken disk": self._break_disk,
            "slow disk": self._slow_disk,
            "clock step": self._step_clock,
            "clock drift": self._drift,
            "isolate": self._isolate,
            "split": self._split,
            "cut one way": self._cut_one_way,
            "slow link": self._slow_link,
            "storm": self._storm,
            "resets": self._reset,
            "torn connections": self._tear,
        }
        self._hosts.begin({name: (MEANS_MS[name], self._counted(name, act)) for name, act in acts.items()})

    def end(self) -> None:
        """Ends all lasting faults, and starts the processes that are down."""
        self._has_ended = True
        self._hosts.end()
        world = self._world
        world.network.weather = CALM_WEATHER
        world.network.mend()
        self._plan_no_death()
        for machine in self._machines:
            machine.is_calm = True
            machine.limit_disks(None)
            machine.worker_weather.delay_max = 0.01
            if machine.process is not None:
                world.loop.resume(machine.process)
            if machine.is_disk_troubled:
                machine.kill("process")
            machine.heal_disks()
            machine.start_if_down()

    def _counted(self, name: str, act: Callable[[Random], bool]) -> Callable[[Random], None]:
        numbers = count(1)

        def happen(_: Random) -> None:
            number = next(numbers)
            if self._chosen is None or (name, number) in self._chosen:
                self._world.trace.tell(f"trouble: {name} {number}")
                self.happened[name] += act(self._world.random_of(f"{name} {number}"))

        return happen

    def _after(self, delay_ms: float, act: Callable[[], None]) -> None:
        """Runs `act` later, but not after the end of the trouble, which undoes lasting faults itself."""

        def act_in_trouble() -> None:
            if not self._has_ended:
                act()

        self._world.after(delay_ms, act_in_trouble)

    # -- processes and machines

    def _may_end(self) -> bool:
        """Whether another process may end: no node depends on its data after a loss."""
        if any(machine.rests_on_others for machine in self._machines) and self._is_whole():
            for machine in self._machines:
                machine.rests_on_others = False
        return not any(machine.rests_on_others for machine in self._machines)

    def _kill(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        if not machine.is_alive or not self._may_end():
            return False
        machine.kill("process")
        return True

    def _kill_all(self, random: Random) -> bool:
        if not self._may_end():
            return False
        for machine in self._machines:
            machine.kill("process")
        return True

    def _fall_behind(self, random: Random) -> bool:
        """One node is cut off from the others until it is out of sync. Then the others end, and it runs alone."""
        machine = random.choice(self._machines)
        self._hosts.cut_off(machine.host, self._others(machine), 6_000)

        def end_others() -> None:
            if self._may_end():
                for other in self._machines:
                    if other is not machine:
                        other.kill("process")

        self._after(5_500, end_others)
        return True

    def _lose_power(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        if not machine.is_up or not self._may_end() or not (machine.is_flushed or self._is_whole()):
            return False
        self._plan_no_death()
        if not machine.is_flushed:
            self.losing(machine)
        machine.kill("machine")
        return True

    def _lose_disk(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        is_trouble_ahead = any(other.has_disk_trouble for other in self._machines)
        may_be_replaced = voters_of(self._world.seed) is not Voters.CHANGED and self.may_lose_disk(machine)
        if not may_be_replaced or is_trouble_ahead or not self._may_end() or not self._is_whole():
            return False
        self._plan_no_death()
        machine.lose_disk()
        return True

    def _plan_no_death(self) -> None:
        for machine in self._machines:
            for disk in machine.process_disks:
                disk.plan = None

    def _stop(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        if not machine.is_up or not self._may_end():
            return False
        machine.stop_soon()
        return True

    def _crash_inside_a_call(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        if not machine.is_alive or not self._may_end():
            return False
        machine.plan_death(1 + random.randrange(40), random)
        return True

    def _pause(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        process = machine.process
        if process is None or not machine.is_alive:
            return False
        length_ms = random.choice((200, 1_500, 3_000, 12_000))
        self._world.trace.tell(f"{machine.host} pauses for {length_ms} ms")
        self._world.loop.pause(process)
        self._after(length_ms, lambda: self._world.loop.resume(process))
        return True

    # -- disks

    def _fill_disk(self, random: Random) -> bool:
        machine, room_bytes = random.choice(self._machines), random.choice((0, 1_000, 20_000))
        if not machine.is_up:
            return False
        machine.limit_disks(room_bytes)
        self._world.trace.tell(f"the disk of {machine.host} has room for {room_bytes} bytes")
        self._after(random.choice((200, 1_000, 4_000)), lambda: machine.limit_disks(None))
        return True

    def _break_disk(self, random: Random) -> bool:
        """One disk operation fails, and the node halts."""
        machine = random.choice(self._machines)
        if not machine.is_up or machine.is_disk_troubled or not self._may_end():
            return False
        operation: Operation = random.choice(("append", "flush", "write", "read"))
        path = random.choice(("", ".log", "events", "__"))
        machine.fail_disk(Fault(operation, "io", path, times=1), random)
        machine.is_disk_troubled = True
        self._world.trace.tell(f"the next {operation} of *{path}* fails on {machine.host}")
        self._after(random.choice((500, 2_000)), machine.replace_disk)
        return True

    def _slow_disk(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        machine.worker_weather.delay_max = random.choice((0.1, 1.0))
        self._world.trace.tell(f"the disk of {machine.host} is slow")

        def recover() -> None:
            machine.worker_weather.delay_max = 0.01

        self._after(random.choice((500, 4_000)), recover)
        return True

    # -- clocks

    def _step_clock(self, random: Random) -> bool:
        machine, skew_ms = random.choice(self._machines), random.choice((-5_000, -100, 0, 100, 5_000))
        machine.clock.set_off(skew_ms)
        self._world.trace.tell(f"the wall clock of {machine.host} is set off by {skew_ms} ms")
        return True

    def _drift(self, random: Random) -> bool:
        machine = random.choice(self._machines)
        machine.clock.drift_ppm = random.choice((-50_000, -200, 200, 50_000))
        self._world.trace.tell(f"the wall clock of {machine.host} drifts by {machine.clock.drift_ppm} ppm")
        return True

    # -- the network

    def _others(self, machine: ClusterMachine) -> list[str]:
        return [other.host for other in self._machines if other is not machine]

    def _isolate(self, random: Random) -> bool:
        """Isolates a node from all hosts, or only from the other nodes, so that its clients continue."""
        machine = random.choice(self._machines)
        others = self._others(machine)
        if random.randrange(2):
            others += self._client_names
        self._hosts.cut_off(machine.host, others, random.choice(CUT_MS))
        return True

    def _split(self, random: Random) -> bool:
        """Each side continues alone, with about half of the clients."""
        hosts = [machine.host for machine in self._machines]
        side = random.sample(hosts, len(hosts) // 2) + [name for name in self._client_names if random.randrange(2)]
        rest = [host for host in (*hosts, *self._client_names) if host not in side]
        length_ms = random.choice(CUT_MS)
        for host in side:
            self._hosts.cut_off(host, rest, length_ms)
        return True

    def _cut_one_way(self, random: Random) -> bool:
        self._hosts.cut_one_way(random, CUT_MS)
        return True

    def _slow_link(self, random: Random) -> bool:
        self._hosts.slow_link(random)
        return True

    def _storm(self, random: Random) -> bool:
        self._world.trace.tell("storm")
        self._world.network.weather = storm(random)

        def calm_down() -> None:
            self._world.network.weather = CALM_WEATHER

        self._after(random.choice((500, 2_000)), calm_down)
        return True

    def _reset(self, random: Random) -> bool:
        self._world.network.reset_some(random)
        return True

    def _tear(self, random: Random) -> bool:
        self._world.network.tear_some(random)
        return True
