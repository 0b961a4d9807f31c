"""The state of each idempotent producer in a partition (KIP-98): detects repeats and gaps.

The last five batches of each producer id are kept in memory. A snapshot file has the last one, as in Kafka. A start
finds the others in the log (see recalled_batches). Rules, in order:

    producer id unknown                    any sequence is taken (its state may have expired)
    one of the last five batches, again    a duplicate: answered with its old offset, nothing is written
    epoch older than the known one         47 INVALID_PRODUCER_EPOCH
    newer epoch                            must begin at sequence 0, else 45
    next sequence (2^31-1 is followed by 0)  taken; anything else 45 OUT_OF_ORDER_SEQUENCE_NUMBER

Each append, each new producer above the bound and each slice of an expiry takes constant time for any number of
producers, because the entries are in the order of their last use.

An entry without batches and without an epoch accepts any sequence.

Transactions (KIP-98): `update` follows the open ones, `end_transaction` their markers. A client's batch joins a
transaction that is open here, or begins one if the partition was *verified* (KIP-890): the transaction coordinator has
confirmed that the partition belongs to the producer's transaction, and no marker of it has come since. Otherwise a late
batch could open a transaction without an end. Verifications are kept in memory only.

Snapshot file, version 1, big-endian: version int16, CRC-32C uint32 of what follows, count int32, then per producer:
id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator epoch
int32, first offset of the open transaction int64 (-1: none).
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque

from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.errors import KafkaError, kafka_error
from moldau.wire.records.crc import crc32c

KEPT_BATCHES = 5
SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6
MAX_SEQUENCE = 0x7FFFFFFF
_MANY = 1_000
"""From so many producers on, each append encodes its row of the snapshot, because a roll cannot wait for all."""
_EVICTION_TRIES = 16
EXPIRY_SLICE = 1_000

ProducedBatch = tuple[int, int, int, int, int]
"""(first sequence, last sequence, last offset, offset delta, max timestamp in ms) of a batch in the log."""


class ProducerEntry:
    """One producer id. `batches`: oldest first, at most KEPT_BATCHES, all of `epoch`."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp_ms",
        "last_used_ms",
        "packed",
        "transaction_first_offset",
        "transactional_id",
    )

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.last_sequence = -1
        self.last_timestamp_ms = -1
        self.last_used_ms = now_ms
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1
        self.transactional_id: str | None = None
        """The transactional id with which the open transaction was verified since the start."""
        self.packed: bytes | None = None
        """The producer's row of the snapshot file; None until it is encoded."""

    def pack(self, producer_id: int) -> bytes:
        """This producer as an entry of a `.snapshot` file, cached until it changes."""
        _, last_sequence, last_offset, offset_delta, _ = self.batches[-1] if self.batches else (-1, -1, -1, 0, -1)
        packed = self.packed = _SNAPSHOT_ENTRY.pack(
            producer_id,
            self.epoch,
            last_sequence,
            last_offset,
            offset_delta,
            self.last_timestamp_ms,
            self.coordinator_epoch,
            self.transaction_first_offset,
        )
        return packed


class Verification:
    """Whether the partition belongs to a producer's transaction that is not open in this log."""

    __slots__ = ("begun_ms", "first_sequence", "joins", "transactional_id")

    def __init__(self, begun_ms: int, *, joins: bool) -> None:
        self.first_sequence = MAX_SEQUENCE
        """The lowest base sequence of the expected batches. No later batch may be appended before that one."""
        self.begun_ms = begun_ms
        self.joins = joins
        """Transactions v2: each transaction has its own epoch, and begins with sequence 0."""
        self.transactional_id: str | None = None
        """The transactional id that the coordinator has verified."""

    def expect(self, base_sequence: int) -> None:
        """Call it for each batch that may still be appended: the coordinator has verified it, or the client will send
        it again. Not for a batch that the coordinator rejected."""
        self.first_sequence = min(self.first_sequence, base_sequence)


