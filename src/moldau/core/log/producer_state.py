"""What a partition remembers of each idempotent producer (KIP-98): enough to answer a repeat and refuse a gap.

Of each producer id the last five batches are kept in memory; a snapshot file keeps the last one, as Kafka's does.
A start finds the others again in the log (see recalled_batches).
Rules, in the order in which they are asked:

    producer id unknown                    any sequence is taken (its state may have expired)
    one of the last five batches, again    a duplicate: answered with its old offset, nothing is written
    epoch older than the known one         47 INVALID_PRODUCER_EPOCH
    newer epoch                            must begin at sequence 0, else 45
    next sequence (2^31-1 is followed by 0)  taken; anything else 45 OUT_OF_ORDER_SEQUENCE_NUMBER

Each append, each admission over the bound and each slice of an expiry take constant time, however many producers there
are: the entries stand in the order of their last use.

An entry without batches and without an epoch takes any sequence. Transactions are not served yet, but a directory of
Apache Kafka may hold them: `update` follows open transactions and `end_transaction` their markers.

Snapshot file, version 1, big-endian: version int16, CRC-32C uint32 of what follows, count int32, then per producer:
id int64, epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64, coordinator epoch
int32, first offset of the open transaction int64 (-1: none).
"""

from __future__ import annotations

import struct
from collections import OrderedDict

from moldau.errors import kafka_error
from moldau.wire.records.crc import crc32c

KEPT_BATCHES = 5
SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6
_MAX_SEQUENCE = 0x7FFFFFFF
_MANY = 1_000
"""From so many producers on each append encodes its row of the snapshot: the roll of a segment cannot wait for all."""
_EVICTION_TRIES = 16
EXPIRY_SLICE = 1_000

ProducedBatch = tuple[int, int, int, int, int]
"""(first sequence, last sequence, last offset, offset delta, max timestamp in ms) of a batch in the log."""


