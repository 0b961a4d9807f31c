"""A machine that runs real nodes. Each boot makes a process with simulated ports and a `Node`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.errors import StorageFailedError
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.node.assemble import Node
from moldau.shell.node.ports import NodePorts
from moldau.simulation.checkers.survivors import SEGMENT_SUFFIX
from moldau.simulation.host_network import HostNetwork
from moldau.simulation.kinds import directory_path
from moldau.simulation.loop import ProcessKilledError
from moldau.simulation.machine import Machine
from moldau.simulation.ports import SimulatedClock
from moldau.simulation.surroundings import SimulatedEventLog, Surroundings
from moldau.simulation.violation import ViolationError
from moldau.simulation.workers import SimulatedWorkers, WorkerWeather

BOOT_PATIENCE_S = 120.0
STOP_PATIENCE_S = 60.0


class NodeMachine(Machine):
    """`host` is also its name in `settings`."""

    def __init__(
        self,
        around: Surroundings,
        host: str,
        settings: dict[str, str],
        disks: list[MemoryDisk],
        clock: SimulatedClock | None = None,
        ended: Callable[[bool], None] = lambda is_power_lost: None,
    ) -> None:
        super().__init__(around, host, disks, clock, ended)
        self.settings = settings
        self.worker_weather = WorkerWeather()
        self.make_workers: type[SimulatedWorkers] = SimulatedWorkers
        """The workers of the next process."""
        self.workers: SimulatedWorkers | None = None
        self.node: Node | None = None
        """None until a start has finished, and after the end."""
        self.log: SimulatedEventLog
        self.is_disk_troubled = False
        """A fault was set. It may have taken effect since."""
        self.dropping: Callable[[Node], None] = lambda node: None
        """Called with a node whose process has just ended."""
        self._exit: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self.node is not None and self.is_alive

    # -- the life of the node

    async def boot(
        self, *, plan: tuple[str, int, Random] | None = None, dying: Callable[[], None] = lambda: None
    ) -> bool:
        """Starts a new process. False if it died or failed to start, which faults may cause.

        `plan`: the kind of a crash, the change of the disk in which it comes, and its random stream;
        `dying` is called at the crash.
        """
        node = self._make_process()
        self._exit = asyncio.ensure_future(self._exit_with(node))
        self.around.trace.tell(f"{self.host}: boot {self.boots}")
        if plan is not None:
            self.plan_crash(*plan, dying=dying)
        is_started = await self._until_done_or_dead(node.start(), BOOT_PATIENCE_S, "start")
        if not is_started or not self.is_alive:
            return False
        self.node = node
        return True

    async def _exit_with(self, node: Node) -> None:
        """Ends the process if its node halts because its log directories have failed."""
        await node.stopped.wait()
        if isinstance(node.failure, StorageFailedError):
            self.kill("process", is_told=False)

    def _make_process(self) -> Node:
        """Makes a process with its ports and its node."""
        around, process = self.around, self.begin_process()
        random = around.random_of(f"{process.name}/workers")
        self.workers = workers = self.make_workers(around.loop, process, random, self.worker_weather)
        disks = self.process_disks
        for disk in disks:
            disk.before_call = self._before_call
            disk.on_write_after_abort = self._written_after_abort
        node = Node(
            parse_broker_settings(self.settings),
            NodePorts(
                clock=self.clock,
                random=SeededRandom(around.random_of(f"{process.name}/node").getrandbits(64)),
                disk=disks[0],
                workers=workers,
                network=HostNetwork(around.network, self.host),
                further_disks=tuple(disks[1:]),
                paths=tuple(directory_path(place) for place in range(len(disks))),
            ),
        )
        node.log = self.log = SimulatedEventLog(around, self.clock, self.host)
        return node

    def _before_call(self) -> None:
        """A point at which work in a thread may pause."""
        if self.workers is not None:
            self.workers.rest()

    async def stop(self) -> bool:
        """Stops the node cleanly, and then ends its process. False if it died during the stop."""
        node = self.node
        if node is None or not self.is_up:
            return False
        self.around.trace.tell(f"{self.host}: clean stop")
        is_stopped = await self._until_done_or_dead(node.stop(), STOP_PATIENCE_S, "stop")
        self.kill("process", is_told=False)
        return is_stopped

    async def abort(self, lasts_s: float) -> None:
        """The node drops everything, as in a crash, but its process continues for a moment."""
        node, process = self.node, self.process
        if node is None or process is None or process.is_dead:
            return
        self.around.trace.tell(f"{self.host}: abort")

        async def abort_in_process() -> None:
            node.abort()
            for disk in self.process_disks:
                disk.is_aborted = True

        self.around.loop.run_in_process(process, abort_in_process())
        self.node = None
        await asyncio.sleep(lasts_s)
        self.kill("process", is_told=False)

    def _written_after_abort(self, path: str) -> None:
        self.around.violate(ViolationError("an aborted node writes nothing more", path))

    async def _until_done_or_dead(self, work: Coroutine[Any, Any, None], patience_s: float, what: str) -> bool:
        """Waits for `work` of the process, or for the end of the process."""
        process = self.process
        if process is None:
            return False
        task = self.around.loop.run_in_process(process, work)
        death = asyncio.ensure_future(self.died.wait())
        async with asyncio.timeout(patience_s * 2):
            done, _ = await asyncio.wait((task, death), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if task in done:
            error = task.exception()
            if error is None:
                return True
            self.around.trace.tell(f"{self.host}: {what} failed: {error!r}")
            if not isinstance(error, ProcessKilledError):
                self._failed(what, error)
            return False
        if not done:
            raise ViolationError("the node starts and stops", f"{what} took longer than {patience_s} s")
        return False

    def _failed(self, what: str, error: BaseException) -> None:
        """A start or a stop may fail only because of a disk fault."""
        is_healthy = not any(disk.faults or disk.capacity_bytes is not None for disk in self.disks)
        if not self.is_disk_troubled and is_healthy:
            raise ViolationError("the node starts and stops", f"{what} failed on a healthy disk: {error!r}") from error
        self.kill("process")

    def _dropped(self) -> None:
        if self.node is not None:
            self.dropping(self.node)
            self.around.loop.graveyard.append(self.node)
        self.node = None
        if self._exit is not None:
            self._exit.cancel()
        self.end_work()

    def end_work(self) -> None:
        """Stops the threads of the process, at its end or at the end of the world."""
        if self.workers is not None:
            self.workers.close()
            self.workers = None

    # -- the disks

    def segment_sizes(self, topic: str, partition: int) -> list[tuple[int, int]]:
        """(base offset, bytes) of the segments of a partition, oldest first."""
        found: list[tuple[int, int]] = []
        directory = f"{topic}-{partition}"
        with self.without_faults():
            for disk in self.disks:
                for name in disk.list_directory(directory):
                    if name.endswith(SEGMENT_SUFFIX):
                        size = len(disk.read_file(f"{directory}/{name}"))
                        found.append((int(name.removesuffix(SEGMENT_SUFFIX)), size))
        return sorted(found)
