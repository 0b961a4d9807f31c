"""The partitions of a history: records by offset, their senders, and the paths of consumers.

The columns take about fifty bytes for each record, plus its name, so millions of records fit in memory.
"""

from __future__ import annotations

import enum
from array import array
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

NOTHING = -1
CHUNK_BITS = 12
CHUNK = 1 << CHUNK_BITS


class Outcome(enum.IntEnum):
    UNKNOWN = 0
    DONE = 1
    FAILED = 2
    FOREIGN = 3
    """The history has no send of the record."""


class Transaction(msgspec.Struct):
    """`commit_line`: the line where its producer began to commit it, 0 before. `end_line`: the line where its end was
    acknowledged, or first proven. `read_from`: the line of the poll, by each transaction whose records it read."""

    process: str
    number: int
    begin_line: int
    outcome: Outcome = Outcome.UNKNOWN
    commit_line: int = 0
    end_line: int = 0
    is_proven: bool = False
    """The outcome is unknown, but a read_committed consumer has read a record of the transaction."""
    read_from: dict[int, int] = {}

    def begin_end(self, line: int, read_from: dict[int, int], *, is_commit: bool) -> None:
        """The producer began to commit or abort the transaction at `line`. `read_from`: the reads of its consumer since
        the transaction before."""
        self.read_from |= read_from
        if is_commit:
            self.commit_line = self.commit_line or line

    def refuse_commit(self) -> None:
        """The commit failed for certain."""
        self.commit_line = 0

    def end(self, line: int, *, is_commit: bool) -> None:
        """The transaction was committed or aborted for certain. The acknowledgement is at `line`."""
        self.outcome, self.end_line = Outcome.DONE if is_commit else Outcome.FAILED, line

    def see(self, line: int) -> None:
        """A read_committed consumer got a record of this transaction."""
        if self.outcome is Outcome.UNKNOWN and 0 < self.commit_line < line:
            self.is_proven, self.end_line = True, min(self.end_line or line, line)

    @property
    def is_committed(self) -> bool:
        """Whether its commit was acknowledged, or a read_committed consumer read one of its records."""
        return self.outcome is Outcome.DONE or self.is_proven

    @property
    def may_be_committed(self) -> bool:
        """Whether it was committed, or its producer began to commit it and the outcome is unknown."""
        return self.is_committed or (self.outcome is Outcome.UNKNOWN and self.commit_line > 0)

    @property
    def is_aborted(self) -> bool:
        """Whether its abort was acknowledged."""
        return self.outcome is Outcome.FAILED

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.process}"


