"""The path of one consumer through its partitions: skipped records and backward steps."""

from __future__ import annotations

import msgspec

from moldau.testing.history.committed_offsets import CommittedOffset, Question
from moldau.testing.history.findings import Kind, Report
from moldau.testing.history.logs import End, Gap, PartitionLog


class Resumption(msgspec.Struct, frozen=True):
    """A rebalance gave the partition to a member, whose first record shows the committed offset of the group."""

    committed: CommittedOffset
    question: Question


class Position(msgspec.Struct):
    """`next_offset` is None if the start of the consumer is unknown. `line`: the line that set the position. `begin`:
    the offset from which the consumer has read everything, once known."""

    log: PartitionLog
    next_offset: int | None
    line: int
    resumption: Resumption | None = None
    begin: int | None = None


class Reader:
    """One life of a consumer, which began at `line`."""

    def __init__(
        self, name: str, line: int, *, group: str | None = None, is_committed: bool = True, commits: bool = False
    ) -> None:
        self.name, self.line, self.group, self.is_committed, self.commits = name, line, group, is_committed, commits
        self.positions: dict[str, Position] = {}

    def place(
        self, where: str, log: PartitionLog, offset: int | None, line: int, resumption: Resumption | None = None
    ) -> Position:
        """The consumer goes to `offset`."""
        position = self.positions[where] = Position(log, offset, line, resumption, offset)
        return position

    def read(self, position: Position, offset: int, name: str, line: int, report: Report) -> None:
        """The consumer read a record."""
        log, expected = position.log, position.next_offset
        if position.resumption is not None:
            self._resume(position, offset, line, report)
        elif expected is not None and offset < expected:
            how = "in one poll" if position.line == line else "between two polls"
            sentence = f"{self.name} got offset {offset} of {log} ({name}) when {expected} or later was to come, {how}"
            report.add(Kind.NON_MONOTONIC_POLL, sentence, position.line, line, offset=offset)
        elif expected is not None and offset > expected:
            log.gaps.append(Gap(expected, offset, self.is_committed, position.line, line, self.name))
        if position.begin is None:
            position.begin = offset
        position.next_offset, position.line = offset + 1, line

    def _resume(self, position: Position, offset: int, line: int, report: Report) -> None:
        resumption, position.resumption = position.resumption, None
        if resumption is None:
            return
        committed = resumption.committed
        overtaken = committed.resumed(resumption.question, offset)
        if overtaken is not None:
            sentence = f"{self.name} resumed {position.log} at {offset}, but {overtaken.offset} was committed"
            lines = overtaken.begin, overtaken.end, resumption.question.line, line
            report.add(Kind.COMMITTED_OFFSET_BACK, sentence, *lines, offset=offset)
        elif -1 < committed.highest < offset:
            gap = Gap(committed.highest, offset, self.is_committed, resumption.question.line, line, self.name)
            position.log.gaps.append(gap)

    def end_reached(self, position: Position, offset: int, line: int) -> None:
        """The consumer reached the end of the log at `offset`."""
        log = position.log
        log.ends.append(End(offset, self.line, line, offset if position.begin is None else position.begin))
        if position.next_offset is not None and position.next_offset < offset:
            log.gaps.append(Gap(position.next_offset, offset, self.is_committed, position.line, line, self.name))
            position.next_offset, position.line = offset, line
