"""One machine with a broker on it, and what the scenario does to it.

The machine's disk and the wire outlive the broker's processes. Each boot makes a process with doors of its own and a
real `Node` behind them; a crash takes the process away and leaves what the disk says.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from traceback import format_exception

import msgspec

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.shell.io.twins.memory_disk import Fault, MemoryDisk
from moldau.shell.io.twins.random import SeededRandom
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.server_connection import ServerConnection
from moldau.shell.node.assemble import Node
from moldau.shell.node.doors import Doors
from moldau.simulation.checkers.group_ledger import GroupLedger
from moldau.simulation.checkers.ledger import Ledger, PartitionLedger, TopicRules
from moldau.simulation.checkers.survivors import SEGMENT_SUFFIX, log_end_on_disk
from moldau.simulation.doors import CrashPlan, ProcessDisk, SimulatedClock
from moldau.simulation.kinds import directory_path, has_kind, kind_random
from moldau.simulation.loop import ProcessKilledError, SimulatedProcess, VirtualLoop
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.trace import Trace
from moldau.simulation.violation import ViolationError
from moldau.simulation.workers import SimulatedWorkers, WorkerWeather
from moldau.types import Uuid

DIRECTORIES = 2
"""How many log directories there are where there are several."""
BOOT_PATIENCE_S = 120.0
KEPT_LINES = 2_000
STOP_PATIENCE_S = 60.0


class SimulatedTopic(msgspec.Struct, frozen=True):
    """A topic that clients know by name and id."""

    name: str
    topic_id: Uuid
    partitions: int
    is_compacted: bool = False

    def ledger(self, world: World, partition: int) -> PartitionLedger:
        return world.ledger.partition(self.topic_id, partition)


class SimulatedEventLog(EventLog):
    """What the node logs becomes part of the story; an error that no handler foresaw breaks a rule."""

    __slots__ = ("_world", "lines")

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self._world = world
        self.lines: deque[str] = deque(maxlen=KEPT_LINES)
        """The warnings and errors of this node."""

    def write(self, level: int, kind: str, message: str, **fields: str | int) -> None:
        if level >= logging.WARNING:
            self.lines.append(message)
        self._world.trace.tell(f"log {logging.getLevelName(level)} {message.splitlines()[0]}")

    def finding(self, level: int, kind: str, message: str) -> None:
        self.write(level, kind, message)

    def unforeseen(self, kind: str, message: str, error: BaseException) -> None:
        self._world.violate(ViolationError("nothing fails unseen", f"{message}\n{''.join(format_exception(error))}"))


class World:
    """Everything of one seed. All randomness comes from `Random(f"{seed}/{purpose}")`."""

    def __init__(
        self, seed: int, loop: VirtualLoop, settings: dict[str, str], write_line: Callable[[str], None] | None = None
    ) -> None:
        self.seed = seed
        self.loop = loop
        self.settings = settings
        self.trace = Trace(loop.time, write_line)
        self.random = Random(f"{seed}/world")
        self.network = SimulatedNetwork(loop, Random(f"{seed}/network"), self.trace)
        self.network.kept_buffer_of = incomplete_frame_of
        self.disks = [MemoryDisk() for _ in range(DIRECTORIES if has_kind(seed, "directories") else 1)]
        self.fault_random = kind_random(seed, "directories")
        self.clock = SimulatedClock(loop)
        self.worker_weather = WorkerWeather()
        self.ledger = Ledger(self.clock.latest_ms, lambda: self.clock.setback_ms)
        self.groups: dict[str, GroupLedger] = {}
        self.port = 9092
        self.boots = 0
        self.process: SimulatedProcess | None = None
        self.process_disks: list[ProcessDisk] = []
        """Of the process that runs: one for each log directory."""
        self.workers: SimulatedWorkers | None = None
        self.node: Node | None = None
        self.is_draining = False
        self.is_disk_troubled = False
        """A fault was set, which may have been used up since."""
        self.failed: asyncio.Future[ViolationError] = loop.create_future()
        self.producer_ids: dict[tuple[int, int], int] = {}
        self.died = asyncio.Event()
        self.after_end: Callable[[bool], None] = lambda is_power_lost: None
        """Called after each stop and crash, with the disks as they were left."""
        self.high_watermarks: dict[int, int] = {}
        self.network.after_event = self.check_partitions
        loop.on_unhandled = self.failed_unseen

    # -- rules

    def violate(self, violation: ViolationError) -> None:
        """Ends the world with the first violation."""
        if not self.failed.done():
            self.trace.tell(f"VIOLATION {violation}")
            self.failed.set_result(violation)

    def failed_unseen(self, story: str, error: BaseException | None) -> None:
        """Something reached the loop's exception handler."""
        self.violate(error if isinstance(error, ViolationError) else ViolationError("nothing fails unseen", story))

    def producer_id_given(self, producer_id: int, producer_epoch: int) -> None:
        """InitProducerId without a transactional id never gives the same twice, over all crashes."""
        key = (producer_id, producer_epoch)
        if key in self.producer_ids:
            raise ViolationError("producer ids are given once", f"{key} after {self.producer_ids[key]} others")
        self.producer_ids[key] = len(self.producer_ids)

    def new_topic(
        self,
        name: str,
        topic_id: Uuid,
        partitions: int,
        rules: TopicRules,
    ) -> SimulatedTopic:
        self.ledger.add_topic(name, topic_id, partitions, rules)
        return SimulatedTopic(name, topic_id, partitions, rules.is_compacted)

    # -- the life of the broker

    @property
    def is_up(self) -> bool:
        return self.node is not None and self.process is not None and not self.process.is_dead

    async def boot(self, *, plan: tuple[str, int] | None = None) -> bool:
        """Starts a new process on the machine's disk. False if it died or refused to start (faults may do that).

        `plan`: the kind of a crash, and the change of the disk in which it comes.
        """
        self.boots += 1
        process = SimulatedProcess(f"broker-{self.boots}")
        disks = [ProcessDisk(disk, process, self.trace) for disk in self.disks]
        workers = SimulatedWorkers(self.loop, process, Random(f"{self.seed}/workers/{self.boots}"), self.worker_weather)
        random = Random(f"{self.seed}/node/{self.boots}")
        self.process, self.process_disks, self.workers = process, disks, workers
        for disk in disks:
            disk.before_call = workers.rest
        self.died.clear()
        self.trace.tell(f"boot {self.boots}")
        for disk in disks:
            disk.on_write_after_abort = self.written_after_abort
        if plan is not None:
            self.plan_crash(*plan)
        node, _ = self.make_node(self.settings, disks, workers, self.network, random)
        self.high_watermarks.clear()
        task = self.loop.run_in_process(process, node.start())
        is_started = await self._until_done_or_dead(task, BOOT_PATIENCE_S, "start")
        if not is_started or process.is_dead:
            return False
        self.node = node
        return True

    def make_node(
        self,
        settings: dict[str, str],
        disks: list[ProcessDisk],
        workers: SimulatedWorkers,
        network: SimulatedNetwork,
        random: Random,
    ) -> tuple[Node, SimulatedEventLog]:
        """A node, and its log."""
        node = Node(
            parse_broker_settings(settings),
            Doors(
                clock=self.clock,
                random=SeededRandom(random.getrandbits(64)),
                disk=disks[0],
                workers=workers,
                network=network,
                further_disks=tuple(disks[1:]),
                paths=tuple(directory_path(place) for place in range(len(disks))),
            ),
        )
        node.log = log = SimulatedEventLog(self)
        return node, log

    async def stop(self) -> bool:
        """Stops the node cleanly; then its process ends. False if it died on the way."""
        node, process = self.node, self.process
        if node is None or process is None or process.is_dead:
            return False
        self.trace.tell("clean stop")
        is_stopped = await self._until_done_or_dead(
            self.loop.run_in_process(process, node.stop()), STOP_PATIENCE_S, "stop"
        )
        if not process.is_dead:
            self.kill("process", is_told=False)
        return is_stopped

    async def abort(self) -> None:
        """The node drops everything, as for a crash, but its process goes on for a moment."""
        node, process, disks = self.node, self.process, self.process_disks
        if node is None or process is None or process.is_dead:
            return
        self.trace.tell("abort")

        async def abort_in_process() -> None:
            node.abort()
            for disk in disks:
                disk.is_aborted = True

        self.loop.run_in_process(process, abort_in_process())
        self.node = None
        await asyncio.sleep(self.random.choice((0.001, 0.5, 15.0)))
        self.kill("process", is_told=False)

    def written_after_abort(self, path: str) -> None:
        self.violate(ViolationError("an aborted node writes nothing more", path))

    async def _until_done_or_dead(self, task: asyncio.Task[None], patience_s: float, what: str) -> bool:
        """Waits for `task` of the process, or for the end of the process."""
        death = asyncio.ensure_future(self.died.wait())
        async with asyncio.timeout(patience_s * 2):
            done, _ = await asyncio.wait((task, death), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if task in done:
            error = task.exception()
            if error is None:
                return True
            self.trace.tell(f"{what} failed: {error!r}")
            if not isinstance(error, ProcessKilledError):
                self.start_failed(what, error)
            return False
        if not done:
            raise ViolationError("the node starts and stops", f"{what} took longer than {patience_s} s")
        return False

    def start_failed(self, what: str, error: BaseException) -> None:
        """A start or a stop may fail only because the disk does."""
        is_healthy = not any(disk.faults or disk.capacity_bytes is not None for disk in self.disks)
        if not self.is_disk_troubled and is_healthy:
            raise ViolationError("the node starts and stops", f"{what} failed on a healthy disk: {error!r}") from error
        if self.process is not None and not self.process.is_dead:
            self.kill("process")

    def plan_crash(self, kind: str, changes: int, begins_with: re.Pattern[str] | None = None) -> None:
        """The process will die inside its `changes`-th change of the disk from now, see CrashPlan."""
        if self.process is not None and not self.process.is_dead:
            begin = f" from {begins_with.pattern} on" if begins_with is not None else ""
            self.trace.tell(f"{kind} crash planned within {changes} changes of the disk{begin}")
            plan = CrashPlan(changes, kind, self.random, self.kill, begins_with)
            for disk in self.process_disks:
                disk.plan = plan

    def kill(self, kind: str, *, is_told: bool = True) -> None:
        """The broker's process ends at this instant: "process" keeps the page cache, "machine" loses it."""
        process = self.process
        if process is None or process.is_dead:
            return
        if is_told:
            self.trace.tell(f"{kind} crash")
        self.loop.kill(process)
        if self.node is not None:
            self.loop.graveyard.append(self.node)
        self.node = None
        self.end_work()
        is_power_lost = kind == "machine"
        self.network.drop_process(process, is_silent=is_power_lost and self.random.random() < 0.3)
        for disk in self.disks:
            if is_power_lost:
                disk.crash_machine(SeededRandom(self.random.getrandbits(64)))
            else:
                disk.crash_process()
        self.died.set()
        try:
            self.check_survivors(is_power_lost=is_power_lost)
        except ViolationError as violation:
            self.violate(violation)

    def end_work(self) -> None:
        """The threads of the broker's work end with its process, or with the world."""
        if self.workers is not None:
            self.workers.close()
            self.workers = None

    def check_survivors(self, *, is_power_lost: bool) -> None:
        """What the disk holds now, against what was promised."""
        with self._no_faults():
            self._check_survivors(is_power_lost=is_power_lost)
            self.after_end(is_power_lost)
        if is_power_lost:
            for group in self.groups.values():
                group.power_lost()

    @contextmanager
    def _no_faults(self) -> Iterator[None]:
        """Faults are set for the node, not for who looks over its shoulder."""
        faults = [disk.faults for disk in self.disks]
        for disk in self.disks:
            disk.faults = []
        yield
        for disk, kept in zip(self.disks, faults, strict=True):
            disk.faults = kept

    def _check_survivors(self, *, is_power_lost: bool) -> None:
        for (_, partition), ledger in self.ledger.partitions.items():
            directory = f"{ledger.topic}-{partition}"
            may_have_gaps = ledger.rules.is_compacted
            end = max(log_end_on_disk(disk, directory, may_have_gaps=may_have_gaps) for disk in self.disks)
            lost = ledger.survived(end, is_power_lost=is_power_lost)
            self.trace.note("survived", ledger.topic, partition, end, lost)

    # -- the disks

    def fail_disk(self, fault: Fault) -> None:
        """One of the disks has `fault` from here on."""
        self.disks[self.fault_random.randrange(len(self.disks))].fail(fault)

    def heal_disks(self) -> None:
        for disk in self.disks:
            disk.heal()

    def limit_disks(self, room_bytes: int | None) -> None:
        """Each disk takes so many bytes more; None: it has room for all."""
        for disk in self.disks:
            disk.capacity_bytes = None if room_bytes is None else disk.used_bytes() + room_bytes

    @property
    def is_disk_limited(self) -> bool:
        return any(disk.capacity_bytes is not None for disk in self.disks)

    def segment_sizes(self, topic: str, partition: int) -> list[tuple[int, int]]:
        """(base offset, bytes) of the segments of a partition, the oldest first."""
        found: list[tuple[int, int]] = []
        directory = f"{topic}-{partition}"
        with self._no_faults():
            for disk in self.disks:
                for name in disk.list_directory(directory):
                    if name.endswith(SEGMENT_SUFFIX):
                        size = len(disk.read_file(f"{directory}/{name}"))
                        found.append((int(name.removesuffix(SEGMENT_SUFFIX)), size))
        return sorted(found)

    # -- rules that look inside

    def metadata(self) -> tuple[object, ...]:
        """What the node believes of topics, settings, quotas and features, and which producer id comes next. How the
        broker itself is registered changes with each start."""
        if self.node is None:
            return ()
        image = self.node.broker.image
        topics = {
            topic.name: (topic.topic_id, tuple(sorted(topic.partitions)))
            for topic in sorted(image.topics_by_id.values(), key=lambda topic: topic.name)
        }
        return (
            topics,
            dict(sorted(image.configs.items(), key=lambda item: str(item[0]))),
            dict(sorted(image.client_quotas.items(), key=lambda item: str(item[0]))),
            dict(sorted(image.features.items())),
            image.next_producer_id,
        )

    def check_partitions(self) -> None:
        """After every event: the offsets of each partition are in order, and no high watermark goes back."""
        if self.node is None or self.failed.done():
            return
        known = self.high_watermarks
        for partition in self.node.broker.partitions:
            number, high_watermark = partition.number, partition.position.high_watermark
            if not partition.are_offsets_in_order:
                self.violate(ViolationError("invariants hold", f"{partition.topic_partition}: offsets out of order"))
            before = known.get(number, -1)
            if high_watermark < before:
                story = f"{partition.topic_partition}: {before} to {high_watermark}"
                self.violate(ViolationError("the high watermark never goes back", story))
            known[number] = high_watermark

    def check_node(self) -> None:
        """The rules over the node and the loop as a whole."""
        if self.node is not None and self.node.failure is not None:
            raise ViolationError("invariants hold", f"the node stopped: {self.node.failure}")


def incomplete_frame_of(protocol: asyncio.BufferedProtocol) -> object:
    """The private buffer of a ServerConnection in the middle of a long frame; the shared one is always free."""
    frame = protocol._frame if isinstance(protocol, ServerConnection) else None
    return None if frame is None else frame.buffer
