"""A key-value store as a log-backed machine, with its owner's part: a partition on a disk in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from moldau.core.coordination.host import CoordinatorHost
from moldau.core.coordination.machine import Counts, Decision, Now, Timer
from moldau.core.log.log import Log
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.image import MetadataDelta, MetadataImage, PartitionImage
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import ReplicationSettings
from moldau.errors import ProtocolError, StorageFailedError, kafka_error
from moldau.shell.coordination.partition_log import PartitionLog
from moldau.shell.coordination.runtime import MachineRuntime
from moldau.shell.io.simulated.clock import ManualClock
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.workers import InlineWorkers
from moldau.shell.network.pauses import Pauses
from moldau.types import BrokerId, Buffer, LeaderEpoch, Offset, Pausing, ProducerEpoch, ProducerId, TopicPartition, Uuid
from moldau.wire.records.control import EndTransactionMarker
from tests.support.logs import flush

TOPIC_PARTITION = TopicPartition("__store", 0)
EPOCH = ProducerEpoch(4)
LIMIT = 100
"""The longest value that the machine accepts."""


class Put(msgspec.Struct, frozen=True):
    """Answers with the earlier value. With a producer it counts when the transaction commits."""

    key: str
    value: str
    ttl_ms: int = 0
    producer_id: int = -1


class PutMany(msgspec.Struct, frozen=True):
    """One decision, with a pause after each key."""

    keys: tuple[str, ...]
    value: str


class Get(msgspec.Struct, frozen=True):
    key: str


class WaitFor(msgspec.Struct, frozen=True):
    """Answered by the next Put of the key."""

    key: str


class End(msgspec.Struct, frozen=True):
    producer_id: int
    is_commit: bool


class Expired(msgspec.Struct, frozen=True):
    key: str


class NotWritten(msgspec.Struct, frozen=True):
    key: str


class Break(msgspec.Struct, frozen=True):
    """A bug of ours."""

    error: Exception


Request = Put | PutMany | Get | WaitFor | End | Expired | NotWritten | Break


class Entry(msgspec.Struct, frozen=True):
    key: str
    value: str | None


class Store(msgspec.Struct):
    """`values` and `pending` are durable; the others are not."""

    values: dict[str, str] = msgspec.field(default_factory=dict)
    pending: dict[int, dict[str, str | None]] = msgspec.field(default_factory=dict)
    waiting: dict[str, list[int]] = msgspec.field(default_factory=dict)
    not_written: list[str] = msgspec.field(default_factory=list)


StoreDecision = Decision[Request, str, Entry]


class StoreMachine:
    """`Machine[Store, Request, str, Entry]`."""

    def new_state(self) -> Store:
        return Store()

    def decide(
        self, state: Store, request_id: int, request: Request, now: Now
    ) -> StoreDecision | Pausing[StoreDecision]:
        match request:
            case Put():
                return self._put(state, request_id, request, now)
            case PutMany():
                return self._put_many(request_id, request)
            case Get():
                return Decision(replies=((request_id, state.values.get(request.key, "")),))
            case WaitFor():
                state.waiting.setdefault(request.key, []).append(request_id)
                return Decision()
            case End():
                marker = EndTransactionMarker(request.is_commit, 0)
                producer_id = ProducerId(request.producer_id)
                reply = (request_id, "ended")
                return Decision(replies=(reply,), producer_id=producer_id, producer_epoch=EPOCH, marker=marker)
            case Expired():
                return Decision(records=(Entry(request.key, None),))
            case NotWritten():
                state.not_written.append(request.key)
                return Decision()
            case Break():
                raise request.error

    def _put(self, state: Store, request_id: int, request: Put, now: Now) -> StoreDecision:
        if len(request.value) > LIMIT:
            raise kafka_error("POLICY_VIOLATION")
        waiting = tuple((waiter, request.value) for waiter in state.waiting.pop(request.key, ()))
        timer = Timer[Request](request.key, now.steady_ms + request.ttl_ms, Expired(request.key))
        return Decision(
            records=(Entry(request.key, request.value),),
            replies=((request_id, state.values.get(request.key, "")), *waiting),
            timers=(timer,) if request.ttl_ms else (Timer(request.key, None),),
            if_refused=(NotWritten(request.key),),
            producer_id=ProducerId(request.producer_id),
            producer_epoch=EPOCH if request.producer_id >= 0 else ProducerEpoch(-1),
        )

    def _put_many(self, request_id: int, request: PutMany) -> Pausing[StoreDecision]:
        records: list[Entry] = []
        for key in request.keys:
            records.append(Entry(key, request.value))
            yield
        return Decision(records=tuple(records), replies=((request_id, str(len(records))),))

    def decide_loaded(self, state: Store, image: MetadataImage, now: Now) -> StoreDecision:
        return Decision(records=tuple(Entry(key, None) for key in state.values if key.startswith("session-")))

    def decide_metadata(self, state: Store, image: MetadataImage, delta: MetadataDelta, now: Now) -> StoreDecision:
        gone = [topic.name for topic in delta.deleted_topics.values() if topic.name in state.values]
        return Decision(records=tuple(Entry(name, None) for name in gone))

    def apply(
        self, state: Store, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: Entry
    ) -> None:
        if record.value == "impossible":
            raise ValueError("an impossible value")
        if producer_id >= 0:
            state.pending.setdefault(producer_id, {})[record.key] = record.value
        else:
            _set(state, record.key, record.value)

    def apply_end_transaction(
        self, state: Store, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        pending = state.pending.pop(producer_id, {})
        if committed:
            for key, value in pending.items():
                _set(state, key, value)


def _set(state: Store, key: str, value: str | None) -> None:
    if value is None:
        state.values.pop(key, None)
    else:
        state.values[key] = value


def encode_entry(entry: Entry) -> tuple[bytes, bytes | None]:
    """Raises ProtocolError for a key that cannot be written, ZeroDivisionError for an unforeseen one."""
    if entry.key == "unwritable":
        raise ProtocolError("a key that cannot be written")
    if entry.key == "forgotten":
        raise ZeroDivisionError
    return entry.key.encode(), None if entry.value is None else entry.value.encode()


def decode_entry(key: Buffer | None, value: Buffer | None) -> Entry | None:
    return None if key is None else Entry(bytes(key).decode(), None if value is None else bytes(value).decode())


class ToyLog(PartitionLog[Entry]):
    """Its owner flushes on the test's request."""

    def __init__(self, owner: Owner, partition: Partition) -> None:
        super().__init__(partition, InlineWorkers(), owner.pauses, encode_entry, decode_entry)
        self._owner = owner

    def applied(self, records: tuple[Entry, ...], counts: Counts) -> None:
        self._owner.applied.append((records, counts))
        self._owner.runtime.committed(self.high_watermark)

    def failed(self, error: StorageFailedError) -> None:
        self._owner.runtime.close(kafka_error("NOT_COORDINATOR"))

    def stopped(self, reason: str) -> None:
        self._owner.told.append(reason)

    def unforeseen(self, error: Exception) -> None:
        self._owner.told.append(type(error).__name__)