class ProducerState:
    """The producers of one log. `map_end_offset`: the log is taken in up to there."""

    __slots__ = (
        "_open_transactions",
        "_verifications",
        "ended",
        "entries",
        "first_unstable_offset",
        "map_end_offset",
        "max_producer_ids",
    )

    def __init__(self, max_producer_ids: int) -> None:
        self.entries: OrderedDict[int, ProducerEntry] = OrderedDict()
        """The producer that was idle longest comes first. (In a plain dict, removing the first key again and again
        walks over all removed ones: 4 ms each with 100,000.)"""
        self._open_transactions: OrderedDict[int, int] = OrderedDict()
        """Producer id to first offset, the oldest transaction first."""
        self._verifications: OrderedDict[tuple[int, int], Verification] = OrderedDict()
        """By producer id and epoch, the oldest first; at most `max_producer_ids`."""
        self.first_unstable_offset = -1
        """The first offset of the oldest open transaction, -1 if none is open."""
        self.ended: deque[tuple[int, int]] = deque()
        """(first offset, offset of the marker) of transactions that have ended, in the order of their markers, until
        the high watermark has passed the marker (see `forget_ended`)."""
        self.map_end_offset = 0
        self.max_producer_ids = max_producer_ids

    def check(self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """None: append the batch. Else the earlier batch that it repeats. Raises KafkaError 45 or 47."""
        entry = self.entries.get(producer_id)
        if entry is None:
            return None
        known_epoch = entry.epoch
        if epoch == known_epoch:
            if entry.last_sequence + 1 == base_sequence and base_sequence:
                return None
            for batch in entry.batches:
                if batch[0] == base_sequence and batch[1] == last_sequence:
                    return batch
            if base_sequence == (entry.last_sequence + 1) & MAX_SEQUENCE or epoch < 0:
                return None
            raise kafka_error(
                "OUT_OF_ORDER_SEQUENCE_NUMBER",
                f"producer {producer_id} sent sequence {base_sequence} after sequence {entry.last_sequence}",
            )
        if epoch < known_epoch:
            raise _stale_epoch(producer_id, epoch, known_epoch)
        if base_sequence != 0 and known_epoch >= 0:
            raise kafka_error(
                "OUT_OF_ORDER_SEQUENCE_NUMBER",
                f"producer {producer_id} begins epoch {epoch} at sequence {base_sequence}, not 0",
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Checks a batch of a coordinator, whose sequences are not checked. Raises KafkaError 47."""
        if self.is_fenced(producer_id, epoch):
            raise _stale_epoch(producer_id, epoch, self.entries[producer_id].epoch)

    def is_fenced(self, producer_id: int, epoch: int) -> bool:
        """Whether this log has a later epoch of the producer."""
        entry = self.entries.get(producer_id)
        return entry is not None and epoch < entry.epoch

    # --- transactions ---

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether this log has records of an open transaction of this producer and epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == epoch

    def verified_id(self, producer_id: int, epoch: int) -> str | None:
        """The transactional id of an open transaction; None without one, or if its coordinator was not asked since the
        start."""
        entry = self.entries.get(producer_id)
        return None if entry is None or entry.epoch != epoch else entry.transactional_id

    def begin_verification(self, producer_id: int, epoch: int, now_ms: int, *, joins: bool) -> Verification:
        """Call it before the coordinator is asked whether the partition belongs to the producer's transaction,
        `verified` after it confirms, and `Verification.expect` for each batch that was not rejected.

        `joins`: transactions v2. Above the bound the oldest is removed, and its batch rejected.
        """
        verifications = self._verifications
        verification = verifications.get((producer_id, epoch))
        if verification is None:
            if len(verifications) >= self.max_producer_ids:
                verifications.popitem(last=False)
            verification = verifications[producer_id, epoch] = Verification(now_ms, joins=joins)
        return verification

    def verified(self, producer_id: int, epoch: int, verification: Verification, transactional_id: str) -> None:
        """The coordinator confirms that the partition belongs to the transaction. No effect if a marker of this
        transaction may have come since `begin_verification`, because the response is older then."""
        if self._verifications.get((producer_id, epoch)) is not verification:
            return
        verification.transactional_id = transactional_id
        if self.has_open_transaction(producer_id, epoch):
            # the transaction was open when this process started
            self._take_verification(producer_id, epoch)

    def _take_verification(self, producer_id: int, epoch: int) -> None:
        verification = self._verifications.pop((producer_id, epoch), None)
        if verification is not None:
            self.entries[producer_id].transactional_id = verification.transactional_id

    def check_transactional(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        """Checks a client's transactional batch that `check` accepts. Raises KafkaError 48, and 45 for a batch that
        would overtake the first of its transaction."""
        entry = self.entries.get(producer_id)
        if entry is not None and entry.transaction_first_offset >= 0 and entry.epoch == epoch:
            return
        verification = self._verifications.get((producer_id, epoch))
        if verification is None or verification.transactional_id is None:
            raise kafka_error("INVALID_TXN_STATE", "the record was not part of an ongoing transaction")
        is_unknown = entry is None or not entry.batches
        if entry is not None and entry.epoch == epoch and entry.last_sequence >= 0:
            # the next sequence, as `check` has found: a lower, known one is a late repeat
            return
        if base_sequence > verification.first_sequence or (is_unknown and verification.joins and base_sequence):
            raise kafka_error(
                "OUT_OF_ORDER_SEQUENCE_NUMBER",
                f"producer {producer_id} begins a transaction at sequence {base_sequence}, not at "
                f"{0 if verification.joins and is_unknown else verification.first_sequence}",
            )

    def check_not_transactional(self, producer_id: int) -> None:
        """Checks a client's batch outside of transactions. Raises KafkaError 48 while its producer has an open
        transaction."""
        if producer_id in self._open_transactions:
            raise kafka_error("INVALID_TXN_STATE", f"a transaction of producer {producer_id} is open on the partition")

    def check_marker(
        self, producer_id: int, producer_epoch: int, coordinator_epoch: int, transaction_version: int
    ) -> None:
        """Checks a commit or abort marker. Raises KafkaError 47 for one of an earlier transaction, 52 for one of an
        earlier coordinator.

        From `transaction_version` 2 on a marker has a higher epoch than the records of its transaction (KIP-1228), so a
        late one has an epoch that is not higher. A repeated one, without an open transaction, is accepted.
        """
        entry = self.entries.get(producer_id)
        if entry is None:
            return
        if producer_epoch < entry.epoch:
            raise _stale_epoch(producer_id, producer_epoch, entry.epoch)
        if producer_epoch == entry.epoch and entry.transaction_first_offset >= 0 and transaction_version >= 2:
            raise kafka_error(
                "INVALID_PRODUCER_EPOCH",
                f"a marker of epoch {producer_epoch} ends an earlier transaction of producer {producer_id}",
            )
        if coordinator_epoch < entry.coordinator_epoch:
            raise kafka_error(
                "TRANSACTION_COORDINATOR_FENCED",
                f"coordinator epoch {coordinator_epoch} is older than {entry.coordinator_epoch}",
            )

    def has_late_transaction(self, now_ms: int, late_ms: int) -> bool:
        """Whether the producer of the oldest open transaction has been silent for longer than `late_ms`."""
        for producer_id in self._open_transactions:
            return now_ms - self.entries[producer_id].last_timestamp_ms > late_ms
        return False

    def aborted_by_marker(self, producer_id: int, marker_offset: int) -> AbortedTransaction | None:
        """The entry that an abort marker at this offset adds to the transaction index, before it is taken in; None
        without an open transaction of the producer."""
        begun = self._open_transactions.get(producer_id)
        if begun is None:
            return None
        others = (first for open_id, first in self._open_transactions.items() if open_id != producer_id)
        return AbortedTransaction(producer_id, begun, marker_offset, next(others, marker_offset + 1))

    # --- appended batches ---

    def update(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset: int,
        offset_delta: int,
        max_timestamp_ms: int,
        now_ms: int,
        is_transactional: bool = False,
    ) -> None:
        """Takes in an appended data batch. `now_ms`: expiry counts from then."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self._admit(producer_id, epoch, now_ms)
        else:
            self.entries.move_to_end(producer_id)
            if epoch != entry.epoch:
                entry.epoch = epoch
                entry.batches.clear()
        last_sequence = (base_sequence + offset_delta) & MAX_SEQUENCE
        entry.batches.append((base_sequence, last_sequence, last_offset, offset_delta, max_timestamp_ms))
        if len(entry.batches) > KEPT_BATCHES:
            del entry.batches[0]
        entry.last_sequence = last_sequence
        entry.last_timestamp_ms = max_timestamp_ms
        entry.last_used_ms = now_ms
        if is_transactional:
            if base_sequence < 0:
                # a coordinator's records, which have no sequences
                entry.last_sequence = -1
                entry.batches[-1] = (-1, -1, last_offset, offset_delta, max_timestamp_ms)
            if entry.transaction_first_offset < 0:
                self._open_transactions[producer_id] = entry.transaction_first_offset = last_offset - offset_delta
                if self.first_unstable_offset < 0:
                    self.first_unstable_offset = entry.transaction_first_offset
                self._take_verification(producer_id, epoch)
        entry.packed = None
        if len(self.entries) > _MANY:
            entry.pack(producer_id)

    def expect_first(self, producer_id: int, epoch: int, now_ms: int) -> None:
        """The first batch of a producer found no room on the disk. The next one, which may be small enough, must not be
        accepted before it, although an unknown producer may begin at any sequence."""
        if producer_id not in self.entries:
            self._admit(producer_id, epoch, now_ms)

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp_ms: int, now_ms: int, offset: int
    ) -> None:
        """Takes in a commit or abort marker at `offset`, which may raise the producer's epoch."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self._admit(producer_id, epoch, now_ms)
        else:
            self.entries.move_to_end(producer_id)
            if epoch != entry.epoch:
                entry.epoch = epoch
                entry.batches.clear()
                entry.last_sequence = -1
        entry.packed = None
        verification = self._verifications.get((producer_id, epoch))
        if verification is not None and not verification.joins:
            del self._verifications[producer_id, epoch]
        first_offset = self._open_transactions.pop(producer_id, None)
        if first_offset is not None:
            self.ended.append((first_offset, offset))
        if first_offset == self.first_unstable_offset:
            self._find_first_unstable()
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_first_offset = -1
        entry.transactional_id = None
        entry.last_timestamp_ms = timestamp_ms
        entry.last_used_ms = now_ms

    def forget_joining(self, producer_id: int, epoch: int) -> None:
        """Call it after a marker of transactions v1, which has the epoch of its transaction. In v2 that epoch belongs
        to the next transaction, whose verification may be in progress, so it stays."""
        self._verifications.pop((producer_id, epoch), None)

    def first_undecided_offset(self, high_watermark: int) -> int:
        """As `first_unstable_offset`, for transactions that are open below the high watermark: a marker decides nothing
        until all in-sync replicas have it."""
        first_offset = self.first_unstable_offset
        for begin, marker in self.ended:
            if marker >= high_watermark and (first_offset < 0 or begin < first_offset):
                first_offset = begin
        return first_offset

    def forget_ended(self, high_watermark: int) -> None:
        """Call it as the high watermark moves."""
        while self.ended and self.ended[0][1] < high_watermark:
            self.ended.popleft()

    def _find_first_unstable(self) -> None:
        self.first_unstable_offset = next(iter(self._open_transactions.values()), -1)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Removes producers that were silent for so long and have no open transaction, at most EXPIRY_SLICE of them.
        Returns their number.

        Kafka counts from the timestamp of the last record, so a producer of old records expires at once, and a repeat
        of its batch is stored twice. Moldau counts from the append.
        """
        expired: list[int] = []
        for producer_id, entry in self.entries.items():
            if now_ms - entry.last_used_ms < expiration_ms or len(expired) == EXPIRY_SLICE:
                break
            if entry.transaction_first_offset < 0:
                expired.append(producer_id)
        for producer_id in expired:
            del self.entries[producer_id]
        verifications = self._verifications
        for _ in range(min(EXPIRY_SLICE, len(verifications))):
            if now_ms - next(iter(verifications.values())).begun_ms < expiration_ms:
                break
            verifications.popitem(last=False)
        return len(expired)

    def clear(self, map_end_offset: int) -> None:
        """Removes all producers. Reading the log from `map_end_offset` on restores them."""
        self.entries.clear()
        self._open_transactions.clear()
        self._verifications.clear()
        self.ended.clear()
        self.first_unstable_offset = -1
        self.map_end_offset = map_end_offset

    def encode(self) -> bytes:
        """The content of a producer snapshot, as Kafka's."""
        parts = [entry.packed or entry.pack(producer_id) for producer_id, entry in self.entries.items()]
        body = len(self.entries).to_bytes(4, "big") + b"".join(parts)
        return SNAPSHOT_VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body

    def load(self, data: bytes, map_end_offset: int, now_ms: int) -> None:
        """Takes the state of a snapshot file. Raises ValueError without a change if it is damaged.

        `now_ms`: expiry counts from the load, because the file does not have the time of the last write.
        """
        entries = _decode_snapshot(data, now_ms)
        self.entries = entries
        still_open = (
            (entry.transaction_first_offset, producer_id)
            for producer_id, entry in entries.items()
            if entry.transaction_first_offset >= 0
        )
        self._open_transactions = OrderedDict((producer_id, first) for first, producer_id in sorted(still_open))
        self._find_first_unstable()
        self.map_end_offset = map_end_offset

    def _admit(self, producer_id: int, epoch: int, now_ms: int) -> ProducerEntry:
        """Adds an entry. Above the bound evicts the longest idle producer without an open transaction."""
        entries = self.entries
        tries = min(_EVICTION_TRIES, len(entries))
        while len(entries) >= self.max_producer_ids and tries > 0:
            tries -= 1
            victim_id, victim = entries.popitem(last=False)
            if victim.transaction_first_offset >= 0:
                entries[victim_id] = victim
        entry = self.entries[producer_id] = ProducerEntry(epoch, now_ms)
        return entry


def _stale_epoch(producer_id: int, epoch: int, known_epoch: int) -> KafkaError:
    return kafka_error("INVALID_PRODUCER_EPOCH", f"epoch {epoch} of producer {producer_id} is older than {known_epoch}")


def _decode_snapshot(data: bytes, now_ms: int) -> OrderedDict[int, ProducerEntry]:
    if len(data) < _SNAPSHOT_HEADER.size:
        raise ValueError("a producer snapshot is cut")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise ValueError(f"producer snapshot version {version}")
    if crc32c(data[_CRC_END:]) != crc:
        raise ValueError("the CRC of a producer snapshot does not match")
    if count < 0 or len(data) != _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        raise ValueError(f"a producer snapshot of {len(data)} bytes announces {count} entries")
    entries: OrderedDict[int, ProducerEntry] = OrderedDict()
    for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first = fields
        entry = entries[producer_id] = ProducerEntry(epoch, now_ms)
        entry.last_timestamp_ms = timestamp_ms
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_first_offset = first
        if last_offset >= 0:
            first_sequence = (last_sequence - offset_delta) & MAX_SEQUENCE if last_sequence >= 0 else -1
            entry.batches.append((first_sequence, last_sequence, last_offset, offset_delta, timestamp_ms))
            entry.last_sequence = last_sequence
    return entries
