"""The group coordinators of this broker: one host and one machine per partition of `__consumer_offsets`.

A shard is loaded from its log at its first use, with pauses that let other work through; requests wait for it. What a
request leads to is appended as one batch; replies leave when the high watermark has passed what they rest on, which is
at once unless `flush.messages=1`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from moldau.core.config.topic_settings import OFFSETS_TOPIC
from moldau.core.coordination.host import CoordinatorHost, HostOutput, LoadedRecord, LoadedTransactionEnd
from moldau.core.coordination.machine import NO_REQUEST_ID
from moldau.core.groups.classic.memory import MemberMemory
from moldau.core.groups.group_partitions import partition_for_group
from moldau.core.groups.machine import GroupMachine
from moldau.core.groups.records import (
    GroupMetadataRecord,
    GroupRecord,
    OffsetRecord,
    decode_group_record,
    encode_group_record,
)
from moldau.core.groups.refusals import append_error, refusal
from moldau.core.groups.requests import (
    AnyGroupRequest,
    ForgetTopics,
    GroupNotWritten,
    GroupRequest,
    GroupResponse,
    GroupSettings,
)
from moldau.core.groups.state import GroupsState, topics_with_offsets
from moldau.core.log.damage import DamagedBatchError
from moldau.core.log.log import AppendOrigin
from moldau.core.metadata.image import MetadataDelta
from moldau.core.replication.partition import Partition
from moldau.errors import (
    InvariantError,
    KafkaError,
    MoldauError,
    ProtocolError,
    StorageFailedError,
    kafka_error,
)
from moldau.telemetry import BOUND_REACHED
from moldau.types import Offset, ProducerEpoch, ProducerId
from moldau.wire.records.batch import BatchHeader, iterate_batches
from moldau.wire.records.builder import build_batch
from moldau.wire.records.compression import Compression
from moldau.wire.records.control import ControlType, decode_control_key
from moldau.wire.records.record import Record, read_records

if TYPE_CHECKING:
    from moldau.shell.broker.role import Broker

LOAD_BYTES = 1 << 20
MAX_COLD_READS = 8
CREATE_TIMEOUT_S = 15.0

OFFSET_COMMITS = "moldau.group:type=GroupCoordinator,name=OffsetCommits"
OFFSET_EXPIRATIONS = "moldau.group:type=GroupCoordinator,name=OffsetExpirations"
OFFSET_DELETIONS = "moldau.group:type=GroupCoordinator,name=OffsetDeletions"
REBALANCES = "moldau.group:type=GroupCoordinator,name=Rebalances"
"""Generations whose assignment stands in the log."""

Loaded = LoadedRecord[GroupRecord] | LoadedTransactionEnd


class GroupShard:
    """One partition of `__consumer_offsets` with its machine."""

    def __init__(self, broker: Broker, partition: Partition) -> None:
        self.partition = partition
        self.loading: asyncio.Future[None] | None = broker.loop.create_future()
        """Done when the log is folded; None from then on."""
        settings = GroupSettings.from_broker(broker.settings)
        self._machine = GroupMachine(settings, broker.random, broker.coordinators.member_memory)
        self.host: CoordinatorHost[GroupsState, AnyGroupRequest, GroupResponse, GroupRecord] = CoordinatorHost(
            self._machine, partition.topic_partition
        )
        self._compression = Compression(broker.settings.offsets_topic_compression_codec)
        self._broker = broker
        self._deleted_topics: dict[str, None] = {}
        """Topics deleted while this shard was loading."""
        self._last_request_id = 0
        self._waiting: dict[int, asyncio.Future[GroupResponse]] = {}
        self._replies: dict[int, GroupResponse | MoldauError] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_deadline_ms = 0
        self.is_closed = False
        self._is_firing = False

    # -- loading

    async def load(self) -> None:
        """Folds the log, then decides what loading itself leads to (sessions of the members that were recorded)."""
        loading, host = self.loading, self.host
        try:
            # one shard at a time: each holds a part of its log
            async with self._broker.coordinators.load_turn:
                await self._fold_log_or_stop()
            if self.is_closed:
                return
            if host.stopped is not None:
                self._broker.log.error(f"groups of {self.partition.topic_partition}", host.stopped)
            self._begin()
        except Exception as error:
            # whoever waits must hear of it, also of our own mistakes
            if loading is not None and not loading.done():
                loading.set_exception(kafka_error("COORDINATOR_NOT_AVAILABLE", str(error)))
                loading.exception()
            if isinstance(error, MoldauError) and not isinstance(error, InvariantError):
                return
            raise
        if loading is not None and not loading.done():
            loading.set_result(None)

    async def _fold_log_or_stop(self) -> None:
        """A log that cannot be read stops the shard, as a record that cannot be applied does: groups whose commits lie
        behind the damage would begin anew, and what they commit then would hide it."""
        try:
            await self._fold_log()
        except (DamagedBatchError, ProtocolError) as error:
            self.host.stop(f"{self.partition.topic_partition} cannot be loaded, its groups are not served: {error}")

    async def _fold_log(self) -> None:
        """Of what one read gives, only the last record of each key is decoded and folded, as if compaction had been
        there: groups commit the same few positions again and again."""
        log, host = self.partition.log, self.host
        offset = log.log_start_offset
        while offset < log.log_end_offset and host.stopped is None and not self.is_closed:
            data = await self._read_part(offset)
            if not data:
                break  # compaction left nothing up to the end
            latest: dict[bytes | None, Record] = {}
            begin = offset
            for position, header in iterate_batches(data):
                records = read_records(memoryview(data)[position : position + header.size])
                if header.is_transactional or header.is_control:
                    # it counts when its marker comes, or never
                    await self._fold(_decode(latest.values()))
                    latest.clear()
                    await self._fold(_decode_transactional(records, header))
                else:
                    for record in records:
                        latest.pop(record.key, None)
                        latest[record.key] = record
                offset = header.next_offset
                await self._broker.pauses.pause(len(records))
            await self._fold(_decode(latest.values()))
            if offset == begin:
                raise ProtocolError(f"{log.directory}: no whole record batch at offset {offset}")

    async def _fold(self, items: Iterator[Loaded]) -> None:
        for item in items:
            self.host.load((item,))
            await self._broker.pauses.pause()

    def start_empty(self) -> None:
        """Instead of `load`, where the log holds nothing."""
        self._begin()

    def _begin(self) -> None:
        log = self.partition.log
        self.loading = None
        if self.host.stopped is None:
            self.host.advance_to(Offset(log.log_end_offset))
        self.host.committed(self.partition.high_watermark)
        self._perform(self.host.loaded(self._now_ms()))
        image = self._broker.image
        gone = [name for name in topics_with_offsets(self.host.state) if image.topic(name) is None]
        self.forget_topics(tuple({**self._deleted_topics, **dict.fromkeys(gone)}))
        self._arm_timer()

    def forget_topics(self, names: tuple[str, ...]) -> None:
        """Ends the offsets committed for topics that were deleted, so that a new topic of that name begins without."""
        if self.loading is not None:
            self._deleted_topics.update(dict.fromkeys(names))
        elif names and self.host.stopped is None and not self.is_closed:
            self._perform(self.host.submit(NO_REQUEST_ID, ForgetTopics(names), self._now_ms()))
            self._arm_timer()

    async def _read_part(self, offset: int) -> bytes:
        log = self.partition.log
        for attempt in range(MAX_COLD_READS + 1):
            read = log.read(
                offset,
                max_bytes=LOAD_BYTES,
                end_offset=log.log_end_offset,
                may_wait=attempt == MAX_COLD_READS,
            )
            if read.cold is None:
                break
            await self._broker.workers.run(read.cold.run)
        return bytes(read.records or b"")

    # -- deciding

    def submit(self, request: GroupRequest) -> GroupResponse | asyncio.Future[GroupResponse]:
        """The response if it is there at once, else a future of it. Raises MoldauError, now or through the future."""
        self._last_request_id += 1
        request_id = self._last_request_id
        self._perform(self.host.submit(request_id, request, self._now_ms()))
        self._arm_timer()
        reply = self._replies.pop(request_id, None)
        if reply is None:
            future: asyncio.Future[GroupResponse] = self._broker.loop.create_future()
            self._waiting[request_id] = future
            return future
        if isinstance(reply, MoldauError):
            try:
                raise reply
            finally:
                # else the error and this frame hold each other, and with them the caller's view of the receive buffer
                del reply
        return reply

    def _perform(self, output: HostOutput[GroupResponse, GroupRecord]) -> None:
        self._deliver(output.replies)
        if not output.records:
            return
        now_ms = self._broker.clock.now_ms()
        partition = self.partition
        try:
            records = [(*encode_group_record(record), now_ms, ()) for record in output.records]
            batch = bytearray(build_batch(records, compression=self._compression))
            appended = partition.append(batch, now_ms, AppendOrigin.COORDINATOR)
        except StorageFailedError as error:
            self._deliver(self.host.append_failed(kafka_error("KAFKA_STORAGE_ERROR", str(error))))
            self._broker.directory_failed()
        except (KafkaError, ProtocolError) as error:
            # also a record that cannot be written, which would be our own mistake, is refused, and the shard lives on
            self._refuse(output.records, error)
        except InvariantError:
            raise
        except Exception as error:
            # unforeseen, and nothing is in the log: the next decision must not find this one still pending
            self._refuse(output.records, kafka_error("UNKNOWN_SERVER_ERROR"))
            self._broker.log.unforeseen(
                f"coordinator {type(error).__name__}", f"{partition.topic_partition}: a decision failed", error
            )
        else:
            self._count(output.records)
            self._deliver(self.host.appended(appended.last_offset))
            if partition.waits_for_flush:
                self._broker.flusher.request(partition)
            else:
                self._broker.partition_appended(partition)

    def _refuse(self, records: tuple[GroupRecord, ...], error: MoldauError) -> None:
        """Nothing of `records` is in the log: the machine takes back what it has begun for them."""
        self._deliver(self.host.append_failed(error))
        for record in records:
            if isinstance(record, GroupMetadataRecord) and _is_generation(record):
                self._perform(self.host.submit(NO_REQUEST_ID, GroupNotWritten(record.key.group), self._now_ms()))

    def _count(self, records: tuple[GroupRecord, ...]) -> None:
        telemetry = self._broker.telemetry
        commits = sum(1 for record in records if isinstance(record, OffsetRecord) and record.value is not None)
        if commits:
            telemetry.count(OFFSET_COMMITS, amount=commits)
        if commits < len(records):
            ends = sum(1 for record in records if isinstance(record, OffsetRecord) and record.value is None)
            # what a timer ends has expired, or its topic is gone; what a request ends was deleted
            telemetry.count(OFFSET_EXPIRATIONS if self._is_firing else OFFSET_DELETIONS, amount=ends)
            telemetry.count(REBALANCES, amount=sum(1 for record in records if _is_generation(record)))

    def committed(self) -> None:
        """The high watermark moved."""
        if self.loading is None:
            self._deliver(self.host.committed(self.partition.high_watermark))

    def _deliver(self, replies: tuple[tuple[int, GroupResponse | MoldauError], ...]) -> None:
        for request_id, reply in replies:
            future = self._waiting.pop(request_id, None)
            if future is None:
                if request_id == self._last_request_id:
                    self._replies[request_id] = reply
            elif future.done():
                continue
            elif isinstance(reply, MoldauError):
                future.set_exception(reply)
            else:
                future.set_result(reply)

    # -- timers

    def _now_ms(self) -> int:
        """The steady time that groups live by: an operator who sets the clock ends no session and prolongs none."""
        clock = self._broker.clock
        now_ms = clock.monotonic_ms()
        self._machine.wall_ahead_ms = clock.now_ms() - now_ms
        return now_ms

    def _arm_timer(self) -> None:
        deadline_ms = self.host.next_deadline_ms()
        if self._timer is not None:
            if deadline_ms == self._timer_deadline_ms:
                return
            self._timer.cancel()
            self._timer = None
        if deadline_ms is not None and not self.is_closed:
            self._timer_deadline_ms = deadline_ms
            delay_ms = max(0, deadline_ms - self._broker.clock.monotonic_ms())
            self._timer = self._broker.loop.call_later(delay_ms / 1000, self._fire)

    def _fire(self) -> None:
        """One decision, and the next one in the next turn of the loop: long lists come in several, all due at once."""
        self._timer = None
        self._is_firing = True
        try:
            output = self.host.fire(self._now_ms())
            if output is not None:
                self._perform(output)
        finally:
            self._is_firing = False
            self._arm_timer()

    def close(self, error: KafkaError) -> None:
        """The partition is gone or offline: whoever waits gets `error`."""
        if not self.is_closed:
            for group in self.host.state.groups.values():
                group.dissolve()
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)
        if self.loading is not None and not self.loading.done():
            self.loading.set_exception(error)
            self.loading.exception()


class Coordinators:
    """All shards of this broker, by partition of `__consumer_offsets`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._shards: dict[int, GroupShard] = {}
        self._by_number: dict[int, GroupShard] = {}
        self._creating: asyncio.Task[None] | None = None
        self.member_memory = MemberMemory(
            limit_bytes=broker.group_memory_bytes,
            bound_reached=lambda setting: broker.telemetry.count(BOUND_REACHED, setting),
        )
        self.load_turn = asyncio.Lock()
        """Held by the shard that folds its log."""

    @property
    def is_ready(self) -> bool:
        """Whether `__consumer_offsets` is there and served: the metadata names the topic some turns before that."""
        return OFFSETS_TOPIC in self._broker.image.topics_by_name and (self._creating is None or self._creating.done())

    async def ensure_topic(self) -> None:
        """Creates `__consumer_offsets` unless it is there; concurrent callers share one creation. Raises KafkaError."""
        if self.is_ready:
            return
        if self._creating is None or self._creating.done():
            self._creating = self._broker.loop.create_task(self._broker.topic_creation.create(OFFSETS_TOPIC))
        done, _ = await asyncio.wait((self._creating,), timeout=CREATE_TIMEOUT_S)
        if not done:
            raise kafka_error("COORDINATOR_NOT_AVAILABLE")
        self._creating.result()

    def shard_for(self, group_id: str) -> GroupShard:
        """The shard that coordinates `group_id`; it may still be loading. Raises NOT_COORDINATOR, as Kafka does while
        the topic is not there."""
        topic = self._broker.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None:
            raise kafka_error("NOT_COORDINATOR")
        return self._shard(partition_for_group(group_id, len(topic.partitions)))

    def all_shards(self) -> list[GroupShard]:
        return [self._shard(index) for index in self._indexes()]

    def _shard(self, index: int) -> GroupShard:
        shard = self._shards.get(index)
        if shard is not None:
            if shard.is_closed:
                raise kafka_error("NOT_COORDINATOR")
            return shard
        try:
            partition = self._broker.partitions.find(OFFSETS_TOPIC, index)
        except KafkaError:
            raise kafka_error("NOT_COORDINATOR") from None
        if partition.is_offline:
            raise kafka_error("NOT_COORDINATOR")
        shard = GroupShard(self._broker, partition)
        self._shards[index] = self._by_number[partition.number] = shard
        if partition.log.log_end_offset == partition.log.log_start_offset:
            # nothing to fold: the first request of a fresh cluster need not wait for a turn of the loop
            shard.start_empty()
        else:
            self._broker.spawn(shard.load())
        return shard

    async def ask(self, group_id: str, request: GroupRequest) -> GroupResponse:
        """The answer of the group's coordinator.

        Decided in the first step, in the order of the calls, unless the shard is loading. Never raises KafkaError: an
        error becomes the response that says so.
        """
        try:
            shard = self.shard_for(group_id)
        except KafkaError as error:
            return refusal(request, error.code)
        if shard.loading is not None:
            return await self.ask_shard(shard, request)
        answer = self._submit(shard, request)
        return await self._settled(answer, request) if isinstance(answer, asyncio.Future) else answer

    async def ask_shard(self, shard: GroupShard, request: GroupRequest) -> GroupResponse:
        """As `ask`, of one shard."""
        while shard.loading is not None:
            try:
                await asyncio.shield(shard.loading)
            except KafkaError as error:
                return refusal(request, error.code)
        answer = self._submit(shard, request)
        return await self._settled(answer, request) if isinstance(answer, asyncio.Future) else answer

    def _submit(self, shard: GroupShard, request: GroupRequest) -> GroupResponse | asyncio.Future[GroupResponse]:
        try:
            return shard.submit(request)
        except InvariantError:
            raise
        except MoldauError as error:
            return refusal(request, append_error(error, request))

    async def _settled(self, answer: asyncio.Future[GroupResponse], request: GroupRequest) -> GroupResponse:
        try:
            return await answer
        except MoldauError as error:
            return refusal(request, append_error(error, request))

    # -- what happens to the partitions

    def partition_committed(self, partition: Partition) -> None:
        shard = self._by_number.get(partition.number)
        if shard is not None:
            shard.committed()

    def metadata_changed(self, delta: MetadataDelta) -> None:
        names = tuple(topic.name for topic in delta.deleted_topics.values())
        if OFFSETS_TOPIC in names:
            self.close(kafka_error("NOT_COORDINATOR"))
        elif names:
            for index in self._indexes():
                # also those that nobody has asked yet: when they are, the name may be another topic's
                with contextlib.suppress(KafkaError):
                    self._shard(index).forget_topics(names)

    def _indexes(self) -> list[int]:
        topic = self._broker.image.topics_by_name.get(OFFSETS_TOPIC)
        return [] if topic is None else list(topic.partitions)

    def directory_failed(self) -> None:
        for shard in self._shards.values():
            if shard.partition.is_offline:
                shard.close(kafka_error("NOT_COORDINATOR"))

    def close(self, error: KafkaError) -> None:
        """Ends all shards; a later request loads them anew."""
        shards, self._shards, self._by_number = self._shards, {}, {}
        for shard in shards.values():
            shard.close(error)


