"""What goes wrong in a story: crashes, restarts, disks that fill, break, are slow or forget, connections, clocks."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable

from moldau.shell.io.twins.memory_disk import Fault, Operation
from moldau.simulation.kinds import has_kind, kind_random
from moldau.simulation.network import NetworkWeather
from moldau.simulation.violation import ViolationError
from moldau.simulation.world import World

MAX_RENAME_CRASHES = 6
RENAMES = re.compile(r"rename (compacted-.*\.deleted$|\S*-future )")
"""The first of an old segment that goes, and the name of a log that has moved."""


class Troubles:
    """The troubles of one seed; `draw` picks a few of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.flush_random = kind_random(world.seed, "failed flushes")
        self.flush_fails_s = self.flush_random.uniform(1, 12) if has_kind(world.seed, "failed flushes") else math.inf
        self.rename_random = kind_random(world.seed, "crashes in renames")
        self.rename_crashes = MAX_RENAME_CRASHES if has_kind(world.seed, "crashes in renames") else 0
        self.drawn: list[Callable[[], Awaitable[None]]] = []
        self.is_restart_needed = False

    def draw(self) -> None:
        everything = (
            self.crash_process,
            self.crash_machine,
            self.crash_process_inside,
            self.crash_machine_inside,
            self.restart_cleanly,
            self.abort,
            self.fill_disk,
            self.break_disk,
            self.slow_disk,
            self.cold_reads,
            self.reset_connections,
            self.stormy_network,
            self.silence_connection,
            self.slow_reader,
            self.set_clock,
        )
        count = self.random.randint(1, 5)
        self.drawn = list(self.random.sample(everything, count))
        if self.crash_process not in self.drawn and self.crash_machine not in self.drawn:
            self.drawn.append(self.random.choice(everything[:4]))
        self.world.trace.tell("troubles: " + ", ".join(trouble.__name__ for trouble in self.drawn))

    async def restart(self, *, is_trouble_allowed: bool) -> None:
        """Boots after a crash; where trouble is allowed, now and then with the next crash or fault on its way."""
        world, random = self.world, self.random
        await asyncio.sleep(random.choice((0.0, 0.1, 1.0)))
        self.is_restart_needed = False
        plan = None
        if is_trouble_allowed and random.random() < 0.2:
            plan = ("machine" if random.random() < 0.5 else "process", random.randint(1, 40))
        if is_trouble_allowed and random.random() < 0.1:
            operation: Operation = random.choice(("read", "append", "write", "flush", "open"))
            world.fail_disk(Fault(operation, random.choice(("io", "full")), times=1))
            world.trace.tell(f"the first {operation} of the start fails")
            world.is_disk_troubled = True
            self.is_restart_needed = True
        is_booted = await world.boot(plan=plan)
        world.heal_disks()
        world.is_disk_troubled = False
        if not is_booted and not is_trouble_allowed:
            raise ViolationError("the node starts and stops", "a start failed on a healthy machine")

    async def crash_process(self) -> None:
        self.world.kill("process")

    async def crash_machine(self) -> None:
        self.world.kill("machine")

    async def crash_process_inside(self) -> None:
        self.world.plan_crash("process", self.random.randint(1, 60))

    async def crash_machine_inside(self) -> None:
        self.world.plan_crash("machine", self.random.randint(1, 60))

    async def restart_cleanly(self) -> None:
        await self.world.stop()

    async def abort(self) -> None:
        await self.world.abort()

    async def fill_disk(self) -> None:
        room_bytes = self.random.choice((0, 100, 1_000, 20_000))
        self.world.limit_disks(room_bytes)
        self.world.trace.tell(f"the disk has room for {room_bytes} bytes")
        await asyncio.sleep(self.random.choice((0.2, 1.0, 3.0)))
        self.world.limit_disks(None)
        self.world.trace.tell("disk has room again")

    async def break_disk(self) -> None:
        """One operation fails; the log directory is offline until the restart that follows."""
        if self.is_restart_needed:
            self.world.kill("process")
            return
        operation: Operation = self.random.choice(("append", "flush", "write", "read"))
        path = self.random.choice(("", ".log", "flushed", "cached"))
        self.world.fail_disk(Fault(operation, "io", path, times=1))
        self.world.trace.tell(f"the next {operation} of *{path}* fails")
        self.is_restart_needed = True
        await asyncio.sleep(self.random.choice((0.5, 2.0)))
        self.world.heal_disks()

    def is_flush_failure_due(self) -> bool:
        """Once in a story of this kind, while nothing else is broken."""
        return self.world.loop.time() >= self.flush_fails_s and not self.is_restart_needed

    async def fail_flush(self) -> None:
        """The next flush fails. Soon after power is lost, at once or after another process has served: then nothing
        of what failed may have been acknowledged, and everything that the later process acknowledged is there."""
        self.flush_fails_s = math.inf
        self.world.fail_disk(Fault("flush", "io", ".log", times=1))
        self.world.trace.tell("the next flush of *.log fails")
        self.is_restart_needed = True
        await asyncio.sleep(self.flush_random.choice((0.1, 0.5, 1.0)))
        self.world.heal_disks()
        if self.flush_random.random() < 0.5:
            self.world.kill("process")
            await self.restart(is_trouble_allowed=False)
            await asyncio.sleep(self.flush_random.choice((0.5, 2.0)))
        self.world.kill("machine")

    def plan_rename_crash(self) -> None:
        """The process will die while cleaned segments take the place of others, or soon after a partition has moved to
        another log directory."""
        if not self.rename_crashes or not self.world.is_up or any(disk.plan for disk in self.world.process_disks):
            return
        self.rename_crashes -= 1
        kind = "process" if self.rename_random.random() < 0.7 else "machine"
        self.world.plan_crash(kind, self.rename_random.randint(1, 8), RENAMES)

    async def slow_disk(self) -> None:
        self.world.trace.tell("the disk is slow")
        self.world.worker_weather.delay_max = self.random.choice((0.1, 1.0))
        await asyncio.sleep(self.random.choice((0.5, 2.0)))
        self.world.worker_weather.delay_max = 0.01

    async def cold_reads(self) -> None:
        self.world.fail_disk(Fault("read_cached", "cold", times=self.random.choice((1, 10, 100))))

    async def reset_connections(self) -> None:
        connections = list(self.world.network.connections.values())
        for connection in self.random.sample(connections, self.random.randint(0, len(connections))):
            self.world.network.reset(connection)

    async def stormy_network(self) -> None:
        """Resets at any byte, small windows, long delays."""
        self.world.trace.tell("storm")
        self.world.network.weather = NetworkWeather(
            delay_max=self.random.choice((0.002, 0.05)),
            spike_share=0.05,
            cut_share=0.8,
            reset_share=self.random.choice((0.0, 0.01, 0.05)),
            window_bytes=self.random.choice((512, 4_096, 65_536)),
        )
        await asyncio.sleep(self.random.choice((0.5, 2.0)))
        self.world.network.weather = NetworkWeather()

    async def silence_connection(self) -> None:
        connections = list(self.world.network.connections.values())
        if connections:
            self.world.network.silence(self.random.choice(connections))

    async def slow_reader(self) -> None:
        """A client that asks and does not read."""
        connections = list(self.world.network.connections.values())
        if not connections:
            return
        end = self.random.choice(connections).client
        end.pause_reading()
        await asyncio.sleep(self.random.choice((0.5, 3.0)))
        end.resume_reading()

    async def set_clock(self) -> None:
        skew_ms = self.random.choice((-5_000, -100, 0, 100, 5_000))
        self.world.clock.set_off(skew_ms)
        self.world.trace.tell(f"the wall clock is set off by {skew_ms} ms")
