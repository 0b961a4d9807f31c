"""A cluster of one broker in this process, in a thread and an event loop of its own.

It touches nothing of its host: no event loop policy, no signal handler, no gc setting. A forked child gives up its
copies of the sockets, so that the parent's broker stays the only one.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, overload

import msgspec

from moldau.core.config.broker_settings import nearest_setting, parse_broker_settings
from moldau.errors import MoldauError
from moldau.shell.io.twins.full_disk import FillableDisk
from moldau.shell.io.twins.time_travel import TimeTravel
from moldau.shell.node.assemble import Node
from moldau.shell.node.main import open_disk
from moldau.testing.ports import HeldPorts
from moldau.testing.runtime import Runtime
from moldau.testing.tracebacks import hides, without_inner_frames

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker
    from moldau.testing.faults import Faults
    from moldau.testing.inside import GroupView, Record
    from moldau.types import TopicPartition

__tracebackhide__ = hides

T = TypeVar("T")
Isolation = Literal["read_committed", "read_uncommitted"]
DEFAULT_WAIT_S = 10.0
POLL_S = 0.005
SETTLE_LOOKS = 2_000
"""How often `advance` looks at its end (10 s in all) for work that neither the loop nor a worker shows: a child's."""

# Where a test wants another answer than production does. `Cluster(settings=...)` wins over these.
TEST_SETTINGS: Mapping[str, str] = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    # Production has 50, which a test would only wait for.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "4",
    # A first member need not wait for others that a test does not have.
    "group.initial.rebalance.delay.ms": "0",
    # Positions that are too old end within a second of the cluster's time, which `advance` waits for. Records do not: a
    # test that writes records of last year wants to read them. `advance` asks for their retention by itself.
    "offsets.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": str(1 << 53),
    "log.retention.check.interval.ms": str(1 << 53),
    "log.cleaner.backoff.ms": "1000",
    # Time travel must not look like a client that was idle for a week.
    "connections.max.idle.ms": str(1 << 53),
}


