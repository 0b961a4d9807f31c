"""What the clients were promised about records, and whether the broker keeps it.

For each partition the ledger knows which value lies at which offset: from acknowledgements and from reads. Both are
promises: an offset never changes its value, and a value that an idempotent producer sent lies at one offset only.

A crash of the process takes nothing away. A crash of the machine may take the end of a partition away that was not
flushed; what survived is read from the disk itself by `survivors`, before the node starts again. Partitions whose topic
has flush.messages=1 lose nothing at all.
"""

from __future__ import annotations

import msgspec

from moldau.simulation.violation import ViolationError
from moldau.types import Uuid, uuid_to_text


class Value(msgspec.Struct, frozen=True):
    """What a producer wrote: `producer` and its running `number`. `is_unique`: sent under idempotence, or only once."""

    producer: str
    number: int
    is_unique: bool

    def encode(self, padding: int = 0) -> bytes:
        kind = "once" if self.is_unique else "many"
        return f"{kind}|{self.producer}|{self.number}|".encode() + b"." * padding

    @classmethod
    def decode(cls, data: bytes) -> Value:
        kind, producer, number, _ = data.decode().split("|")
        return cls(producer, int(number), kind == "once")


class PartitionLedger:
    """The promises about one partition of one topic id."""

    def __init__(self, topic: str, topic_id: Uuid, partition: int, *, is_flushed: bool, may_expire: bool) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.is_flushed = is_flushed
        self.may_expire = may_expire
        self.values: dict[int, Value] = {}
        self.offsets: dict[Value, int] = {}
        self.log_start_offset = 0
        self.may_start_go_back = False
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

    def log_start_seen(self, log_start_offset: int) -> None:
        """Retention moves the start; nothing else does. What it deleted may be back after a crash of the machine: as
        in Kafka, the deletion itself is not flushed."""
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
        elif 0 <= log_start_offset < self.log_start_offset:
            if not self.may_start_go_back:
                raise ViolationError(
                    "the log start never goes back", f"{self.name}: {self.log_start_offset} to {log_start_offset}"
                )
            self.log_start_offset = log_start_offset
        self.may_start_go_back = False

    def survived(self, survivor_end: int, *, is_power_lost: bool) -> int:
        """Called at a crash with one past the last offset that the disk still holds. Gives how many records are gone.

        Raises ViolationError for a loss that was not allowed.
        """
        self.may_start_go_back |= is_power_lost
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
        for offset, value in self.values.items():
            if offset not in seen and offset >= self.log_start_offset:
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


class Ledger:
    """All partitions by (topic id, partition)."""

    def __init__(self) -> None:
        self.partitions: dict[tuple[Uuid, int], PartitionLedger] = {}

    def add_topic(self, topic: str, topic_id: Uuid, partitions: int, *, is_flushed: bool, may_expire: bool) -> None:
        """A topic that the broker acknowledged."""
        for partition in range(partitions):
            self.partitions.setdefault(
                (topic_id, partition),
                PartitionLedger(topic, topic_id, partition, is_flushed=is_flushed, may_expire=may_expire),
            )

    def remove_topic(self, topic_id: Uuid) -> None:
        """Its deletion was asked for: nothing is promised any more."""
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]

    def partition(self, topic_id: Uuid, partition: int) -> PartitionLedger:
        return self.partitions[(topic_id, partition)]