def _is_generation(record: GroupRecord) -> bool:
    return isinstance(record, GroupMetadataRecord) and record.value is not None and bool(record.value.members)


def _decode(records: Iterable[Record]) -> Iterator[Loaded]:
    """What records of the log say. Raises ProtocolError, with the offset, for one that cannot be read."""
    for record in records:
        decoded = _decode_record(record)
        if decoded is not None:
            yield LoadedRecord(Offset(record.offset), decoded)


def _decode_transactional(records: list[Record], header: BatchHeader) -> Iterator[Loaded]:
    """As `_decode`, of a transaction's batch: commits that are pending, or the marker that ends them."""
    producer_id, producer_epoch = ProducerId(header.producer_id), ProducerEpoch(header.producer_epoch)
    for record in records:
        offset = Offset(record.offset)
        if header.is_control:
            kind = decode_control_key(record.key)
            if kind in (ControlType.ABORT, ControlType.COMMIT):
                yield LoadedTransactionEnd(offset, producer_id, producer_epoch, kind is ControlType.COMMIT)
            continue
        decoded = _decode_record(record)
        if decoded is not None:
            yield LoadedRecord(offset, decoded, producer_id, producer_epoch)


def _decode_record(record: Record) -> GroupRecord | None:
    try:
        return decode_group_record(record.key, record.value)
    except ProtocolError as error:
        raise ProtocolError(f"offset {record.offset}: {error}") from error
