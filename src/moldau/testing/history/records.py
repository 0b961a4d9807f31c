"""The rules of single records: lost, duplicated, out of order, read after an abort, skipped."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection

from moldau.testing.history.evidence import Evidence
from moldau.testing.history.findings import Kind, Report
from moldau.testing.history.logs import NOTHING, Gap, Outcome, PartitionLog, Slot, Topic


def judge_records(evidence: Evidence, report: Report, compacted: Collection[str], explained: Collection[int]) -> None:
    """`explained`: lines of polls that read uncommitted records and are already reported as part of a cycle."""
    _judge_duplicates(evidence, report)
    _judge_order(evidence, report)
    unplaced = _unplaced_sends(evidence, compacted)
    for log in evidence.logs():
        _judge_reads(evidence, log, report, explained)
        survivors = Survivors(evidence, log, unplaced) if log.topic.name in compacted else None
        _judge_skips(evidence, log, report, survivors)
        if log.gaps or log.ends:
            _judge_losses(evidence, log, report, survivors)


Unplaced = dict[tuple[Topic, int], list[int]]
"""Sends that may be anywhere after the known records, by topic and key."""


def _unplaced_sends(evidence: Evidence, compacted: Collection[str]) -> Unplaced:
    """The sends without an acknowledged offset and without a read. They may never have been written."""
    found: Unplaced = {}
    sends = evidence.sends
    for row in range(len(sends)) if compacted else ():
        if sends.offsets[row] != NOTHING or sends.outcomes[row] not in (Outcome.UNKNOWN, Outcome.DONE):
            continue
        transaction = evidence.transaction_of(row)
        if sends.keys[row] != NOTHING and (transaction is None or transaction.may_be_committed):
            found.setdefault((sends.topics[row], sends.keys[row]), []).append(row)
    return found


class Survivors:
    """The records of a compacted partition that the cleaner must keep."""

    def __init__(self, evidence: Evidence, log: PartitionLog, unplaced: Unplaced) -> None:
        self._evidence, self._sends, self._log, self._unplaced = evidence, evidence.sends, log, unplaced
        self._newest: dict[int, int] = {}
        for slot in log.slots():
            row = self._sends.writer(slot.send, log.partition, slot.offset)
            transaction = evidence.transaction_of(row)
            if transaction is None or transaction.may_be_committed:
                self._newest[self._sends.keys[row]] = slot.offset

    def may_be_gone(self, row: int, offset: int) -> bool:
        """Whether the cleaner may have removed the record: a newer record that may be committed has its key, it is a
        tombstone, its transaction is not known to be committed, or its key is unknown."""
        transaction, key = self._evidence.transaction_of(row), self._sends.keys[row]
        if key == NOTHING or self._sends.tombstones[row] or (transaction is not None and not transaction.is_committed):
            return True
        return self._newest[key] > offset

    def may_be_taken_by_another(self, row: int, offset: int, line: int) -> bool:
        """Whether an unread record may have replaced this one, which was gone at `line`.

        If a consumer has read from here to the end of the log without seeing it, it does not exist. A tombstone may
        have been removed too.
        """
        is_searched = any(end.begin <= offset < end.offset and end.line >= line for end in self._log.ends)
        return any(
            self._sends.begins[other] < line and (self._sends.tombstones[other] or not is_searched)
            for other in self._unplaced.get((self._log.topic, self._sends.keys[row]), ())
        )


def _judge_duplicates(evidence: Evidence, report: Report) -> None:
    sends = evidence.sends
    suspects = {
        first: _written(evidence, first)
        for first, places in enumerate(sends.places)
        if places > 1 and sends.outcomes[first] != Outcome.FOREIGN
    }
    doubled = {
        first: (list[str](), list[int]())
        for first, rows in suspects.items()
        if sends.places[first] > len(rows) and all(sends.idempotent[row] for row in rows)
    }
    for log in evidence.logs() if doubled else ():
        for slot in log.slots():
            if slot.send in doubled:
                places, lines = doubled[slot.send]
                places.append(f"{log} offset {slot.offset}")
                lines.append(slot.line)
    for first, (places, lines) in doubled.items():
        rows = suspects[first]
        known = [line for row in rows for line in (sends.begins[row], sends.ends[row])]
        how_often = "once" if len(rows) == 1 else f"{len(rows)} times"
        sentence = f"{sends.names[first]} was sent {how_often} and is at {' and at '.join(places)}"
        report.add(Kind.DUPLICATE, sentence, *known, *lines)


def _written(evidence: Evidence, first: int) -> list[int]:
    """The sends of this name that may have written the record."""
    return [row for row in evidence.sends.all_of(first) if evidence.sends.outcomes[row] != Outcome.FAILED]


def _judge_order(evidence: Evidence, report: Report) -> None:
    """A later send of one idempotent producer to a partition must have a higher offset."""
    sends = evidence.sends
    last: dict[tuple[int, PartitionLog], int] = {}
    for row in range(len(sends)):
        if not sends.idempotent[row] or sends.outcomes[row] != Outcome.DONE or sends.offsets[row] < 0:
            continue
        log = sends.topics[row].log(sends.partitions[row])
        key = sends.lives[row], log
        before = last.setdefault(key, row)
        if sends.offsets[row] < sends.offsets[before]:
            sentence = f"{sends.names[before]} was sent before {sends.names[row]}, but they are at "
            sentence += f"{log} offsets {sends.offsets[before]} and {sends.offsets[row]}"
            lines = sends.begins[before], sends.ends[before], sends.begins[row], sends.ends[row]
            report.add(Kind.REORDERING, sentence, *lines)
        else:
            last[key] = row


def _judge_reads(evidence: Evidence, log: PartitionLog, report: Report, explained: Collection[int]) -> None:
    """Judges whether each read record may be read."""
    sends = evidence.sends
    for slot in log.slots():
        if not slot.line:
            continue
        row = sends.writer(slot.send, log.partition, slot.offset)
        where, outcome = f"{sends.names[row]} at {log} offset {slot.offset}", sends.outcomes[row]
        known = sends.begins[row], sends.ends[row]
        transaction = evidence.transaction_of(row)
        if outcome == Outcome.FOREIGN or sends.begins[row] > slot.line:
            if log.topic in evidence.recorded_topics:
                report.add(Kind.UNSENT_READ, f"{where} was read, but nobody had sent it", slot.line, offset=slot.offset)
        elif outcome == Outcome.FAILED:
            report.add(
                Kind.ABORTED_READ, f"{where} was read, but its send had failed", *known, slot.line, offset=slot.offset
            )
        elif transaction is None or not slot.committed_line:
            continue
        elif transaction.is_aborted:
            sentence = f"{where} was read, but {transaction} was aborted"
            report.add(
                Kind.ABORTED_READ, sentence, *known, transaction.end_line, slot.committed_line, offset=slot.offset
            )
        elif not 0 < transaction.commit_line < slot.committed_line and slot.committed_line not in explained:
            sentence = f"{where} was read before {transaction} was to be committed"
            lines = slot.committed_line, transaction.commit_line
            report.add(Kind.PRECOMMITTED_READ, sentence, *known, *lines, offset=slot.offset)


def _judge_skips(evidence: Evidence, log: PartitionLog, report: Report, survivors: Survivors | None) -> None:
    if not log.gaps:
        return
    for_committed, for_raw = array("q"), array("q")
    for slot in log.slots():
        if slot.raw_line or slot.committed_line:
            for_raw.append(slot.offset)
            if _is_committed(evidence, log, slot):
                for_committed.append(slot.offset)
    for gap in log.gaps:
        seen = for_committed if gap.is_committed else for_raw
        missed = [
            slot
            for offset in seen[bisect_left(seen, gap.start) : bisect_left(seen, gap.end)]
            if not _is_excused(evidence, slot := log.slot(offset), log, survivors, gap.line)
        ]
        if missed:
            how = "in one poll" if gap.line == gap.line_before else "between two polls"
            first = f"{evidence.sends.names[missed[0].send]} at {log} offset {missed[0].offset}"
            sentence = f"{gap.reader} passed over {len(missed)} records that others read, {first} the first, {how}"
            lines = missed[0].line, gap.line_before, gap.line
            report.add(Kind.SKIPPED_POLL, sentence, *lines, offset=missed[0].offset)


def _is_committed(evidence: Evidence, log: PartitionLog, slot: Slot) -> bool:
    """Whether every read_committed consumer that passes this slot must read its record."""
    row = evidence.sends.writer(slot.send, log.partition, slot.offset)
    transaction = evidence.transaction_of(row)
    if transaction is None:
        return evidence.sends.outcomes[row] not in (Outcome.FAILED, Outcome.FOREIGN) or slot.committed_line > 0
    return transaction.is_committed


def _is_excused(evidence: Evidence, slot: Slot, log: PartitionLog, survivors: Survivors | None, line: int) -> bool:
    if survivors is None:
        return False
    row = evidence.sends.writer(slot.send, log.partition, slot.offset)
    return survivors.may_be_gone(row, slot.offset) or survivors.may_be_taken_by_another(row, slot.offset, line)


def _judge_losses(evidence: Evidence, log: PartitionLog, report: Report, survivors: Survivors | None) -> None:
    """Finds acknowledged records that no consumer read although one went past them or past the end of the log."""
    sends = evidence.sends
    ways = Ways(log.gaps)
    for slot in log.slots():
        if slot.line:
            continue
        row = sends.writer(slot.send, log.partition, slot.offset)
        transaction = evidence.transaction_of(row)
        if sends.outcomes[row] != Outcome.DONE:
            continue
        if sends.seen[slot.send] and len(_written(evidence, slot.send)) == 1:
            continue  # it is at another offset, which is reported as a duplicate
        if (transaction is not None and not transaction.is_committed) or (
            survivors is not None and survivors.may_be_gone(row, slot.offset)
        ):
            continue
        promised = sends.ends[row] if transaction is None else transaction.end_line or transaction.commit_line
        name = f"{sends.names[row]} was acknowledged at {log} offset {slot.offset}"
        gap = ways.past(slot.offset)
        lines = sends.begins[row], sends.ends[row], promised
        if gap is not None:
            if survivors is not None and survivors.may_be_taken_by_another(row, slot.offset, gap.line):
                continue
            sentence = f"{name}; nobody read it, and {gap.reader} came past"
            report.add(Kind.LOST_WRITE, sentence, *lines, gap.line_before, gap.line, offset=slot.offset)
            continue
        for end in log.ends:
            if end.offset <= slot.offset and promised < end.start_line:
                sentence = f"{name}; the log ends at {end.offset}"
                report.add(Kind.LOST_WRITE, sentence, *lines, end.line, offset=slot.offset)
                break


class Ways:
    """The ranges that consumers passed without a record."""

    def __init__(self, gaps: list[Gap]) -> None:
        self._starts, self._furthest = array("q"), list[Gap]()
        for gap in sorted(gaps, key=lambda gap: gap.start):
            self._starts.append(gap.start)
            is_further = not self._furthest or gap.end > self._furthest[-1].end
            self._furthest.append(gap if is_further else self._furthest[-1])

    def past(self, offset: int) -> Gap | None:
        """A gap that includes the offset, or None."""
        index = bisect_right(self._starts, offset)
        gap = self._furthest[index - 1] if index else None
        return gap if gap is not None and gap.end > offset else None
