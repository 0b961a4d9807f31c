"""Decides one Fetch request: what each partition gives, and whether the answer leaves or the request waits.

The handler begins a `FetchLook`, passes each partition to it, and does what `read` asks for. If the answer `is_due`, it
sends `results`. Else the request waits: `FetchWait`, or `is_caught_up` for a follower in a session, decides which
changes of partitions are worth another look.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from moldau.core.log.reading import HOLD_ANY, TOO_LARGE, BatchInFile, ColdRead, Read
from moldau.core.replication.partition import CONSUMER_REPLICA_ID, FUTURE_LOCAL_REPLICA_ID, Partition
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, StorageFailedError, kafka_error
from moldau.ports import LaterBytes
from moldau.wire.protocol.elsewhere import PreferredReadReplica
from moldau.wire.protocol.fast_fetch import (
    CONSUMER,
    RACK_FROM,
    AbortedTransactions,
    Elsewhere,
    FetchEntry,
    FetchQuestion,
    FetchResult,
    Part,
)
from moldau.wire.records.batch import iterate_batches

READ_COMMITTED = 1
ONE_PARTITION_BYTES = 1 << 20
MAX_ANSWER_BYTES = 4 << 20
"""The next fetch asks for the rest: reading 32 MiB would delay all other clients by 20 ms."""
MAX_MIN_BYTES = MAX_ANSWER_BYTES // 2
"""No fetch waits for more bytes: an answer of whole batches may be full when it is just over half full."""
LITTLE_BYTES = 32 << 10
"""A fetch may read this much even after the turn of the loop has read its bytes."""
KAFKA_STORAGE_ERROR = ERROR_CODES["KAFKA_STORAGE_ERROR"]
REFUSED_BEFORE_THE_LOG = tuple(
    ERROR_CODES[name]
    for name in ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID", "TOPIC_AUTHORIZATION_FAILED", "INVALID_REQUEST")
)

DIRECTORY_FAILED, STREAM, STOP = 1, 2, 3
"""What the handler does after a partition: take a failed log directory offline, pass a reader of the batch `later` to
`stream`, look at no more partitions."""


class FetchTerms(msgspec.Struct, frozen=True):
    """Who asks, and the limits of the answer."""

    version: int
    replica_id: int
    broker_epoch: int
    is_follower: bool
    """Whether the reader is a broker that holds replicas."""
    rack: str
    max_bytes: int
    min_bytes: int
    is_read_committed: bool


def fetch_terms(question: FetchQuestion, version: int, fetch_max_bytes: int, quota_bytes: int | None) -> FetchTerms:
    """`quota_bytes`: the most that the client's quota allows now; None without one. Raises INVALID_REQUEST."""
    (replica_id, broker_epoch), _, min_bytes, max_bytes, isolation_level, _, _, _, _, rack = question
    if not 0 <= isolation_level <= READ_COMMITTED or max_bytes < 0:
        raise kafka_error("INVALID_REQUEST")
    is_follower = replica_id >= 0
    if not is_follower and replica_id not in (CONSUMER_REPLICA_ID, FUTURE_LOCAL_REPLICA_ID):
        replica_id, broker_epoch = CONSUMER  # as in Kafka, any other negative id is a consumer, also a debugging reader
    if max_bytes > fetch_max_bytes:
        max_bytes = fetch_max_bytes
    if quota_bytes is not None:
        max_bytes = min(max_bytes, quota_bytes)
        min_bytes = min(min_bytes, max_bytes)
    if min_bytes > MAX_MIN_BYTES:
        min_bytes = MAX_MIN_BYTES
    is_read_committed = isolation_level == READ_COMMITTED
    return FetchTerms(version, replica_id, broker_epoch, is_follower, rack, max_bytes, min_bytes, is_read_committed)


