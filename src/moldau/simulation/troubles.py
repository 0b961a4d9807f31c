"""The faults of a story: crashes, restarts, full, broken and slow disks, connections, links, clocks.

Each fault is a kind (`kinds.TROUBLE`). Only the seed and the name of the kind decide whether and when it occurs and
what it draws, so a new kind changes no draw of the others. A fault waits until the one before it has ended.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random

from moldau.core.log.files.segment import SNAPSHOT_SUFFIX
from moldau.shell.io.simulated.memory_disk import Fault, Operation
from moldau.simulation.kinds import TROUBLE, has_kind
from moldau.simulation.links import NetworkWeather, storm
from moldau.simulation.violation import ViolationError
from moldau.simulation.world import World
from moldau.types import TopicPartition

MEANS_S = (2.0, 4.0, 8.0)
"""The average time in seconds between two troubles of a kind, drawn for each story and kind."""
CRASHES = ("process crashes", "machine crashes", "process crashes inside", "machine crashes inside")
RENAMES = re.compile(r"rename (compacted-.*\.deleted$|\S*-future )")
"""The first file of an old segment that is removed, and the name of a moved log."""
PLANNED = ("crashes in commits", "crashes in renames", "machine crashes inside", "process crashes inside")
"""Troubles that plan the death of the process, which may not happen."""
AT_START = "crashes inside a start"
LOOKS_FOR_CLEANING = 80
CUT_S = (0.3, 1.5, 4.0)


def death_of(kind: str) -> str:
    """The name under which a death planned by `kind` is counted."""
    return f"{kind}: the process died"


FLOORS_OF_1000 = dict.fromkeys(TROUBLE, 100) | dict.fromkeys(map(death_of, (*PLANNED, AT_START)), 20)
"""The required number of each kind of trouble, and of each planned death, in 1,000 seeds; proportionally less in fewer
seeds."""


class Timetable:
    """The times of one trouble. `random`: the stream for all its draws."""

    __slots__ = ("_mean_s", "act", "due_s", "kind", "random")

    def __init__(self, kind: str, act: Callable[[Random], Awaitable[None]], random: Random) -> None:
        self.kind = kind
        self.act = act
        self.random = random
        self._mean_s = random.choice(MEANS_S)
        self.due_s = 0.0
        self.plan_next(0.0)

    def plan_next(self, now_s: float) -> None:
        """Draws the next time, at the start of the story and after each trouble."""
        self.due_s = now_s + self.random.expovariate(1 / self._mean_s)


class Troubles:
    """The troubles of one seed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broker = world.broker
        self.is_restart_needed = False
        """A log directory is offline, or soon will be."""
        self.happened: Counter[str] = Counter()
        """How often each of FLOORS_OF_1000 occurred."""
        self._restarts = world.random_of("restarts")
        acts: dict[str, Callable[[Random], Awaitable[None]]] = {
            "aborts": self.abort,
            "broken disks": self.break_disk,
            "clean restarts": self.stop,
            "clock steps": self.set_clock,
            "cold reads": self.cold_reads,
            "crashes in commits": self.plan_commit_crash,
            "crashes in renames": self.plan_rename_crash,
            "cuts": self.cut,
            "failed flushes": self.fail_flush,
            "full disks": self.fill_disk,
            "lost snapshots": self.lose_snapshots,
            "machine crashes": self.crash_machine,
            "machine crashes inside": self.crash_machine_inside,
            "one-way cuts": self.cut_one_way,
            "pauses": self.pause_process,
            "process crashes": self.crash_process,
            "process crashes inside": self.crash_process_inside,
            "refused markers": self.refuse_markers,
            "resets": self.reset_connections,
            "silences": self.silence_connection,
            "slow disks": self.slow_disk,
            "slow links": self.slow_links,
            "slow readers": self.slow_reader,
            "storms": self.storm,
            "torn connections": self.tear_connections,
        }
        kinds = [kind for kind in TROUBLE if has_kind(world.seed, kind)]
        if not any(kind in CRASHES for kind in kinds):
            kinds.append(CRASHES[0])  # every story has crashes
        self.timetables = [Timetable(kind, acts[kind], world.random_of(kind)) for kind in kinds]

    async def run(self, until_s: float) -> None:
        """Causes trouble until `until_s` of the loop's time, and restarts the broker whenever it is down."""
        world = self.world
        world.trace.tell("troubles: " + ", ".join(timetable.kind for timetable in self.timetables))
        while world.loop.time() < until_s:
            timetable = min(self.timetables, key=lambda one: one.due_s)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(timetable.due_s, until_s)):
                    await self.broker.died.wait()
            world.check_node()
            if not self.broker.is_up:
                await self.restart(is_trouble_allowed=True)
            elif timetable.due_s <= world.loop.time() < until_s:
                self.happened[timetable.kind] += 1
                await timetable.act(timetable.random)
                timetable.plan_next(world.loop.time())

    async def restart(self, *, is_trouble_allowed: bool) -> None:
        """Boots after a crash. If trouble is allowed, sometimes already with the next crash or fault planned."""
        broker, random = self.broker, self._restarts
        await asyncio.sleep(random.choice((0.0, 0.1, 0.5, 1.0, 2.0)))
        self.is_restart_needed = False
        plan = None
        if is_trouble_allowed and random.random() < 0.2:
            plan = ("machine" if random.random() < 0.5 else "process", random.randint(1, 40), random)
        if is_trouble_allowed and random.random() < 0.1:
            operation: Operation = random.choice(("read", "append", "write", "flush", "open"))
            broker.fail_disk(Fault(operation, random.choice(("io", "full")), times=1), random)
            self.world.trace.tell(f"the first {operation} of the start fails")
            broker.is_disk_troubled = True
            self.is_restart_needed = True
        is_booted = await broker.boot(plan=plan, dying=self._counting(AT_START))
        broker.heal_disks()
        broker.is_disk_troubled = False
        if not is_booted and not is_trouble_allowed:
            raise ViolationError("the node starts and stops", "a start failed on a healthy machine")

    def _counting(self, kind: str) -> Callable[[], None]:
        """A function to call when a process dies as `kind` has planned."""

        def count() -> None:
            self.happened[death_of(kind)] += 1

        return count

    # -- processes and machines

    async def crash_process(self, random: Random) -> None:
        self.broker.kill("process")

    async def crash_machine(self, random: Random) -> None:
        self.broker.kill("machine")

    async def crash_process_inside(self, random: Random) -> None:
        dying = self._counting("process crashes inside")
        self.broker.plan_crash("process", random.randint(1, 60), random, dying=dying)

    async def crash_machine_inside(self, random: Random) -> None:
        dying = self._counting("machine crashes inside")
        self.broker.plan_crash("machine", random.randint(1, 60), random, dying=dying)

    async def plan_rename_crash(self, random: Random) -> None:
        """The process will die while cleaned segments replace others, or soon after a partition has moved to another
        log directory."""
        if not any(disk.plan for disk in self.broker.process_disks):
            kind = "process" if random.random() < 0.7 else "machine"
            dying = self._counting("crashes in renames")
            self.broker.plan_crash(kind, random.randint(1, 8), random, RENAMES, dying)

    async def plan_commit_crash(self, random: Random) -> None:
        """The machine, or sometimes the process, will die during the next end of a transaction: when it is decided,
        flushed, on one of its partitions, or on all of them."""
        kind = "machine" if random.random() < 0.8 else "process"
        changes = random.choice((1, 1, 2, 3, 5, 8))
        dying = self._counting("crashes in commits")
        self.world.transactions.when_decided = lambda: self.broker.plan_crash(kind, changes, random, dying=dying)

    async def stop(self, random: Random) -> None:
        await self.broker.stop()

    async def abort(self, random: Random) -> None:
        await self.broker.abort(random.choice((0.001, 0.5, 15.0)))

    async def set_clock(self, random: Random) -> None:
        skew_ms = random.choice((-5_000, -100, 0, 100, 5_000))
        self.broker.clock.set_off(skew_ms)
        self.world.trace.tell(f"the wall clock is set off by {skew_ms} ms")

    async def pause_process(self, random: Random) -> None:
        """Pauses the process, which then continues as if nothing had happened."""
        process, length_s = self.broker.process, random.choice((0.2, 1.5, 3.0))
        if process is not None:
            self.world.trace.tell(f"the process pauses for {length_s} s")
            self.world.loop.pause(process)
            await asyncio.sleep(length_s)
            self.world.loop.resume(process)

    # -- disks

    async def fill_disk(self, random: Random) -> None:
        room_bytes = random.choice((0, 100, 1_000, 20_000))
        self.broker.limit_disks(room_bytes)
        self.world.trace.tell(f"the disk has room for {room_bytes} bytes")
        await asyncio.sleep(random.choice((0.2, 1.0, 3.0)))
        self.broker.limit_disks(None)
        self.world.trace.tell("disk has room again")

    async def lose_snapshots(self, random: Random) -> None:
        """The process dies, and the producer snapshots of transactions are lost. The next start reads the producers
        from the log, as far as compaction has left it. Waits for a compaction that removes an aborted batch."""
        for _ in range(LOOKS_FOR_CLEANING):
            if self._is_stale_batch_cleaned() or not self.broker.is_up:
                break
            await asyncio.sleep(0.05)
        self.broker.kill("process")
        self.world.trace.tell("the producer snapshots of *copies-* are lost")
        for disk in self.broker.disks:
            for directory in disk.list_directory(""):
                if directory.startswith("copies-"):
                    for name in disk.list_directory(directory):
                        if name.endswith(SNAPSHOT_SUFFIX):
                            disk.remove(f"{directory}/{name}")

    def _is_stale_batch_cleaned(self) -> bool:
        node, stale = self.broker.node, self.world.stale_batch
        if node is None or stale is None:
            return False
        place = TopicPartition("copies", stale[0])
        directory = node.broker.partitions.logs.directory_of(place)
        return directory is not None and directory.cleaned_offsets.get(place, 0) >= stale[1]

    async def refuse_markers(self, random: Random) -> None:
        """A few appends of transactional copiers find no space: their batches, and the markers."""
        self.broker.fail_disk(Fault("append", "full", "copies-", times=random.choice((1, 2, 5))), random)
        self.world.trace.tell("the next appends of *copies-* find no room")

    async def break_disk(self, random: Random) -> None:
        """One operation fails. Its log directory is offline until the following restart, and the node halts unless it
        has another directory."""
        if self.is_restart_needed:
            self.broker.kill("process")
            return
        operation: Operation = random.choice(("append", "flush", "write", "read"))
        path = random.choice(("", ".log", "flushed", "cached"))
        self.broker.fail_disk(Fault(operation, "io", path, times=1), random)
        self.world.trace.tell(f"the next {operation} of *{path}* fails")
        self.is_restart_needed = True
        await asyncio.sleep(random.choice((0.5, 2.0)))
        self.broker.heal_disks()

    async def fail_flush(self, random: Random) -> None:
        """The next flush fails. Power is lost soon after, sometimes after another process has served. Then nothing of
        the failed flush may have been acknowledged, and everything that the later process acknowledged must exist."""
        if self.is_restart_needed:
            return
        self.broker.fail_disk(Fault("flush", "io", ".log", times=1), random)
        self.world.trace.tell("the next flush of *.log fails")
        self.is_restart_needed = True
        await asyncio.sleep(random.choice((0.1, 0.5, 1.0)))
        self.broker.heal_disks()
        if random.random() < 0.5:
            self.broker.kill("process")
            await self.restart(is_trouble_allowed=False)
            await asyncio.sleep(random.choice((0.5, 2.0)))
        self.broker.lose_power()

    async def slow_disk(self, random: Random) -> None:
        self.world.trace.tell("the disk is slow")
        self.broker.worker_weather.delay_max = random.choice((0.1, 1.0))
        await asyncio.sleep(random.choice((0.5, 2.0)))
        self.broker.worker_weather.delay_max = 0.01

    async def cold_reads(self, random: Random) -> None:
        self.broker.fail_disk(Fault("read_cached", "cold", times=random.choice((1, 10, 100))), random)

    # -- the network

    async def reset_connections(self, random: Random) -> None:
        self.world.network.reset_some(random)

    async def tear_connections(self, random: Random) -> None:
        self.world.network.tear_some(random)

    async def storm(self, random: Random) -> None:
        self.world.trace.tell("storm")
        self.world.network.weather = storm(random)
        await asyncio.sleep(random.choice((0.5, 2.0)))
        self.world.network.weather = NetworkWeather()

    async def silence_connection(self, random: Random) -> None:
        connections = list(self.world.network.connections.values())
        if connections:
            self.world.network.silence(random.choice(connections))

    async def slow_reader(self, random: Random) -> None:
        """A client that sends requests and does not read."""
        connections = list(self.world.network.connections.values())
        if not connections:
            return
        end = random.choice(connections).client
        end.pause_reading()
        await asyncio.sleep(random.choice((0.5, 3.0)))
        end.resume_reading()

    def _some_clients(self, random: Random) -> list[str]:
        """Some client hosts, each with the same chance."""
        return [client for client in self.world.network.clients_of(self.broker.host) if random.random() < 0.5]

    async def cut(self, random: Random) -> None:
        """Cuts the network between the broker and some clients."""
        host, clients, length_s = self.broker.host, self._some_clients(random), random.choice(CUT_S)
        self.world.trace.tell(f"{len(clients)} clients are cut off for {length_s} s")
        for client in clients:
            self.world.network.cut(client, host, length_s)
            self.world.network.cut(host, client, length_s)
        await asyncio.sleep(length_s)

    async def cut_one_way(self, random: Random) -> None:
        """Either requests or responses do not arrive."""
        host, clients, length_s = self.broker.host, self._some_clients(random), random.choice(CUT_S)
        lost = random.choice(("requests", "answers"))
        self.world.trace.tell(f"the {lost} of {len(clients)} clients do not arrive for {length_s} s")
        for client in clients:
            source, target = (client, host) if lost == "requests" else (host, client)
            self.world.network.cut(source, target, length_s)
        await asyncio.sleep(length_s)

    async def slow_links(self, random: Random) -> None:
        """Slows the network between the broker and some clients."""
        host, clients, length_s = self.broker.host, self._some_clients(random), random.choice(CUT_S)
        self.world.trace.tell(f"the links of {len(clients)} clients are slow for {length_s} s")
        for client in clients:
            self.world.network.slow(client, host, length_s, random.choice((0.0, 0.1, 0.5)))
            self.world.network.slow(host, client, length_s, random.choice((0.0, 0.1, 0.5)))
        await asyncio.sleep(length_s)
