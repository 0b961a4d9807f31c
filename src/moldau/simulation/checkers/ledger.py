"""What the clients were promised about records, and whether the broker keeps it.

For each partition the ledger knows which value lies at which offset: from acknowledgements and from reads. Both are
promises: an offset never changes its value, and a value that an idempotent producer sent lies at one offset only.

A crash of the process takes nothing away. A crash of the machine may take the end of a partition away that was not
flushed; what survived is read from the disk itself by `survivors`, before the node starts again. Partitions whose topic
has flush.messages=1 lose nothing at all.

Compaction may take a record away only when a later one of its key is there, or was a tombstone. The key and whether it
is a tombstone follow from the value's number, so that every checker knows them.
"""

from __future__ import annotations

import math

import msgspec

from moldau.simulation.violation import ViolationError
from moldau.types import Uuid, uuid_to_text
from moldau.wire.records.record import Record

KEYS = 7
TOMBSTONE_EVERY = 11
VALUE_HEADER = "value"


class Value(msgspec.Struct, frozen=True):
    """What a producer wrote: `producer` and its running `number`. `is_unique`: sent under idempotence, or only once."""

    producer: str
    number: int
    is_unique: bool

    @property
    def key(self) -> int:
        """The key that it has in a compacted topic."""
        return self.number % KEYS

    @property
    def is_tombstone(self) -> bool:
        """Whether it is sent with a null value in a compacted topic; then a header tells it."""
        return self.number % TOMBSTONE_EVERY == 0

    @classmethod
    def of(cls, record: Record) -> Value:
        """Raises ViolationError where the record is none of ours."""
        data = record.value if record.value is not None else dict(record.headers).get(VALUE_HEADER)
        if data is None:
            raise ViolationError("records come back as sent", f"{record} has neither value nor header")
        return cls.decode(data)

    def encode(self, padding: int = 0) -> bytes:
        kind = "once" if self.is_unique else "many"
        return f"{kind}|{self.producer}|{self.number}|".encode() + b"." * padding

    @classmethod
    def decode(cls, data: bytes) -> Value:
        kind, producer, number, _ = data.decode().split("|")
        return cls(producer, int(number), kind == "once")


