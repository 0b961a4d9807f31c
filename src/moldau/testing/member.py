"""One broker of a cluster in this process: its disk, ports, start and stop. Called from other threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from moldau.core.config.broker_settings import BrokerSettings
from moldau.errors import MoldauError
from moldau.shell.io.simulated.full_disk import FillableDisk
from moldau.shell.io.simulated.time_travel import TimeTravel
from moldau.shell.node.assemble import Node
from moldau.shell.node.main import open_disk
from moldau.testing.runtime import Runtime
from moldau.testing.tracebacks import hides, without_inner_frames
from moldau.transport.network import Network

if TYPE_CHECKING:
    from moldau.ports import Disk
    from moldau.shell.broker.role import Broker
    from moldau.testing.faults import Faults

__tracebackhide__ = hides

T = TypeVar("T")
POLL_S = 0.005
SETTLE_LOOKS = 2_000
"""How often `advance` checks (10 s in all) for work that neither the loop nor a worker shows, such as that of a child
process."""


class Member:
    """`settings` include the ports. `data_dir` None keeps everything in memory, from `boot` to `forget`. `network`
    makes a new network for each life."""

    def __init__(self, settings: BrokerSettings, data_dir: str | None, network: Callable[[], Network]) -> None:
        self.node_id = settings.node_id
        self.settings = settings
        self.address = ""
        """`HOST:PORT` of its first listener, set when the broker first serves."""
        self.runtime: Runtime | None = None
        """The runtime of the present life until `end`, also while it is paused and after it has stopped by itself."""
        self._data_dir = data_dir
        self._network = network
        self._travel = TimeTravel()
        self._disk: FillableDisk | None = None
        self._faults: Faults | None = None

    # -- life

    @property
    def is_running(self) -> bool:
        """Whether the broker's thread is alive, also while the broker starts, stops or is paused."""
        return self.runtime is not None and self.runtime.is_alive

    @property
    def is_answering(self) -> bool:
        """Whether the broker runs, and is not paused."""
        return self.runtime is not None and self.runtime.is_alive and not self.runtime.is_paused

    @property
    def disk(self) -> Disk:
        """The disk for the next life."""
        if self._disk is None or self._data_dir is not None:
            self._disk = FillableDisk(open_disk(self._data_dir, self.settings))
        return self._disk

    def boot(self) -> Runtime:
        """Begins a life, which serves once its `ready` is done."""
        disk = self.disk
        self._apply_disk_fault()
        self.runtime = Runtime(self.settings, disk, self._travel, self._network())
        self.runtime.start(self._ready)
        return self.runtime

    def begin_stop(self) -> None:
        """Begins a clean stop; `end` waits for it."""
        if self._disk is not None:
            self._disk.fill(None)  # a clean stop needs space for its checkpoints
        if self.runtime is not None:
            self.runtime.begin_stop()

    def end(self, *, is_clean: bool) -> None:
        """Stops or kills a running broker. Raises the error of a broker that has stopped by itself, once."""
        if is_clean:
            self.begin_stop()
        runtime, self.runtime = self.runtime, None
        if runtime is None:
            return
        if is_clean:
            runtime.wait_stopped()
        else:
            runtime.kill()
            self._crash_disk()
        if runtime.failure is not None:
            raise runtime.failure

    def give_up(self) -> None:
        """Kills the broker, even while it starts. Does not report an error with which it has stopped by itself."""
        runtime, self.runtime = self.runtime, None
        if runtime is not None:
            runtime.kill()
            self._crash_disk()

    def forget(self) -> None:
        """Drops the data kept in memory, and resets the clock to the machine's time."""
        self._disk = None
        self._travel = TimeTravel()

    def abandon_in_child(self) -> None:
        """In a forked child, closes the sockets, which belong to the parent. The broker thread exists only in the
        parent."""
        if self.runtime is not None and self.runtime.node is not None:
            self.runtime.node.close_sockets_in_child()
        self.runtime = None

    def _crash_disk(self) -> None:
        """Detaches the files of the dead process from the disk in memory, whose page cache stays."""
        from moldau.shell.io.simulated.memory_disk import MemoryDisk

        if self._disk is not None and isinstance(self._disk.disk, MemoryDisk):
            self._disk.disk.crash_process()

    def _ready(self, node: Node) -> None:
        self.address = node.bootstrap_servers
        if self._faults is not None and self._faults.are_any:
            self._install(node, self._faults)

    # -- the way in

    def alive(self) -> Runtime:
        """The running broker. Raises MoldauError if it does not run, and the error with which it has stopped by
        itself."""
        if self.runtime is None:
            raise MoldauError("the cluster was killed: call restart() first")
        if self.runtime.failure is not None:
            raise self.runtime.failure
        return self.runtime

    @property
    def node(self) -> Node:
        """The node of the present life. Raises MoldauError if it does not run."""
        node = self.alive().node
        if node is None:
            raise MoldauError("the cluster is not running")
        return node

    def ask(self, work: Callable[[Broker], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` on the broker's loop."""
        runtime, broker = self.alive(), self.node.broker
        try:
            return runtime.wait(lambda: work(broker))
        except MoldauError as error:
            raise without_inner_frames(error) from error.__cause__

    def check(self) -> None:
        """Raises the error of a broker that has stopped by itself, and any broken invariant that it finds now."""
        if self.runtime is None:
            return
        if self.runtime.failure is not None:
            raise self.runtime.failure
        if self.is_answering:

            async def look(broker: Broker) -> None:
                broker.check()

            self.ask(look)

    # -- faults

    def apply_faults(self, faults: Faults) -> None:
        """Applies the changed faults, also to later lives."""
        self._faults = faults
        self._apply_disk_fault()
        runtime = self.runtime
        if faults.are_any and runtime is not None and runtime.node is not None and runtime.is_alive:
            self._install(runtime.node, faults)

    def _install(self, node: Node, faults: Faults) -> None:
        """Puts the injector before the dispatcher, from the next received bytes on."""
        from moldau.testing.injector import FaultInjector

        if isinstance(node.connections.dispatcher, FaultInjector):
            return

        def topic_name(topic_id: bytes) -> str | None:
            hosted = node.broker.partitions.by_id.get(topic_id)
            return None if hosted is None else hosted.name

        group = node.connections
        group.hand_frames_to(FaultInjector(node.dispatcher, faults, topic_name, group.connections))

    def _apply_disk_fault(self) -> None:
        if self._disk is not None and self._faults is not None:
            self._disk.fill(self._faults.disk_refused if self._faults.is_disk_full else None)

    # -- time

    @property
    def ahead_ms(self) -> int:
        """The milliseconds by which its clock is ahead of the machine's."""
        return self._travel.ahead_ms

    def skip(self, duration_ms: int) -> None:
        """Moves its time ahead and makes the timers in between due. Thread-safe. The broker need not run."""
        self._travel.skip(duration_ms)
        if self.runtime is not None:
            self.runtime.post(lambda: None)  # its loop checks its timers

    async def travel(self, broker: Broker, duration_ms: int) -> None:
        """Runs timer by timer on its loop, and returns when all consequences are complete."""
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._travel.begin(duration_ms, lambda: arrived.set_result(None))
        await arrived
        await self.settle(broker)

    async def settle(self, broker: Broker) -> None:
        """Applies retention on its loop, and returns when no work is left."""
        await self.alive().apply_retention()
        for _ in range(SETTLE_LOOKS):
            if not broker.has_work:
                break
            await asyncio.sleep(POLL_S)


def data_directory_of(data_dir: str | None, node_id: int, brokers: int) -> str | None:
    """The directory for a member's files: `data_dir` itself for a single broker, else a subdirectory."""
    if data_dir is None or brokers == 1:
        return data_dir
    return os.path.join(data_dir, f"node-{node_id}")
