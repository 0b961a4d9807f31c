"""The rules for records: the promises to clients, and whether the broker keeps them.

For each partition the ledger knows the offset of each value from acknowledgements and reads. Both are promises: an
offset never changes its value, and a value of an idempotent producer has only one offset.

A crash of the process loses nothing. A crash of the machine may lose the unflushed end of a partition. `survivors`
reads the rest from the disk before the node starts again. Topics with flush.messages=1 lose nothing.

Compaction removes a record only if a later record has its key. The last record of a key stays, except a tombstone,
which stays for `delete.retention.ms`. Deleted records never return. The number of a value determines its key, and
whether it is a tombstone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import msgspec

from moldau.simulation.checkers.epoch_ledger import EpochLedger
from moldau.simulation.violation import ViolationError
from moldau.types import Uuid, uuid_to_text
from moldau.wire.records.record import Record

KEYS = 7
TOMBSTONE_EVERY = 11
VALUE_HEADER = "value"
LATEST_ARRIVAL_MS = 15_000
"""An unanswered request may reach the log this long after it was sent, because links are cut and processes paused."""


class Value(msgspec.Struct, frozen=True):
    """A value from a producer: `producer` and its running `number`. `is_unique`: sent with idempotence, or only
    once."""

    producer: str
    number: int
    is_unique: bool

    @property
    def key(self) -> int:
        """The key of the value in a compacted topic."""
        return self.number % KEYS

    @property
    def is_tombstone(self) -> bool:
        """Whether it is sent with a null value in a compacted topic; then a header has the value."""
        return self.number % TOMBSTONE_EVERY == 0

    @classmethod
    def of(cls, record: Record) -> Value:
        """The value of a record. Raises ViolationError if no simulated producer wrote the record."""
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


class TopicRules(msgspec.Struct, frozen=True):
    """The limits from the settings of a topic. `retention_ms`: the shortest that it ever has; None: no record expires
    by age. `retention_bytes`: None: no record is deleted by size. `is_replicated`: the next leader may not know the
    newest log start or high watermark."""

    is_flushed: bool = False
    is_compacted: bool = False
    retention_ms: int | None = None
    retention_bytes: int | None = None
    delete_retention_ms: int = 0
    is_replicated: bool = False

    @property
    def may_expire(self) -> bool:
        return self.retention_ms is not None or self.retention_bytes is not None


class SentTimes:
    """The time when each value was sent to one partition: the timestamp of its record, and the wall clock (in ms).

    The wall clock may be set. `latest_ms` is its latest time so far, `setback_ms` the most that it was ever set back
    by.
    """

    def __init__(self, latest_ms: Callable[[], int] = lambda: 0, setback_ms: Callable[[], int] = lambda: 0) -> None:
        self.timestamps: dict[Value, int] = {}
        self.wall_ms: dict[Value, int] = {}
        self.latest_ms = latest_ms
        self.setback_ms = setback_ms

    def sent(self, value: Value, timestamp_ms: int, wall_ms: int) -> None:
        self.timestamps[value] = timestamp_ms
        self.wall_ms.setdefault(value, wall_ms)

    def may_be_forgotten(self, value: Value, delete_retention_ms: int) -> bool:
        """Whether a tombstone was cleaned so long ago that the cleaner may remove it."""
        sent_ms = self.wall_ms.get(value, 0) - self.setback_ms()
        return self.latest_ms() - sent_ms >= delete_retention_ms

    def may_be_deleted(self, value: Value, known: Mapping[Value, int], delete_retention_ms: int) -> bool:
        """Whether a tombstone of its key was appended without a response (the broker crashed before it) and cleaned
        before any read. `known`: the acknowledged or read values."""
        return any(
            other.is_tombstone
            and other.key == value.key
            and other not in known
            and wall_ms + LATEST_ARRIVAL_MS >= self.wall_ms.get(value, 0)
            and self.may_be_forgotten(other, delete_retention_ms)
            for other, wall_ms in self.wall_ms.items()
        )

    def age_ms(self, value: Value) -> int:
        """The greatest age of the record by the clock so far."""
        return self.latest_ms() - self.timestamps.get(value, 0)


class PartitionLedger:
    """The promises about one partition of one topic id."""

    def __init__(
        self, topic: str, topic_id: Uuid, partition: int, rules: TopicRules, sent: SentTimes | None = None
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.rules = rules
        self.sent = sent or SentTimes()
        self.epochs = EpochLedger(self.name, may_have_gaps=rules.is_compacted)
        self.contents: dict[bytes, list[tuple[int, Value]]] = {}
        """The values in each batch that was read, by its bytes: every reader gets the same ones."""
        self.acknowledged_count = 0
        """The number of acknowledged values, including those since removed by deletion or an unclean election."""
        self.values: dict[int, Value] = {}
        self.offsets: dict[Value, int] = {}
        self.last_of_key: dict[int, int] = {}
        """The offset of the last known record of each key."""
        self.last_sequences: dict[int, int] = {}
        """The last acknowledged sequence of each producer id."""
        self._skipped: dict[int, int] = {}
        """By key the last known record that a reader did not get, and that no known record supersedes yet."""
        self.asked_start_offset = 0
        """The highest offset up to which a client requested deletion."""
        self.bytes_left: Callable[[int], int] = lambda log_start_offset: 0
        """The number of bytes of the log on the disk from an offset on."""
        self.log_start_offset = 0
        self._log_start_seen_s = 0.0
        self.may_start_go_back = False
        self._may_end_have_gone_back = False
        """Power was lost since the log start was seen, so the end that retention used may be gone."""
        self.durable_start_offset = 0
        """The highest offset up to which deletion was acknowledged. These records never return."""
        self.end = 0
        """One past the largest offset that was acknowledged or read."""
        self.legal_losses = 0
        """The number of crashes of the machine that legally lost records. Consumers and producers may notice."""
        self.is_loss_allowed = False
        """An unclean election cancelled the promises, and all later ones."""
        self._claims: dict[Value, int] = {}
        """The offsets of values that only the leader acknowledged."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition} ({uuid_to_text(self.topic_id)})"

    def acknowledged(self, base_offset: int, values: list[Value]) -> None:
        """The broker acknowledged `values` from `base_offset` on."""
        self.acknowledged_count += len(values)
        for index, value in enumerate(values):
            self._learn(base_offset + index, value, "acknowledged")

    def claimed(self, base_offset: int, values: list[Value]) -> None:
        """As `acknowledged`, by the leader alone (acks=1): the values may be lost, but they have no other offset."""
        self._claims |= {value: base_offset + index for index, value in enumerate(values)}

    def allow_loss(self) -> None:
        """An unclean election: the new leader may lack committed records."""
        self.is_loss_allowed = True
        self.legal_losses += 1
        self.values, self.offsets, self.last_of_key, self.end = {}, {}, {}, 0

    def read(self, offset: int, value: Value) -> None:
        """A consumer read `value` at `offset`, below the high watermark."""
        known = self.values.get(offset)
        if known is None:
            self._learn(offset, value, "read")
        elif known != value:
            raise ViolationError("an offset keeps its value", f"{self.name} offset {offset}: {known} became {value}")

    def _learn(self, offset: int, value: Value, how: str) -> None:
        if self.is_loss_allowed:
            return
        claim = self._claims.get(value, offset)
        if claim != offset:
            raise ViolationError(
                "a record lies where it was acknowledged", f"{self.name}: {value} at {claim} and, {how}, at {offset}"
            )
        known = self.values.get(offset)
        if known is not None and known != value:
            raise ViolationError("an offset keeps its value", f"{self.name} offset {offset}: {known}, {how} {value}")
        other = self.offsets.get(value)
        if value.is_unique and other is not None and other != offset:
            raise ViolationError("no duplicates", f"{self.name}: {value} lies at {other} and, {how} now, at {offset}")
        self.values[offset] = value
        self.offsets[value] = offset
        if offset > self.last_of_key.get(value.key, -1):
            self.last_of_key[value.key] = offset
        self.end = max(self.end, offset + 1)

    def skipped(self, begin: int, end: int) -> None:
        """A reader of a compacted topic got no records in [begin, end), so all known ones there must be superseded."""
        for offset in range(max(begin, self.log_start_offset), end):
            value = self.values.get(offset)
            if value is not None and self.last_of_key[value.key] <= offset:
                # a later record of the key, not read so far, may be the cause: the next audit decides
                self._skipped[value.key] = max(offset, self._skipped.get(value.key, -1))

    def log_start_seen(self, log_start_offset: int, *, asked_s: float = math.inf, seen_s: float = 0.0) -> None:
        """Only retention and deletion move the start. After a crash the start may return to an earlier offset: a
        requested deletion is visible before it is durable and acknowledged, and retention is not flushed, as in Kafka.

        `asked_s`, `seen_s`: when the request was sent and when the response came. If the request was sent before a
        newer start was seen, the response may be an older one from another connection.
        """
        if log_start_offset > self.log_start_offset:
            self._check_deletion(log_start_offset)
            for offset in range(self.log_start_offset, log_start_offset):
                value = self.values.pop(offset, None)
                if value is not None:
                    del self.offsets[value]
            self.log_start_offset = log_start_offset
            self._log_start_seen_s = seen_s
        elif asked_s <= self._log_start_seen_s:
            return
        elif log_start_offset == self.log_start_offset and self.may_start_go_back:
            # it may have returned to an earlier offset since the crash, and moved here again
            self._log_start_seen_s = seen_s
        elif 0 <= log_start_offset < self.log_start_offset:
            may_go_back = self.may_start_go_back and log_start_offset >= self.durable_start_offset
            if not (may_go_back or self.rules.is_replicated):
                raise ViolationError(
                    "the log start never goes back", f"{self.name}: {self.log_start_offset} to {log_start_offset}"
                )
            self.log_start_offset = log_start_offset
        self.may_start_go_back = self._may_end_have_gone_back = False

    def _check_deletion(self, log_start_offset: int) -> None:
        """Every deleted record must be covered by retention or by a client's request."""
        rules = self.rules
        if not rules.may_expire:
            raise ViolationError(
                "nothing is deleted early", f"{self.name}: log start offset {log_start_offset} without retention"
            )
        for offset in range(max(self.log_start_offset, self.asked_start_offset), log_start_offset):
            value = self.values.get(offset)
            if rules.retention_ms is not None and value is not None and self.sent.age_ms(value) < rules.retention_ms:
                raise ViolationError(
                    "nothing is deleted early",
                    f"{self.name}: {value} at {offset} is {self.sent.age_ms(value)} ms old, the retention is "
                    f"{rules.retention_ms} ms",
                )
        is_asked = log_start_offset <= self.asked_start_offset
        if rules.retention_bytes is not None and not is_asked and not self._may_end_have_gone_back:
            left = self.bytes_left(log_start_offset)
            if left < rules.retention_bytes:
                raise ViolationError(
                    "nothing is deleted early",
                    f"{self.name}: log start offset {log_start_offset} leaves {left} bytes of {rules.retention_bytes}",
                )

    def survived(self, survivor_end: int, *, is_power_lost: bool) -> int:
        """Called at a crash with one past the last offset on the disk. Returns the number of lost records.

        Raises ViolationError for a loss that is not allowed.
        """
        self.may_start_go_back = True
        if is_power_lost:
            self._may_end_have_gone_back = True
            self.durable_start_offset = min(self.durable_start_offset, survivor_end)
        lost = [offset for offset in self.values if offset >= survivor_end]
        # even if only records deleted by retention are lost, the end goes back: offsets are reused
        goes_back = is_power_lost and not self.rules.is_flushed and survivor_end < self.end
        if not lost and not goes_back:
            return 0
        if self.rules.is_flushed or not is_power_lost:
            raise ViolationError(
                "acknowledged records survive",
                f"{self.name}: the disk ends at {survivor_end} after a crash of the "
                f"{'machine' if is_power_lost else 'process'}, {len(lost)} known records from {min(lost)} are gone: "
                f"{self.values[min(lost)]}",
            )
        for offset in lost:
            del self.offsets[self.values.pop(offset)]
        self.end = min(self.end, survivor_end)
        self.last_of_key = {key: offset for key, (offset, _) in self._last_records({}).items()}
        self.last_sequences.clear()
        self.epochs.cut(survivor_end)
        self.legal_losses += 1
        return len(lost)

    def check_whole(self, seen: dict[int, Value], log_end_offset: int) -> list[int]:
        """Called after a reader has read all of [log start, log end). No known record may be missing, and each
        producer's order must be kept.

        Returns the offsets of records that are still there although their tombstone is gone. The tombstone may have
        been removed during the read; only a repeated finding is a fault.
        """
        returned = self._check_compaction(seen, log_end_offset) if self.rules.is_compacted else []
        for offset, value in self.values.items():
            if not self.rules.is_compacted and offset not in seen and offset >= self.log_start_offset:
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
        return returned

    def _check_compaction(self, seen: dict[int, Value], log_end_offset: int) -> list[int]:
        last_of_key = self._last_records(seen)
        retention_ms = self.rules.delete_retention_ms
        explained = {key for key, (offset, _) in last_of_key.items() if offset in seen}
        for offset, value in self.values.items():
            if offset in seen or value.key in explained:
                continue
            last_offset, last = last_of_key[value.key]
            is_forgotten = last.is_tombstone and self.sent.may_be_forgotten(last, retention_ms)
            if is_forgotten or self.sent.may_be_deleted(last, self.offsets, retention_ms):
                explained.add(value.key)
            else:
                raise ViolationError(
                    "acknowledged records are readable",
                    f"{self.name}: {value} at {offset} is missing, and so is the last of its key, {last} at "
                    f"{last_offset}, the log ends at {log_end_offset}",
                )
        for key, offset in self._skipped.items():
            if offset in seen and last_of_key[key][0] <= offset:
                raise ViolationError(
                    "readers get the last record of each key",
                    f"{self.name}: a reader got nothing at {offset}, and nothing supersedes {last_of_key[key][1]}",
                )
        self._skipped.clear()
        return [offset for offset, value in seen.items() if last_of_key[value.key][0] not in seen]

    def _last_records(self, seen: dict[int, Value]) -> dict[int, tuple[int, Value]]:
        """The last record of each key that was ever acknowledged or read."""
        last: dict[int, tuple[int, Value]] = {}
        for offset, value in sorted((self.values | seen).items()):
            last[value.key] = (offset, value)
        return last


class Ledger:
    """All partitions by (topic id, partition)."""

    def __init__(self, latest_ms: Callable[[], int], setback_ms: Callable[[], int]) -> None:
        self.partitions: dict[tuple[Uuid, int], PartitionLedger] = {}
        self._latest_ms = latest_ms
        self._setback_ms = setback_ms

    def add_topic(self, topic: str, topic_id: Uuid, partitions: int, rules: TopicRules) -> None:
        """Adds a topic whose creation the broker acknowledged."""
        for partition in range(partitions):
            if (topic_id, partition) not in self.partitions:
                sent = SentTimes(self._latest_ms, self._setback_ms)
                ledger = PartitionLedger(topic, topic_id, partition, rules, sent)
                self.partitions[topic_id, partition] = ledger

    def remove_topic(self, topic_id: Uuid) -> None:
        """The deletion of the topic was requested: nothing is promised any more."""
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]

    def partition(self, topic_id: Uuid, partition: int) -> PartitionLedger:
        return self.partitions[(topic_id, partition)]