class PartitionLedger:
    """The promises about one partition of one topic id."""

    def __init__(
        self,
        topic: str,
        topic_id: Uuid,
        partition: int,
        *,
        is_flushed: bool,
        may_expire: bool,
        is_compacted: bool = False,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.is_flushed = is_flushed
        self.may_expire = may_expire
        self.is_compacted = is_compacted
        self.values: dict[int, Value] = {}
        self.offsets: dict[Value, int] = {}
        self.log_start_offset = 0
        self._log_start_seen_s = 0.0
        self.may_start_go_back = False
        self.durable_start_offset = 0
        """Up to here deletion was acknowledged: these records never come back."""
        self.end = 0
        """One past the largest offset that was acknowledged or read."""
        self.legal_losses = 0
        """How often a crash of the machine legally took records away: consumers and producers may notice."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition} ({uuid_to_text(self.topic_id)})"

    def acknowledged(self, base_offset: int, values: list[Value]) -> None:
        """The broker said that `values` lie at `base_offset` and behind it."""
        for index, value in enumerate(values):
            self._learn(base_offset + index, value, "acknowledged")

    def read(self, offset: int, value: Value) -> None:
        """A consumer below the high watermark got `value` at `offset`."""
        known = self.values.get(offset)
        if known is None:
            self._learn(offset, value, "read")
        elif known != value:
            raise ViolationError("an offset keeps its value", f"{self.name} offset {offset}: {known} became {value}")

    def _learn(self, offset: int, value: Value, how: str) -> None:
        known = self.values.get(offset)
        if known is not None and known != value:
            raise ViolationError("an offset keeps its value", f"{self.name} offset {offset}: {known}, {how} {value}")
        other = self.offsets.get(value)
        if value.is_unique and other is not None and other != offset:
            raise ViolationError("no duplicates", f"{self.name}: {value} lies at {other} and, {how} now, at {offset}")
        self.values[offset] = value
        self.offsets[value] = offset
        self.end = max(self.end, offset + 1)

    def log_start_seen(self, log_start_offset: int, *, asked_s: float = math.inf, seen_s: float = 0.0) -> None:
        """Retention and deletion move the start; nothing else does. After a crash the start may be back where it was
        before: a deletion by request is seen by others before it is on the disk and acknowledged, and that by
        retention is, as in Kafka, not flushed.

        `asked_s`, `seen_s`: when the question was sent and the answer came; an answer to a question that was sent
        before a newer start was seen may be an older one, on another connection.
        """
        if log_start_offset > self.log_start_offset:
            if not self.may_expire:
                raise ViolationError(
                    "nothing is deleted early", f"{self.name}: log start offset {log_start_offset} without retention"
                )
            for offset in range(self.log_start_offset, log_start_offset):
                value = self.values.pop(offset, None)
                if value is not None:
                    del self.offsets[value]
            self.log_start_offset = log_start_offset
            self._log_start_seen_s = seen_s
        elif asked_s <= self._log_start_seen_s:
            return
        elif 0 <= log_start_offset < self.log_start_offset:
            if not self.may_start_go_back or log_start_offset < self.durable_start_offset:
                raise ViolationError(
                    "the log start never goes back", f"{self.name}: {self.log_start_offset} to {log_start_offset}"
                )
            self.log_start_offset = log_start_offset
        self.may_start_go_back = False

    def survived(self, survivor_end: int, *, is_power_lost: bool) -> int:
        """Called at a crash with one past the last offset that the disk still holds. Gives how many records are gone.

        Raises ViolationError for a loss that was not allowed.
        """
        self.may_start_go_back = True
        if is_power_lost:
            self.durable_start_offset = min(self.durable_start_offset, survivor_end)
        lost = [offset for offset in self.values if offset >= survivor_end]
        if not lost:
            return 0
        if self.is_flushed or not is_power_lost:
            raise ViolationError(
                "acknowledged records survive",
                f"{self.name}: the disk ends at {survivor_end} after a crash of the "
                f"{'machine' if is_power_lost else 'process'}, {len(lost)} known records from {min(lost)} are gone: "
                f"{self.values[min(lost)]}",
            )
        for offset in lost:
            del self.offsets[self.values.pop(offset)]
        self.end = min(self.end, survivor_end)
        self.legal_losses += 1
        return len(lost)

    def check_whole(self, seen: dict[int, Value], log_end_offset: int) -> None:
        """After a reader read all of [log start, log end): nothing known is missing, each producer's order is kept."""
        last_of_key = self._last_of_key(seen) if self.is_compacted else {}
        for offset, value in self.values.items():
            if offset not in seen and offset >= self.log_start_offset:
                if self.is_compacted and self._is_superseded(offset, value, seen, last_of_key):
                    continue
                raise ViolationError(
                    "acknowledged records are readable",
                    f"{self.name}: {value} at {offset} is missing, the log ends at {log_end_offset}",
                )
        last: dict[str, tuple[int, int]] = {}
        for offset, value in sorted(seen.items()):
            if not value.is_unique:
                continue
            number, at = last.get(value.producer, (-1, -1))
            if value.number <= number:
                raise ViolationError(
                    "a producer's order is kept",
                    f"{self.name}: {value} at {offset} comes after number {number} at {at}",
                )
            last[value.producer] = (value.number, offset)

    def _last_of_key(self, seen: dict[int, Value]) -> dict[int, tuple[int, Value]]:
        """The last record of each key that was ever acknowledged or read."""
        last: dict[int, tuple[int, Value]] = {}
        for offset, value in sorted((self.values | seen).items()):
            last[value.key] = (offset, value)
        return last

    def _is_superseded(
        self, offset: int, value: Value, seen: dict[int, Value], last_of_key: dict[int, tuple[int, Value]]
    ) -> bool:
        """Whether compaction may have taken `value` away. The last of a key stays, but for a tombstone."""
        last_offset, last = last_of_key[value.key]
        return last.is_tombstone or (last_offset > offset and last_offset in seen)


class Ledger:
    """All partitions by (topic id, partition)."""

    def __init__(self) -> None:
        self.partitions: dict[tuple[Uuid, int], PartitionLedger] = {}

    def add_topic(
        self, topic: str, topic_id: Uuid, partitions: int, *, is_flushed: bool, may_expire: bool, is_compacted: bool
    ) -> None:
        """A topic that the broker acknowledged."""
        for partition in range(partitions):
            ledger = PartitionLedger(
                topic, topic_id, partition, is_flushed=is_flushed, may_expire=may_expire, is_compacted=is_compacted
            )
            self.partitions.setdefault((topic_id, partition), ledger)

    def remove_topic(self, topic_id: Uuid) -> None:
        """Its deletion was asked for: nothing is promised any more."""
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]

    def partition(self, topic_id: Uuid, partition: int) -> PartitionLedger:
        return self.partitions[(topic_id, partition)]