class FetchLook(msgspec.Struct, eq=False):
    """One look at the partitions of a request. Call `allow` first."""

    terms: FetchTerms
    is_little: bool = False
    """Whether it reads at most LITTLE_BYTES, because the turn of the loop has read its bytes."""
    is_cold_left_out: bool = False
    """Whether it gives nothing of a partition whose records are not in memory."""
    size: int = 0
    """The bytes of the records found."""
    is_urgent: bool = False
    """Whether the answer leaves now: it has an error, or names another place to read from."""
    cold: ColdRead | None = None
    """After STOP: the read from the disk that must run first."""
    later: BatchInFile | None = None
    """After STREAM: a batch that is too large for the memory."""
    _is_cut: bool = False
    _is_cut_short: bool = False
    """Whether the budget is below the limit of the fetch."""
    _limit: int = 0
    """The most that `size` may become."""
    _held_bytes: int = HOLD_ANY
    _found: list[FetchResult] = []
    _unknown: list[FetchResult] = []

    def allow(self, partition_count: int, allowance_bytes: int, held_bytes: int = HOLD_ANY) -> None:
        """Sets the memory that the answer may take, and the largest batch to read into memory."""
        terms = self.terms
        limit = terms.max_bytes if terms.max_bytes < MAX_ANSWER_BYTES else MAX_ANSWER_BYTES
        if allowance_bytes < limit:
            limit = allowance_bytes
        if self.is_little:
            self._is_cut_short = limit > LITTLE_BYTES
            limit = min(limit, LITTLE_BYTES)
        elif partition_count == 1:
            # a fetch of one partition is repeated at once, so a large answer saves nothing and costs new memory pages:
            # 0.24 CPU s per GB in answers of 8 MiB, 0.12 in answers of 1 MiB
            most = ONE_PARTITION_BYTES if 2 * terms.min_bytes < ONE_PARTITION_BYTES else 2 * terms.min_bytes
            if most < limit:
                limit = most
        self._limit = limit
        if held_bytes != HOLD_ANY:
            self._held_bytes = held_bytes

    def read(
        self,
        entry: FetchEntry,
        partition: Partition,
        nearer: PreferredReadReplica | None = None,
        is_held_back: bool = False,
    ) -> int:
        """Reads one partition. Returns the work of the caller: 0, DIRECTORY_FAILED, STREAM or STOP. `nearer`: the
        replica that the consumer should read from. `is_held_back`: a throttle holds the records back."""
        todo = 0
        records: Part | None = None
        elsewhere: Elsewhere = None
        aborted: AbortedTransactions | None = () if self.terms.is_read_committed else None
        try:
            read = self._read(entry, partition, nearer, is_held_back)
            if isinstance(read, Read):
                if aborted is not None and partition.may_have_aborted:
                    aborted = _aborted(partition, entry[3], read)
                if read.cold is not None and not self.is_cold_left_out:
                    self.cold = read.cold
                    return STOP
                if read.records:
                    records = read.records
                    self.size += len(records)
                elif read.later is not None:
                    self.later, todo = read.later, STREAM
                elif read is TOO_LARGE:
                    self._is_cut = True
                    if self._is_cut_short:
                        return STOP  # a later turn looks at all partitions again
                    # as in Kafka: if the next batch does not fit, the result names no aborted transactions
                    aborted = None
            elif read is not None:
                elsewhere, self.is_urgent = read, True
        except KafkaError as error:
            self.refuse(entry, error.code)
            return 0
        except StorageFailedError:
            self.refuse(entry, KAFKA_STORAGE_ERROR)
            return DIRECTORY_FAILED
        partition.fetch_requests += 1
        self._found.append(
            (
                entry[0],
                entry[1],
                0,
                partition.position.high_watermark,
                partition.last_stable_offset,
                partition.log.log_start_offset,
                elsewhere,
                records,
                aborted,
            )
        )
        return todo

    def _read(
        self, entry: FetchEntry, partition: Partition, nearer: PreferredReadReplica | None, is_held_back: bool
    ) -> Read | tuple[int, int] | PreferredReadReplica | None:
        """Batches, a diverging epoch, another replica to read, or None for nothing. Raises KafkaError,
        StorageFailedError."""
        _, _, current_leader_epoch, offset, last_fetched_epoch, _, partition_max_bytes = entry
        terms = self.terms
        if terms.is_follower:
            partition.check_follower(terms.replica_id, terms.broker_epoch, current_leader_epoch)
        else:
            partition.check_reader(current_leader_epoch, is_leader_needed=terms.version < RACK_FROM)
        if partition.is_offline:
            raise kafka_error("KAFKA_STORAGE_ERROR")
        if partition_max_bytes < 0:
            raise kafka_error("INVALID_REQUEST", "a negative partition_max_bytes")
        if last_fetched_epoch >= 0:
            diverging = partition.diverging_epoch(offset, last_fetched_epoch)
            if diverging is not None:
                return diverging
        if nearer is not None:
            return nearer
        log = partition.log
        end_offset = partition.read_bound(terms.replica_id, terms.is_read_committed)
        if offset >= end_offset or offset < log.log_start_offset:
            if not log.log_start_offset <= offset <= log.log_end_offset:
                raise kafka_error("OFFSET_OUT_OF_RANGE")
            return None
        budget, is_first = self._limit - self.size, self.size == 0 and not self.is_little
        if is_held_back or (budget <= 0 and not is_first):
            return None
        # a later turn reads the whole range: reading a part now would be wasted
        is_all_or_none = self._is_cut_short and budget < partition_max_bytes
        max_bytes = budget if budget < partition_max_bytes else partition_max_bytes
        return log.read(offset, max_bytes, end_offset, is_first, self._held_bytes, is_all_or_none)

    def refuse(self, entry: FetchEntry, code: int) -> None:
        """Gives a partition an error."""
        self.is_urgent = True
        # as in Kafka, errors from before the log come after all other results
        (self._unknown if code in REFUSED_BEFORE_THE_LOG else self._found).append(refused(entry, code))

    def stream(self, batch: LaterBytes) -> None:
        """Gives the last partition `batch`, which is read while it is sent."""
        result = self._found[-1]
        self._found[-1] = (*result[:7], batch, result[8])
        self.size += len(batch)

    def hasten(self) -> None:
        """The answer leaves now, because the follower waits for other news than records."""
        self.is_urgent = True

    def take_cold(self) -> ColdRead | None:
        """The read that stopped the look, which continues with the same partition."""
        cold, self.cold = self.cold, None
        return cold

    def leave_cold_out(self) -> None:
        """Gives nothing of further partitions whose records are not in memory."""
        self.is_cold_left_out = True

    @property
    def count(self) -> int:
        """The number of partitions that have a result."""
        return len(self._found) + len(self._unknown)

    @property
    def results(self) -> list[FetchResult]:
        """In the order of the request, errors from before the log last."""
        return self._found + self._unknown if self._unknown else self._found

    @property
    def is_incomplete(self) -> bool:
        """Whether a later turn must look again: more is available than this look may read."""
        is_much = self.is_little and self.size > LITTLE_BYTES // 2
        return self._is_cut or is_much or self.cold is not None

    @property
    def is_due(self) -> bool:
        """Whether the answer leaves now."""
        return self.is_urgent or self.size >= self.terms.min_bytes