class Cluster:
    """One broker on 127.0.0.1, on a port of its own; as many as you like in one process.

    `data_dir`: where it keeps its files; None keeps everything in memory. A directory can be opened again later.
    `settings`: Kafka's broker settings by name; `TEST_SETTINGS` are those in which a test differs from `moldau up`.
    Raises INVALID_CONFIG for a value that is wrong and for a name that is nearly a setting's; settings that have no
    effect are warned of.

    Use it as a context manager (also `async with`), or call `start` and `stop`. Everything may be called from any
    thread, and takes milliseconds; in a coroutine of yours, wait with `wait_for_async`.
    """

    def __init__(
        self, *, data_dir: str | os.PathLike[str] | None = None, settings: Mapping[str, object] | None = None
    ) -> None:
        self._data_dir = None if data_dir is None else os.fspath(data_dir)
        given = {name: _setting_text(value) for name, value in (settings or {}).items()}
        _check_names(given)
        try:
            self._settings = parse_broker_settings({**TEST_SETTINGS, **given})
        except MoldauError as error:
            raise without_inner_frames(error) from None
        for notice in self._settings.notices():
            warnings.warn(notice, stacklevel=2)
        self._life = threading.RLock()
        self._ports = HeldPorts()
        self._travel = TimeTravel()
        self._disk: FillableDisk | None = None
        self._runtime: Runtime | None = None
        self._is_started = False
        self._address = ""
        self._faults: Faults | None = None
        self._topics_made = 0
        self._owner_pid = 0

    def __repr__(self) -> str:
        return f"<Cluster {self._address}>" if self._is_started else "<Cluster, not started>"

    # -- life

    @property
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:PORT`, the same from `start` to `stop`, also while it is killed, and in a forked child.

        Raises MoldauError before `start` and after `stop`.
        """
        if not self._is_started:
            raise MoldauError("the cluster is not running: use it as a context manager, or call start()")
        return self._address

    @property
    def is_running(self) -> bool:
        """False before `start`, after `stop` and `kill`, and once the broker has stopped by itself."""
        runtime = self._runtime
        return runtime is not None and runtime.is_alive

    @property
    def node(self) -> Node:
        """The broker itself, for tests of Moldau: its insides change from release to release. Raises MoldauError."""
        node = self._alive().node
        if node is None:
            raise MoldauError("the cluster is not running")
        return node

    def start(self) -> Cluster:
        """Returns once it serves. Raises what the start failed with, say a data directory that is in use."""
        with self._life:
            if self._is_started:
                raise MoldauError("the cluster is running already")
            listeners = self._ports.choose(self._settings.listeners)
            self._running_settings = msgspec.structs.replace(self._settings, listeners=listeners)
            try:
                self._boot()
            except BaseException:
                self._ports.release()
                self._disk = None
                raise
            self._is_started = True
            self._owner_pid = os.getpid()
            _started.add(self)
        return self

    def stop(self) -> None:
        """Stops cleanly; silent if it does not run. Raises what the broker itself stopped with, if it did."""
        with self._life:
            if not self._is_started or self._owner_pid != os.getpid():
                return
            self._is_started = False
            _started.discard(self)
            try:
                self._end(is_clean=True)
            finally:
                self._ports.release()
                self._disk = None
                self._travel = TimeTravel()

    def kill(self) -> None:
        """As kill -9: connections break, nothing more is written, and what the system was given to write is there.

        The port stays the cluster's own, and refuses. Silent if it does not run. `restart` brings it back.
        """
        with self._life:
            self._check_started()
            self._end(is_clean=False)

    def restart(self, *, clean: bool = True) -> None:
        """The broker again, with its data and on its port: after `kill`, or after a clean stop of what runs.

        `clean=False` kills what runs. Faults, topics, offsets and the cluster's time go on.
        """
        with self._life:
            self._check_started()
            self._end(is_clean=clean)
            self._boot()

    def pause(self) -> None:
        """The broker stands still, as by SIGSTOP: sockets stay open, nothing is answered, until `resume`."""
        self._alive().pause()

    def resume(self) -> None:
        """The broker goes on. Silent if it was not paused."""
        runtime = self._runtime
        if runtime is not None:
            runtime.resume()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Cluster:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _boot(self) -> None:
        if self._disk is None or self._data_dir is not None:
            self._disk = FillableDisk(open_disk(self._data_dir, self._running_settings))
        runtime = Runtime(self._running_settings, self._disk, self._travel)
        self._apply_disk_fault()
        runtime.start(self._ready)
        self._runtime = runtime

    def _ready(self, node: Node) -> None:
        self._address = node.bootstrap_servers
        if self._faults is not None and self._faults.are_any:
            self._install(node)

    def _end(self, *, is_clean: bool) -> None:
        """Raises what the broker has stopped with by itself, once."""
        runtime, self._runtime = self._runtime, None
        if runtime is None:
            return
        if is_clean:
            if self._disk is not None:
                self._disk.fill(None)  # a clean stop needs room for its checkpoints
            runtime.stop()
        else:
            runtime.kill()
            self._crash_disk()
        if runtime.failure is not None:
            raise runtime.failure

    def _crash_disk(self) -> None:
        """Files of the dead process are cut off from the disk in memory, whose page cache stays."""
        from moldau.shell.io.twins.memory_disk import MemoryDisk

        if self._disk is not None and isinstance(self._disk.disk, MemoryDisk):
            self._disk.disk.crash_process()

    def _check_started(self) -> None:
        if self._owner_pid and self._owner_pid != os.getpid():
            raise MoldauError("the cluster runs in the parent process: a child process can use only its address")
        if not self._is_started:
            raise MoldauError("the cluster is not running: use it as a context manager, or call start()")

    def _alive(self) -> Runtime:
        self._check_started()
        runtime = self._runtime
        if runtime is None:
            raise MoldauError("the cluster was killed: call restart() first")
        if runtime.failure is not None:
            raise runtime.failure
        return runtime

    def _ask(self, work: Callable[[Broker], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` on the broker's loop."""
        runtime, broker = self._alive(), self.node.broker
        try:
            return runtime.wait(lambda: work(broker))
        except MoldauError as error:
            raise without_inner_frames(error) from error.__cause__

    def check(self) -> None:
        """Raises what the broker has stopped with by itself, if it has, and what it finds broken if asked now."""
        runtime = self._runtime
        if runtime is None:
            return
        if runtime.failure is not None:
            raise runtime.failure
        if runtime.is_alive and not runtime.is_paused:

            async def look(broker: Broker) -> None:
                broker.check()

            self._ask(look)

    def revive(self) -> None:
        """Starts the broker again after it was killed, or has stopped by itself."""
        with self._life:
            self._check_started()
            runtime, self._runtime = self._runtime, None
            if runtime is not None:
                runtime.kill()
                self._crash_disk()
            self._boot()

    # -- faults

    @property
    def has_faults(self) -> bool:
        """Whether `faults` was ever used."""
        return self._faults is not None

    @property
    def faults(self) -> Faults:
        """What is to go wrong, and what did: `faults.drop("Produce")`, `faults.disk_full()`, `faults.log`, ..."""
        if self._faults is None:
            from moldau.testing.faults import Faults

            self._faults = Faults(self.now_ms, self._faults_changed)
        return self._faults

    def _faults_changed(self) -> None:
        self._apply_disk_fault()
        runtime = self._runtime
        if self.faults.are_any and runtime is not None and runtime.node is not None and runtime.is_alive:
            self._install(runtime.node)

    def _install(self, node: Node) -> None:
        """Puts the injector in front of the dispatcher: the next bytes that arrive are for it."""
        from moldau.testing.injector import FaultInjector

        if isinstance(node.connections.dispatcher, FaultInjector):
            return

        def topic_name(topic_id: bytes) -> str | None:
            hosted = node.broker.partitions.by_id.get(topic_id)
            return None if hosted is None else hosted.name

        group = node.connections
        group.hand_frames_to(FaultInjector(node.dispatcher, self.faults, topic_name, group.connections))

    def _apply_disk_fault(self) -> None:
        if self._disk is not None and self._faults is not None:
            fault = self._faults.disk_refused if self._faults.is_disk_full else None
            self._disk.fill(fault)

    # -- time

    def now_ms(self) -> int:
        """The cluster's clock, in ms since the epoch."""
        return time.time_ns() // 1_000_000 + self._travel.ahead_ms

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Moves the cluster's time ahead, and returns when everything that this leads to has happened: records too old
        are gone, silent members are out of their groups, offsets have expired.

        Only the broker travels; clients go on living in real time. A member that lives is silent meanwhile: one whose
        session is over gets UNKNOWN_MEMBER_ID and joins again.
        """
        duration_ms = round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
        if duration_ms < 0:
            raise ValueError("the cluster's time cannot go back")
        self._check_started()
        with self._life:
            if self._runtime is None:
                self._travel.skip(duration_ms)
                return
            runtime, travel = self._runtime, self._travel

            async def travel_on(broker: Broker) -> None:
                loop = asyncio.get_running_loop()
                arrived: asyncio.Future[None] = loop.create_future()
                travel.begin(duration_ms, lambda: arrived.set_result(None))
                await arrived
                await runtime.apply_retention()
                for _ in range(SETTLE_LOOKS):
                    if not broker.has_work:
                        break
                    await asyncio.sleep(POLL_S)

            self._ask(travel_on)

    # -- topics and records

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Creates a topic and gives its name. `config`: Kafka's topic settings. Raises KafkaError."""
        from moldau.testing.inside import create_topic

        texts = {key: _setting_text(value) for key, value in (config or {}).items()}
        self._ask(lambda broker: create_topic(broker, name, partitions, texts))
        return name

    def topic(self, prefix: str = "topic", partitions: int = 1, config: Mapping[str, object] | None = None) -> str:
        """Creates a topic that nobody else has: `prefix` and a number. Gives its name."""
        self._topics_made += 1
        return self.create_topic(f"{prefix}-{self._topics_made}", partitions, config)

    def delete_topic(self, name: str) -> None:
        """Raises KafkaError."""
        from moldau.testing.inside import delete_topic

        self._ask(lambda broker: delete_topic(broker, name))

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> list[Record]:
        """Writes records without a client, and gives them with their offsets. Text is written as UTF-8.

        All get the same key, headers and timestamp (ms since the epoch; None: the cluster's now). `partition` None:
        where the key leads to, as with Kafka's own producers; without a key one after the other.
        """
        from moldau.testing.writing import encoded, encoded_headers, write_values

        at_ms = self.now_ms() if timestamp is None else timestamp
        all_headers, key_bytes = encoded_headers(headers), encoded(key)
        all_values = [encoded(value) for value in values]
        return self._ask(
            lambda broker: write_values(
                broker,
                topic,
                all_values,
                key=key_bytes,
                headers=all_headers,
                partition=partition,
                timestamp_ms=at_ms,
            )
        )

    def records(
        self, topic: str, *, partition: int | None = None, isolation: Isolation = "read_committed"
    ) -> Iterator[Record]:
        """All records of a topic that are there now, without a client: partition by partition, by offset.

        `isolation`: what a consumer with that `isolation.level` may read. `read_committed` leaves out the records of
        aborted transactions, and everything from the first record of an open transaction on; `read_uncommitted` gives
        them too. Markers are no records. Raises UNKNOWN_TOPIC_OR_PARTITION, and ValueError for another isolation, at
        the call.
        """
        from moldau.testing.inside import iterate_records, topic_sizes

        if isolation not in get_args(Isolation):
            raise ValueError(f"isolation={isolation!r}: the values are 'read_committed' and 'read_uncommitted'")
        is_stable = isolation == "read_committed"
        sizes = self._ask(lambda broker: topic_sizes(broker, topic, is_stable=is_stable))
        if partition is not None and partition not in sizes:
            from moldau.errors import kafka_error

            raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION", f"topic {topic!r} has no partition {partition}")
        chosen = {index: sizes[index] for index in sizes if partition in (None, index)}
        return iterate_records(self._ask, topic, chosen, is_stable=is_stable)

    def record_counts(self, topic: str) -> dict[int, int]:
        """By partition: how many offsets the log spans (on a compacted topic some of them have no record)."""
        from moldau.testing.inside import topic_sizes

        sizes = self._ask(lambda broker: topic_sizes(broker, topic))
        return {index: end - start for index, (start, end) in sizes.items()}

    # -- groups

    def group(self, group_id: str) -> GroupView:
        """State, members and lag of a consumer group. Raises GROUP_ID_NOT_FOUND where there was none, or it expired."""
        from moldau.testing.inside import view_group

        return self._ask(lambda broker: view_group(broker, group_id))

    @overload
    def lag(self, group_id: str, *, by_partition: Literal[False] = False) -> int: ...

    @overload
    def lag(self, group_id: str, *, by_partition: Literal[True]) -> dict[tuple[str, int], int]: ...

    def lag(self, group_id: str, *, by_partition: bool = False) -> int | dict[tuple[str, int], int]:
        """How many records a group has not committed yet: the total, or with `by_partition` {(topic, partition): lag}.

        Counted are the partitions of all topics that it has committed offsets of or is subscribed to; one without an
        offset counts whole. Raises GROUP_ID_NOT_FOUND, also for a group without member and offset: it has no lag.
        """
        view = self.group(group_id)
        lag: dict[TopicPartition, int] = view.lag
        if not lag and not view.members:
            from moldau.errors import kafka_error

            raise kafka_error("GROUP_ID_NOT_FOUND", f"group {group_id!r} has no member and has committed nothing")
        if by_partition:
            return {(one.topic, one.partition): count for one, count in lag.items()}
        return sum(lag.values())

    # -- waiting

    def wait_for(
        self,
        predicate: Callable[[], object] | None = None,
        *,
        topic: str | None = None,
        records: int | None = None,
        group: str | None = None,
        lag: int | None = None,
        members: int | None = None,
        timeout: float = DEFAULT_WAIT_S,
    ) -> None:
        """Waits until the predicate is true (a failing `assert` in it is not yet), until `topic` has at least `records`
        records, or until `group` is at most `lag` behind, or stable with exactly `members` members.

        `timeout` in seconds. Raises NotReachedError, a TimeoutError that says what was seen last.
        """
        if _is_in_coroutine():
            raise MoldauError("wait_for would block your event loop: `await cluster.wait_for_async(...)` instead")
        wait = self._waiting(predicate, timeout, topic, records, group, lag, members)
        while next(wait):
            time.sleep(POLL_S)

    async def wait_for_async(
        self,
        predicate: Callable[[], object] | None = None,
        *,
        topic: str | None = None,
        records: int | None = None,
        group: str | None = None,
        lag: int | None = None,
        members: int | None = None,
        timeout: float = DEFAULT_WAIT_S,
    ) -> None:
        """As `wait_for`, for coroutines: what runs beside it on your loop goes on."""
        wait = self._waiting(predicate, timeout, topic, records, group, lag, members)
        while next(wait):
            await _sleep(POLL_S)

    def _waiting(
        self,
        predicate: Callable[[], object] | None,
        timeout: float,
        topic: str | None,
        records: int | None,
        group: str | None,
        lag: int | None,
        members: int | None,
    ) -> Iterator[bool]:
        """Gives True as long as it is to be waited."""
        from moldau.testing.waiting import NotReachedError, make_check

        check = make_check(self, predicate, topic=topic, records=records, group=group, lag=lag, members=members)
        deadline = time.monotonic() + timeout
        while True:
            holds, seen = check()
            if holds:
                yield False
                return
            if time.monotonic() >= deadline:
                raise NotReachedError(f"waited for {timeout:g} s; last seen: {seen}")
            yield True

    # -- fork

    def _abandon_in_child(self) -> None:
        """In a forked child: the thread is not here, its sockets are; they belong to the parent."""
        runtime = self._runtime
        if runtime is not None and runtime.node is not None:
            runtime.node.close_sockets_in_child()
        self._ports.release()
        self._runtime = None
        self._life = threading.RLock()


_started: weakref.WeakSet[Cluster] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for cluster in list(_started):
        cluster._abandon_in_child()
    _started.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _check_names(settings: Iterable[str]) -> None:
    """Raises INVALID_CONFIG for a misspelt setting: the test would not test what it was written for."""
    for name in settings:
        near = nearest_setting(name)
        if near is not None:
            from moldau.errors import InvalidConfigError

            raise InvalidConfigError(f"{name} is not a setting of Kafka 4.3 or of Moldau; did you mean {near}?")


def _setting_text(value: object) -> str:
    """As Kafka writes it: `true`, and lists with commas."""
    if isinstance(value, list | tuple):
        return ",".join(_setting_text(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_in_coroutine() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _sleep(duration_s: float) -> None:
    """On asyncio, or on trio where anyio runs on it."""
    if _is_in_coroutine():
        await asyncio.sleep(duration_s)
        return
    import anyio  # type: ignore[import-not-found, unused-ignore]

    await anyio.sleep(duration_s)