class ProducerEntry:
    """One producer id. `batches` is oldest first, at most KEPT_BATCHES, all of `epoch`."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_sequence",
        "last_timestamp_ms",
        "last_used_ms",
        "packed",
        "transaction_first_offset",
    )

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.last_sequence = -1
        self.last_timestamp_ms = -1
        self.last_used_ms = now_ms
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1
        self.packed: bytes | None = None
        """Its row of the snapshot file; None: to be encoded."""

    def pack(self, producer_id: int) -> bytes:
        """This producer as an entry of a `.snapshot` file; packed once, until it changes."""
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


class ProducerState:
    """The producers of one log. `map_end_offset` is the offset up to which the log has been taken in."""

    __slots__ = ("_open_transactions", "entries", "first_unstable_offset", "map_end_offset", "max_producer_ids")

    def __init__(self, max_producer_ids: int) -> None:
        self.entries: OrderedDict[int, ProducerEntry] = OrderedDict()
        """The producer that was idle longest comes first. (Taking the first key of a plain dict again and again
        walks over all that went before: 4 ms each with 100,000.)"""
        self._open_transactions: dict[int, int] = {}
        """Producer id to first offset."""
        self.first_unstable_offset = -1
        """The first offset of the oldest open transaction, -1 if none is open."""
        self.map_end_offset = 0
        self.max_producer_ids = max_producer_ids

    def check(self, producer_id: int, epoch: int, base_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """None: append the batch. Else the batch of which it is a repeat. Raises KafkaError 45 or 47."""
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
            if base_sequence == (entry.last_sequence + 1) & _MAX_SEQUENCE or epoch < 0:
                return None
            raise kafka_error(
                "OUT_OF_ORDER_SEQUENCE_NUMBER",
                f"producer {producer_id} sent sequence {base_sequence} after sequence {entry.last_sequence}",
            )
        if epoch < known_epoch:
            raise kafka_error(
                "INVALID_PRODUCER_EPOCH", f"epoch {epoch} of producer {producer_id} is older than {known_epoch}"
            )
        if base_sequence != 0 and known_epoch >= 0:
            raise kafka_error(
                "OUT_OF_ORDER_SEQUENCE_NUMBER",
                f"producer {producer_id} begins epoch {epoch} at sequence {base_sequence}, not 0",
            )
        return None

    def update(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        last_offset: int,
        offset_delta: int,
        max_timestamp_ms: int,
        now_ms: int,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Takes in a data batch that is in the log now. `now_ms` is when: expiry counts from it."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self._admit(producer_id, epoch, now_ms)
        else:
            self.entries.move_to_end(producer_id)
            if epoch != entry.epoch:
                entry.epoch = epoch
                entry.batches.clear()
        last_sequence = (base_sequence + offset_delta) & _MAX_SEQUENCE
        entry.batches.append((base_sequence, last_sequence, last_offset, offset_delta, max_timestamp_ms))
        if len(entry.batches) > KEPT_BATCHES:
            del entry.batches[0]
        entry.last_sequence = last_sequence
        entry.last_timestamp_ms = max_timestamp_ms
        entry.last_used_ms = now_ms
        if is_transactional and entry.transaction_first_offset < 0:
            self._open_transactions[producer_id] = entry.transaction_first_offset = last_offset - offset_delta
            if self.first_unstable_offset < 0:
                self.first_unstable_offset = entry.transaction_first_offset
        entry.packed = None
        if len(self.entries) > _MANY:
            entry.pack(producer_id)

    def expect_first(self, producer_id: int, epoch: int, now_ms: int) -> None:
        """The first batch of a producer found no room on the disk: the next one in flight, which may be small enough,
        must not be taken before it, as any sequence of an unknown producer would be."""
        if producer_id not in self.entries:
            self._admit(producer_id, epoch, now_ms)

    def end_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp_ms: int, now_ms: int
    ) -> int:
        """Takes in a commit or abort marker, which may raise the producer's epoch. Gives the first offset of the
        transaction that ends with it, -1 if none was open."""
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self._admit(producer_id, epoch, now_ms)
        else:
            self.entries.move_to_end(producer_id)
            if epoch != entry.epoch:
                entry.epoch = epoch
                entry.batches.clear()
                entry.last_sequence = -1
        begun = entry.transaction_first_offset
        entry.packed = None
        if self._open_transactions.pop(producer_id, None) == self.first_unstable_offset:
            self._find_first_unstable()
        entry.coordinator_epoch = coordinator_epoch
        entry.transaction_first_offset = -1
        entry.last_timestamp_ms = timestamp_ms
        entry.last_used_ms = now_ms
        return begun

    def _find_first_unstable(self) -> None:
        self.first_unstable_offset = min(self._open_transactions.values(), default=-1)

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forgets producers that wrote nothing for so long and have no open transaction, at most EXPIRY_SLICE of them;
        gives how many.

        Kafka counts from the timestamp of the last record, so that a producer of old records expires at once and a
        repeat of its batch is stored twice; we count from the append.
        """
        expired: list[int] = []
        for producer_id, entry in self.entries.items():
            if now_ms - entry.last_used_ms < expiration_ms or len(expired) == EXPIRY_SLICE:
                break
            if entry.transaction_first_offset < 0:
                expired.append(producer_id)
        for producer_id in expired:
            del self.entries[producer_id]
        return len(expired)

    def clear(self, map_end_offset: int) -> None:
        """Forgets all producers; the log is read from `map_end_offset` on to learn them again."""
        self.entries.clear()
        self._open_transactions.clear()
        self.first_unstable_offset = -1
        self.map_end_offset = map_end_offset

    def encode(self) -> bytes:
        """The snapshot file."""
        parts = [entry.packed or entry.pack(producer_id) for producer_id, entry in self.entries.items()]
        body = len(self.entries).to_bytes(4, "big") + b"".join(parts)
        return SNAPSHOT_VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body

    def load(self, data: bytes, map_end_offset: int, now_ms: int) -> None:
        """Becomes what a snapshot file says. Raises ValueError, and changes nothing, if it is damaged.

        `now_ms`: expiry counts from the load on, for the file does not say when a producer wrote last.
        """
        entries = _decode_snapshot(data, now_ms)
        self.entries = entries
        self._open_transactions = {
            producer_id: entry.transaction_first_offset
            for producer_id, entry in entries.items()
            if entry.transaction_first_offset >= 0
        }
        self._find_first_unstable()
        self.map_end_offset = map_end_offset

    def _admit(self, producer_id: int, epoch: int, now_ms: int) -> ProducerEntry:
        """A new entry; over the bound, the one that was idle longest goes. Those with an open transaction stay."""
        entries = self.entries
        tries = min(_EVICTION_TRIES, len(entries))
        while len(entries) >= self.max_producer_ids and tries > 0:
            tries -= 1
            victim_id, victim = entries.popitem(last=False)
            if victim.transaction_first_offset >= 0:
                entries[victim_id] = victim
        entry = self.entries[producer_id] = ProducerEntry(epoch, now_ms)
        return entry


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
            first_sequence = (last_sequence - offset_delta) & _MAX_SEQUENCE
            entry.batches.append((first_sequence, last_sequence, last_offset, offset_delta, timestamp_ms))
            entry.last_sequence = last_sequence
    return entries
