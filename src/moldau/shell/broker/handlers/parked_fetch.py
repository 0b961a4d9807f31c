"""One fetch from its first look to its answer: reads batches, and waits for more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import msgspec

from moldau.core.log.reading import HOLD_ANY, TOO_LARGE, Read
from moldau.core.replication.fetch_session import NO_SESSION_ID, SessionAnswer
from moldau.core.replication.partition import Partition
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, StorageFailedError, kafka_error
from moldau.shell.broker.fetch_turns import LITTLE_BYTES
from moldau.shell.broker.handlers.leader_hints import name_leaders
from moldau.shell.broker.handlers.near_replicas import near_replica
from moldau.shell.broker.streamed_batch import StreamedBatch
from moldau.shell.broker.traffic import (
    FAILED_FETCH_REQUESTS,
    FETCH_ERRORS,
    REASSIGNMENT_BYTES_OUT,
    REPLICATION_BYTES_OUT,
)
from moldau.shell.network.context import RequestContext
from moldau.shell.network.pending_response import Answer, PendingResponse
from moldau.shell.network.rights import READ_TOPIC
from moldau.telemetry import BOUND_REACHED
from moldau.wire.protocol.elsewhere import LeaderNode, PreferredReadReplica
from moldau.wire.protocol.fast_fetch import (
    AbortedTransactions,
    Elsewhere,
    FetchEntry,
    FetchResult,
    Part,
    Reader,
    encode_fetch_response,
)
from moldau.wire.records.batch import iterate_batches

if TYPE_CHECKING:
    from moldau.core.log.reading import ColdRead
    from moldau.shell.broker.role import Broker

TOPIC_IDS_FROM = 13
RACK_FROM = 11
LEADERS_FROM = 16
NOT_THE_LEADER = ERROR_CODES["NOT_LEADER_OR_FOLLOWER"], ERROR_CODES["FENCED_LEADER_EPOCH"]
REFUSED_BEFORE_THE_LOG = tuple(
    ERROR_CODES[name]
    for name in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED", "INVALID_REQUEST")
)
ENTRIES_BETWEEN_PAUSES = 50
MAX_COLD_READS = 64
ONE_PARTITION_BYTES = 1 << 20
MAX_ANSWER_BYTES = 4 << 20
"""The next fetch asks for the rest: reading 32 MiB would delay all other clients by 20 ms."""


def refused(entry: FetchEntry, code: int) -> FetchResult:
    """The result of a partition that is not read, with its error code."""
    # as in Kafka: empty if the partition is unknown or not authorized, null for an error of its log
    return (entry[0], entry[1], code, -1, -1, -1, None, None, () if code in REFUSED_BEFORE_THE_LOG else None)


def _aborted(
    partition: Partition, offset: int, read: Read | tuple[int, int] | PreferredReadReplica
) -> AbortedTransactions:
    """The aborted transactions of the records that were read from `offset`. Raises 56."""
    if not isinstance(read, Read) or not (read.records or read.later):
        return ()
    end_offset = offset if read.later is None else read.later.next_offset
    with suppress(ProtocolError):  # damaged bytes: the reader cannot use what follows them
        for _, header in iterate_batches(read.records or b""):
            end_offset = header.next_offset
    found = partition.aborted_transactions(offset, end_offset)
    return tuple((entry.producer_id, entry.first_offset) for entry in found)


class FetchTerms(msgspec.Struct, frozen=True):
    """The reader, and the limits of its fetch."""

    reader: Reader
    rack: str
    max_bytes: int
    min_bytes: int
    is_read_committed: bool


class ParkedFetch:
    """One fetch, from its first look to its answer. Keeps no view of the frame."""

    is_follower: ClassVar[bool] = False
    """Whether the reader is a broker that holds replicas."""
    __slots__ = (
        "_cold",
        "_gathered",
        "_is_answering",
        "_is_cut",
        "_is_next",
        "_partitions",
        "_response",
        "_seen",
        "_timer",
        "broker",
        "broker_epoch",
        "context",
        "entries",
        "is_read_committed",
        "is_urgent",
        "max_bytes",
        "min_bytes",
        "rack",
        "replica_id",
        "session",
        "size",
    )

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        terms: FetchTerms,
        entries: list[FetchEntry],
        session: SessionAnswer | None,
    ) -> None:
        self.broker = broker
        self.context = context
        self.replica_id, self.broker_epoch = terms.reader
        self.rack = terms.rack
        self.max_bytes = terms.max_bytes
        self.min_bytes = terms.min_bytes
        self.entries = entries
        self.size = 0
        self.is_urgent = False
        self.is_read_committed = terms.is_read_committed
        self.session = session
        self._cold: ColdRead | None = None
        self._is_cut = False
        """Whether more is available than the little that the look may read."""
        self._response: PendingResponse | None = None
        self._partitions: list[Partition] = []
        self._seen: dict[int, int] = {}
        self._gathered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_answering = False
        self._is_next = False
        """Whether it is parked and queued for a later turn of the loop."""

    @property
    def has_nothing_to_wait_for(self) -> bool:
        """Whether the fetch has no partitions, and is answered at once."""
        return not self.entries

    @property
    def is_cold(self) -> bool:
        """Whether the last look found records that must first be read from the disk."""
        return self._cold is not None

    # -- looking

    def look(self) -> list[FetchResult] | None:
        """As `collect`. None if there is much to read, and this turn of the loop has read its bytes."""
        turns = self.broker.fetch_turns
        if not turns.is_over:
            results = self.collect()
            if self.size > LITTLE_BYTES:
                turns.read(self.size)
            return results
        results = self.collect(is_only_little=True)
        return None if self._is_cut or self.is_cold else results

    def _look_in_later_turn(self) -> list[FetchResult]:
        """As `collect`, for a fetch that waited for a later turn of the loop."""
        results = self.collect()
        self.broker.fetch_turns.read(self.size)
        return results

    def look_later(self, max_wait_ms: int) -> PendingResponse:
        """Reserves the answer's place in the order of the connection, and looks in a later turn of the loop."""
        response = self._response = self.context.reply.reserve()
        self.broker.fetch_turns.wait(partial(self._look_first, response, max_wait_ms))
        return response

    def _look_first(self, response: PendingResponse, max_wait_ms: int) -> None:
        # a method, as a nested function that refers to itself is a cycle, which keeps the answer in memory
        reply = self.context.reply
        if reply.is_closed:
            return
        if reply.is_write_paused:
            look = partial(self._look_first, response, max_wait_ms)
            reply.when_writable(partial(self.broker.fetch_turns.wait, look))
            return
        results = self._look_in_later_turn()
        if self.is_cold:
            self.broker.spawn(self._read_cold())
        elif self.is_urgent or self.size >= self.min_bytes or max_wait_ms <= 0:
            self._answer(results)
        else:
            parked = self.park(max_wait_ms, results)
            if not isinstance(parked, PendingResponse):
                response.complete(parked)

    def collect(
        self,
        *,
        taken_bytes: int = 0,
        may_stream: bool = True,
        is_cold_left_out: bool = False,
        is_only_little: bool = False,
    ) -> list[FetchResult]:
        """Reads the available records. Sets `size` (bytes), `is_urgent` (answer now) and `is_cold` (needs the disk: the
        results are incomplete). `taken_bytes`: the bytes already in the answer; `size` includes them."""
        results: list[FetchResult] = []
        unknown: list[FetchResult] = []
        none_aborted: AbortedTransactions | None = () if self.is_read_committed else None
        self.size = taken_bytes
        self.is_urgent = False
        self._cold = None
        self._is_cut = False
        memory = self.broker.response_memory
        allowance_bytes = memory.fetch_allowance_bytes()
        held_bytes = HOLD_ANY
        if memory.is_short:
            held_bytes = allowance_bytes if may_stream else HOLD_ANY
            self.context.reply.press()
        budget = min(self.max_bytes, MAX_ANSWER_BYTES, allowance_bytes) - taken_bytes
        is_cut_short = False
        if is_only_little:
            is_cut_short = budget > LITTLE_BYTES
            budget = min(budget, LITTLE_BYTES)
        elif len(self.entries) == 1:
            # a fetch of one partition is repeated at once, so a large answer saves nothing and costs new memory pages:
            # 0.24 CPU s per GB in answers of 8 MiB, 0.12 in answers of 1 MiB
            budget = min(budget, max(ONE_PARTITION_BYTES, 2 * self.min_bytes))
        for entry in self.entries:
            try:
                partition, read = self._read(entry, budget, held_bytes, not is_only_little, is_cut_short)
                aborted = none_aborted
                if aborted is not None and partition.may_have_aborted and read is not None:
                    aborted = _aborted(partition, entry[3], read)
            except KafkaError as error:
                self.is_urgent = True
                self.broker.telemetry.count(FAILED_FETCH_REQUESTS)
                self.broker.telemetry.count(FETCH_ERRORS, str(error.code))
                # as in Kafka, errors from before the log come after all other results
                (unknown if error.code in REFUSED_BEFORE_THE_LOG else results).append(refused(entry, error.code))
                continue
            if read is not None and not isinstance(read, Read):
                self.is_urgent = True
                results.append(self._found(entry, partition, None, read, none_aborted))
                continue
            if read is not None and read.cold is not None and not is_cold_left_out:
                self._cold = read.cold
                return results
            records: Part | None = None if read is None else read.records
            if read is not None and read.later is not None:
                records = StreamedBatch(self.broker.own_node, read.later)
            if records:
                self.size += len(records)
                budget -= len(records)
            elif read is TOO_LARGE:
                self._is_cut = True
                if is_cut_short:
                    return results  # a later turn looks at all partitions again
                # as in Kafka: if the next batch does not fit, the result names no aborted transactions
                aborted = None
            results.append(self._found(entry, partition, records, None, aborted))
        if is_only_little and self.size > LITTLE_BYTES // 2:
            self._is_cut = True
        return results + unknown if unknown else results

    async def collect_pausing(self) -> list[FetchResult]:
        """As `collect`, for very many partitions, with pauses. Waits for the disk if needed."""
        entries, results, unknown = self.entries, list[FetchResult](), list[FetchResult]()
        size, is_urgent, cold_reads, at = 0, False, 0, 0
        while at < len(entries):
            self.entries = entries[at : at + ENTRIES_BETWEEN_PAUSES]
            is_cold_left_out = cold_reads >= MAX_COLD_READS
            found = self.collect(taken_bytes=size, may_stream=False, is_cold_left_out=is_cold_left_out)
            if self._cold is not None:
                cold_reads += 1
                await self._read_ahead(self._cold)
                continue
            for result in found:
                (unknown if result[2] in REFUSED_BEFORE_THE_LOG else results).append(result)
            size, is_urgent = self.size, is_urgent or self.is_urgent
            at += len(self.entries)
            await self.context.pause(len(self.entries))
        self.entries, self.is_urgent = entries, is_urgent
        return results + unknown

    async def _read_ahead(self, cold: ColdRead) -> None:
        try:
            await self.context.wait(self.broker.workers.run(cold.run))
        except StorageFailedError:
            self.broker.directory_failed()

    def _read(
        self, entry: FetchEntry, budget: int, held_bytes: int, is_oversize_allowed: bool, is_cut_short: bool
    ) -> tuple[Partition, Read | tuple[int, int] | PreferredReadReplica | None]:
        """Reads one partition: returns batches, a diverging epoch, another replica to read, or None for nothing. Raises
        KafkaError. `is_cut_short`: `budget` is below the limit of the fetch."""
        partition = self._readable_partition(entry)
        _, _, current_leader_epoch, offset, last_fetched_epoch, _, partition_max_bytes = entry
        if self.is_follower:
            partition.check_follower(self.replica_id, self.broker_epoch, current_leader_epoch)
        else:
            partition.check_reader(current_leader_epoch, is_leader_needed=self.context.api_version < RACK_FROM)
        if partition.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        if partition_max_bytes < 0:
            raise kafka_error("INVALID_REQUEST", "a negative partition_max_bytes")
        if last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(offset, last_fetched_epoch)
            if diverging is not None:
                return partition, diverging
        if self.rack:
            nearer = near_replica(self.broker, self.context, partition, self.rack, offset)
            if nearer is not None:
                return partition, nearer
        log = partition.log
        end_offset = partition.read_bound(self.replica_id, self.is_read_committed)
        if offset >= end_offset or offset < log.log_start_offset:
            if not log.log_start_offset <= offset <= log.log_end_offset:
                raise kafka_error("OFFSET_OUT_OF_RANGE")
            return partition, None
        if self.is_follower and self.broker.replication.throttles.holds_back_from(self.replica_id, partition):
            return partition, None
        is_first = self.size == 0 and is_oversize_allowed
        if budget <= 0 and not is_first:
            return partition, None
        try:
            # a later turn reads the whole range: reading a part now would be wasted
            is_all_or_none = is_cut_short and budget < partition_max_bytes
            max_bytes = budget if budget < partition_max_bytes else partition_max_bytes
            read = log.read(offset, max_bytes, end_offset, is_first, held_bytes, is_all_or_none)
        except StorageFailedError:
            self.broker.directory_failed()
            raise kafka_error("KAFKA_STORAGE_ERROR") from None
        return partition, read

    def _readable_partition(self, entry: FetchEntry) -> Partition:
        """The partition, if the reader may read it. Raises 100, 29, 3, 6."""
        topic = entry[0]
        # a follower's right, ClusterAction, is checked elsewhere
        if self.context.api_version >= TOPIC_IDS_FROM:
            hosted = self.broker.partitions.by_id.get(topic)
            if hosted is None:
                raise kafka_error("UNKNOWN_TOPIC_ID")
            if not self.is_follower and not self.context.authorize(READ_TOPIC, hosted.name):
                raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
        else:
            if not self.is_follower and not self.context.authorize(READ_TOPIC, topic):
                raise kafka_error("TOPIC_AUTHORIZATION_FAILED")
            hosted = self.broker.partitions.by_name.get(topic)
            if hosted is None:
                raise kafka_error("UNKNOWN_TOPIC_OR_PARTITION")
        return hosted.partitions.get(entry[1]) or hosted.find(entry[1])

    def _found(
        self,
        entry: FetchEntry,
        partition: Partition,
        records: Part | None,
        elsewhere: Elsewhere,
        aborted: AbortedTransactions | None,
    ) -> FetchResult:
        partition.fetch_requests += 1
        high_watermark = partition.position.high_watermark
        log_start_offset = partition.log.log_start_offset
        return (
            entry[0],
            entry[1],
            0,
            high_watermark,
            partition.last_stable_offset,
            log_start_offset,
            elsewhere,
            records,
            aborted,
        )

    def encode(self, results: list[FetchResult]) -> list[Part]:
        """Encodes the whole response, with its frame."""
        context = self.context
        throttle_time_ms, error_code, session_id, results, nodes = self.finish(results)
        return encode_fetch_response(
            context.api_version,
            context.correlation_id,
            error_code,
            session_id,
            results,
            throttle_time_ms=throttle_time_ms,
            nodes=nodes,
        )

    def finish(self, results: list[FetchResult]) -> tuple[int, int, int, list[FetchResult], Sequence[LeaderNode]]:
        """Completes the answer: its throttle time in ms, error code, session id, results, and the leaders that these
        name."""
        throttle_time_ms = 0 if self.is_follower else self.context.throttle(self.size)
        if throttle_time_ms:
            # a client over its quota gets nothing and no session now: it asks again after the wait
            results = []
        elif self.size:
            self._count(results)
        error_code, session_id = 0, NO_SESSION_ID
        if self.session is not None and not (throttle_time_ms and self.session.is_new):
            now_ms = self.broker.clock.monotonic_ms()
            error_code, session_id, results = self.session.finish(results, now_ms)
        nodes: Sequence[LeaderNode] = ()
        if self.is_urgent and self.context.api_version >= LEADERS_FROM:
            nodes = name_leaders(self.broker, self.context, results, NOT_THE_LEADER)
        return throttle_time_ms, error_code, session_id, results, nodes

    def _count(self, results: list[FetchResult]) -> None:
        partitions = self.broker.partitions
        topics = partitions.by_id if self.context.api_version >= TOPIC_IDS_FROM else partitions.by_name
        for topic, index, _, _, _, _, _, records, _ in results:
            if not records or (hosted := topics.get(topic)) is None or index not in hosted.partitions:
                continue
            partition = hosted.partitions[index]
            if not self.is_follower:
                partition.fetched_bytes += len(records)
                continue
            self.broker.replication.throttles.sent(partition, len(records))
            self.broker.telemetry.count(REPLICATION_BYTES_OUT, amount=len(records))
            if partition.replica.is_being_added(self.replica_id):
                self.broker.telemetry.count(REASSIGNMENT_BYTES_OUT, amount=len(records))

    # -- waiting

    def park(self, max_wait_ms: int, results: list[FetchResult]) -> PendingResponse | Answer:
        """Reserves the place of the answer, and waits for enough bytes, an error, or `max_wait_ms`.

        If too many fetches wait, answers with `results`, which the previous look found: another look may find less in
        the page cache, and the answer of a new session must name each partition.
        """
        broker = self.broker
        context = self.context
        if broker.parked_fetches >= broker.max_parked_fetches:
            broker.telemetry.count(BOUND_REACHED, "moldau.parked.fetches")
            return self.encode(results)
        response = self._response = self._response or context.reply.reserve()
        response.on_abandoned = self._leave
        self._register()
        broker.parked_fetches += 1
        self._timer = broker.loop.call_later(self._wait_ms(max_wait_ms) / 1000, self._answer_later)
        return response

    def _wait_ms(self, max_wait_ms: int) -> int:
        """The length of the wait."""
        return max_wait_ms

    def _register(self) -> None:
        """Starts the calls of `partition_changed`."""
        partitions = self.broker.partitions
        topics = partitions.by_id if self.context.api_version >= TOPIC_IDS_FROM else partitions.by_name
        self._partitions = [topics[entry[0]].partitions[entry[1]] for entry in self.entries]
        self._gathered = self._counted()
        for partition in self._partitions:
            self._seen[partition.number] = partition.appended_bytes
        self.broker.waits.add(self._partitions, self)

    def _unregister(self) -> None:
        self.broker.waits.remove(self._partitions, self)

    def partition_changed(self, partition: Partition) -> None:
        """Looks again once `min_bytes` have arrived, or this broker lost a partition."""
        appended_bytes = partition.appended_bytes
        self._gathered += appended_bytes - self._seen.get(partition.number, appended_bytes)
        self._seen[partition.number] = appended_bytes
        is_gone = partition.is_offline or partition.is_deleted or partition.leader is None
        if is_gone or self._gathered >= self.min_bytes:
            self._look_again()

    def _look_again(self) -> None:
        reply = self.context.reply
        if reply.is_write_paused:
            self._answer_later()
            return
        results = self.look()
        if results is not None:
            self._judge(results)
        elif not self._is_next:
            self._is_next = True
            self.broker.fetch_turns.wait(self._look_again_in_later_turn)

    def _look_again_in_later_turn(self) -> None:
        self._is_next = False
        if self._timer is None:
            return
        if self.context.reply.is_write_paused:
            self._answer_later()
        else:
            self._judge(self._look_in_later_turn())

    def _judge(self, results: list[FetchResult]) -> None:
        """Answers if there are enough bytes, else continues to wait."""
        if self.is_cold:
            self._leave()
            self.broker.spawn(self._read_cold())
        elif self.is_urgent or self.size >= self.min_bytes:
            self._answer(results)
        else:
            self._gathered = self._counted()

    def _counted(self) -> int:
        """The bytes found, or `min_bytes` if a partition holds records that may not be read yet. In that case each
        change causes a look, as the high watermark or a marker may release all of them."""
        for each in self._partitions:
            end_offset = each.last_stable_offset if self.is_read_committed else each.position.high_watermark
            if end_offset < each.log.log_end_offset:
                return self.min_bytes
        return self.size

    def _answer_later(self) -> None:
        """The wait is over, or there are enough bytes: answers once the transport takes more."""
        if not self._is_answering:
            self._is_answering = True
            self._leave()
            self.context.reply.when_writable(self._answer_now)

    def _answer_now(self) -> None:
        results = self.look()
        if results is None:
            self.broker.fetch_turns.wait(self._answer_in_later_turn)
        else:
            self._answer_with(results)

    def _answer_in_later_turn(self) -> None:
        reply = self.context.reply
        if reply.is_write_paused:
            reply.when_writable(self._answer_now)
        elif not reply.is_closed:
            self._answer_with(self._look_in_later_turn())

    def _answer_with(self, results: list[FetchResult]) -> None:
        if self.is_cold:
            self.broker.spawn(self._read_cold())
        else:
            self._answer(results)

    def _answer(self, results: list[FetchResult]) -> None:
        self._leave()
        if self._response is not None:
            self._response.complete(self.encode(results))

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.broker.parked_fetches -= 1
            self._unregister()

    # -- reading from the disk

    def answer_from_disk(self) -> PendingResponse:
        """Reads through Workers: a slow disk stalls only this connection."""
        self._response = self.context.reply.reserve()
        self.broker.spawn(self._read_cold())
        return self._response

    async def _read_cold(self) -> None:
        """Reads missing pieces into the page cache, and looks again until none is missing."""
        for _ in range(MAX_COLD_READS):
            cold = self._cold
            if cold is None:
                break
            await self._read_ahead(cold)
            results = self.collect()
            if not self.is_cold:
                self._answer(results)
                return
        # the page cache does not keep the pieces: answers with what it has, even if only of the first partitions
        self._answer(self.collect(is_cold_left_out=True))