class Sends:
    """One row for each send, in the order of their begins, and one for each record without a known send."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.topics: list[Topic] = []
        self.partitions, self.offsets = array("i"), array("q")
        """The place of the acknowledgement, or else of the first read."""
        self.begins, self.ends = array("I"), array("I")
        """Line numbers."""
        self.outcomes, self.idempotent, self.tombstones = array("b"), array("b"), array("b")
        self.transactions, self.lives, self.keys = array("i"), array("i"), array("i")
        self.next_of_name = array("i")
        """The next send of a record of the same name in the same topic."""
        self.places, self.seen = array("i"), array("b")
        """For the first send of a name: the number of offsets that hold the record, and whether a consumer read it."""

    def __len__(self) -> int:
        return len(self.names)

    def add(self, topic: Topic, name: str, line: int, outcome: Outcome = Outcome.UNKNOWN) -> int:
        """Adds a row without a producer, and returns its index."""
        row = len(self.names)
        first = topic.names.setdefault(name, row)
        if first != row:
            name = self.names[first]
            while self.next_of_name[first] != NOTHING:
                first = self.next_of_name[first]
            self.next_of_name[first] = row
        self.names.append(name)
        self.topics.append(topic)
        self.begins.append(line)
        self.outcomes.append(outcome)
        for column in (self.ends, self.idempotent, self.tombstones, self.places, self.seen):
            column.append(0)
        for column in (self.partitions, self.offsets, self.transactions, self.lives, self.keys, self.next_of_name):
            column.append(NOTHING)
        return row

    def writer(self, first: int, partition: int, offset: int) -> int:
        """The row of this name that wrote the record at that place: the one acknowledged there, else one of unknown
        outcome, else one that did not fail."""
        if self.next_of_name[first] == NOTHING:
            return first
        rows = self.all_of(first)
        for row in rows:
            if self.outcomes[row] == Outcome.DONE and (self.partitions[row], self.offsets[row]) == (partition, offset):
                return row
        order = (Outcome.UNKNOWN, Outcome.DONE, Outcome.FOREIGN, Outcome.FAILED)
        return min(rows, key=lambda row: order.index(Outcome(self.outcomes[row])))

    def all_of(self, first: int) -> list[int]:
        """The rows of a name, starting with its first."""
        rows = [first]
        while self.next_of_name[rows[-1]] != NOTHING:
            rows.append(self.next_of_name[rows[-1]])
        return rows


class Gap(msgspec.Struct, frozen=True):
    """A consumer went from below `start` directly to `end`. Has the lines of the reads before and after, 0 for none."""

    start: int
    end: int
    is_committed: bool
    line_before: int
    line: int
    reader: str


class End(msgspec.Struct, frozen=True):
    """A consumer that started at `start_line` found the end of the log at `offset`, and read everything from `begin`
    on."""

    offset: int
    start_line: int
    line: int
    begin: int


class Slot(msgspec.Struct, frozen=True):
    """`send`: the first row of the record's name. The lines are those of the first read by a read_committed consumer
    and by another one; 0 for none."""

    offset: int
    send: int
    committed_line: int
    raw_line: int

    @property
    def line(self) -> int:
        """The line of a read of this offset, by a read_committed consumer if possible; 0 if no consumer read it."""
        return self.committed_line or self.raw_line


class PartitionLog:
    """The known contents of one partition."""

    def __init__(self, topic: Topic, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self._chunks: dict[int, tuple[array[int], array[int], array[int]]] = {}
        self.gaps: list[Gap] = []
        self.ends: list[End] = []
        self._acknowledged_lines, self._acknowledged_offsets = array("I"), array("q")

    def __str__(self) -> str:
        return f"{self.topic.name}-{self.partition}"

    def chunk(self, offset: int) -> tuple[array[int], array[int], array[int]]:
        """The columns around `offset`: sends, lines of committed reads and lines of other reads."""
        chunk = self._chunks.get(offset >> CHUNK_BITS)
        if chunk is None:
            chunk = array("i", [NOTHING]) * CHUNK, array("I", [0]) * CHUNK, array("I", [0]) * CHUNK
            self._chunks[offset >> CHUNK_BITS] = chunk
        return chunk

    def slot(self, offset: int) -> Slot:
        """The known contents of the offset. `send` is NOTHING if no record is known there."""
        sends, committed, raw = self.chunk(offset)
        index = offset & CHUNK - 1
        return Slot(offset, sends[index], committed[index], raw[index])

    def slots(self) -> Iterator[Slot]:
        """Every offset with a known record, in order."""
        for number in sorted(self._chunks):
            sends, committed, raw = self._chunks[number]
            for index, send in enumerate(sends):
                if send != NOTHING:
                    yield Slot(number * CHUNK + index, send, committed[index], raw[index])

    def highest_acknowledged(self, line: int) -> int:
        """The highest offset acknowledged by that line, or -1."""
        index = bisect_right(self._acknowledged_lines, line)
        return self._acknowledged_offsets[index - 1] if index else NOTHING

    def acknowledged(self, offset: int, line: int) -> None:
        """A record at `offset` was acknowledged at `line`. Call it in line order."""
        if not self._acknowledged_offsets or offset > self._acknowledged_offsets[-1]:
            self._acknowledged_lines.append(line)
            self._acknowledged_offsets.append(offset)


class Topic:
    """One life of a topic. A new life begins when the topic is created again."""

    def __init__(self, name: str, before: Topic | None = None) -> None:
        self.name, self.before = name, before
        self.names: dict[str, int] = {}
        """The first send of each name."""
        self.partitions: dict[int, PartitionLog] = {}
        self._keys: dict[str, int] = {}

    def key_number(self, key: str) -> int:
        """A number for the key, the same for the same key."""
        return self._keys.setdefault(key, len(self._keys))

    def log(self, partition: int) -> PartitionLog:
        """The log of the partition, created on first use."""
        log = self.partitions.get(partition)
        if log is None:
            log = self.partitions[partition] = PartitionLog(self, partition)
        return log

    def of(self, name: str) -> Topic | None:
        """This life or the latest earlier one in which a record of that name was sent or read."""
        topic: Topic | None = self
        while topic is not None and name not in topic.names:
            topic = topic.before
        return topic