class FetchWait:
    """Counts the bytes that arrive in the partitions of a waiting fetch."""

    __slots__ = ("_gathered_bytes", "_seen_bytes", "_terms", "partitions")

    def __init__(self, terms: FetchTerms, partitions: Sequence[Partition], size: int) -> None:
        """`size`: the bytes that the last look found."""
        self._terms = terms
        self.partitions = partitions
        self._seen_bytes = {partition.number: partition.appended_bytes for partition in partitions}
        self.looked(size)

    def looked(self, size: int) -> None:
        """A look found `size` bytes. If a partition holds records that a consumer may not read yet, each change is
        worth a look, as the high watermark or a marker may release all of them."""
        terms, self._gathered_bytes = self._terms, size
        if terms.is_follower:
            return
        for each in self.partitions:
            end_offset = each.last_stable_offset if terms.is_read_committed else each.position.high_watermark
            if end_offset < each.log.log_end_offset:
                self._gathered_bytes = terms.min_bytes
                return

    def is_worth_a_look(self, partition: Partition) -> bool:
        """Call this for each change. True once `min_bytes` have arrived, or this broker lost the partition."""
        appended_bytes = partition.appended_bytes
        self._gathered_bytes += appended_bytes - self._seen_bytes.get(partition.number, appended_bytes)
        self._seen_bytes[partition.number] = appended_bytes
        is_gone = partition.is_offline or partition.is_deleted or partition.leader is None
        return is_gone or self._gathered_bytes >= self._terms.min_bytes


def is_caught_up(terms: FetchTerms, partition: Partition, entry: FetchEntry) -> bool:
    """Whether the follower has all records of this leader, and a look would find nothing."""
    if entry[2] != partition.leader_epoch or partition.is_offline or entry[3] != partition.log.log_end_offset:
        return False
    try:
        partition.check_follower(terms.replica_id, terms.broker_epoch, entry[2])
    except KafkaError:
        return False
    return True


def refused(entry: FetchEntry, code: int) -> FetchResult:
    """The result of a partition that is not read, with its error code."""
    # as in Kafka: empty if the partition is unknown or not authorized, null for an error of its log
    return (entry[0], entry[1], code, -1, -1, -1, None, None, () if code in REFUSED_BEFORE_THE_LOG else None)


def _aborted(partition: Partition, offset: int, read: Read) -> AbortedTransactions:
    """The aborted transactions of the records that were read from `offset`. Raises 56."""
    if not (read.records or read.later):
        return ()
    end_offset = offset if read.later is None else read.later.next_offset
    with suppress(ProtocolError):  # damaged bytes: the reader cannot use what follows them
        for _, header in iterate_batches(read.records or b""):
            end_offset = header.next_offset
    found = partition.aborted_transactions(offset, end_offset)
    return tuple((entry.producer_id, entry.first_offset) for entry in found)