class Owner:
    """A shard on a disk; a second owner on the same disk is the shard after a restart."""

    def __init__(self, disk: MemoryDisk, clock: ManualClock, **settings: int) -> None:
        self.disk = disk
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.pauses = Pauses(self.loop, None)
        self.applied: list[tuple[tuple[Entry, ...], Counts]] = []
        self.told: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        log_settings = LogSettings(**settings)
        log = Log.open(disk, "__store-0", TOPIC_PARTITION, Uuid(bytes(16)), log_settings, now_ms=clock.now_ms())
        waits_for_flush = log_settings.flush_messages == 1
        replication = ReplicationSettings(waits_for_flush=waits_for_flush)
        high_watermark = 0 if waits_for_flush else log.log_end_offset
        self.partition = Partition(log, 1, BrokerId(1), replication, lambda partition, output: None, high_watermark)
        self.partition.metadata_changed(PartitionImage((1,), (1,), BrokerId(1), LeaderEpoch(3), 0), {}, clock.now_ms())
        self.log = ToyLog(self, self.partition)
        self.host: CoordinatorHost[Store, Request, str, Entry] = CoordinatorHost(StoreMachine(), TOPIC_PARTITION)
        self.runtime = MachineRuntime(
            self.host, self.log, loop=self.loop, clock=clock, pauses=self.pauses, spawn=self.spawn
        )

    @property
    def state(self) -> Store:
        return self.host.state

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(self.loop.create_task(work))

    async def load(self) -> None:
        await self.runtime.load(self.log.replay, MetadataImage(), "values")

    def flush(self) -> None:
        """Flushes the log to the disk, and counts it."""
        flush(self.partition.log, self.clock.now_ms())
        self.partition.flushed(self.clock.now_ms())
        self.runtime.committed(self.partition.high_watermark)

    async def restarted(self, **settings: int) -> Owner:
        """The process ended, and another one reads the log."""
        self.runtime.abort()
        self.partition.log.release()
        self.disk.crash_process()
        again = Owner(self.disk, self.clock, **settings)
        await again.load()
        return again
