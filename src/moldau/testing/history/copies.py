"""Judges whether one topic is a copy of another: each record once, and in order for each partition."""

from __future__ import annotations

from array import array

import msgspec

from moldau.testing.history.evidence import Evidence
from moldau.testing.history.findings import Kind, Report
from moldau.testing.history.logs import NOTHING, Outcome, PartitionLog, Slot, Topic


class Copy(msgspec.Struct, frozen=True):
    """`target` should hold the committed records of `source`. Only records that read_committed consumers read from it
    count.

    A consumer that reads the target to its ends declares that copying is over: all records committed before it started
    must be present. Of the other records, only those below the last copied record of each partition must be present.
    """

    source: str
    target: str


def judge_copy(evidence: Evidence, copy: Copy, report: Report) -> None:
    """Raises ValueError if the history has no events of one of the topics."""
    absent = [name for name in (copy.source, copy.target) if name not in evidence.topics]
    if absent:
        raise ValueError(f"the history has no topic {absent[0]!r}; it has {sorted(evidence.topics)}")
    source, target = evidence.topics[copy.source], evidence.topics[copy.target]
    sends = evidence.sends
    counts = array("i", [0]) * len(sends)
    furthest: dict[int, int] = {}
    for log in target.partitions.values():
        last: dict[int, tuple[int, Slot]] = {}
        for slot in log.slots():
            if not slot.committed_line:
                continue
            name = sends.names[slot.send]
            where = f"{name} at {log} offset {slot.offset}"
            original = source.names.get(name)
            if original is None or _does_not_count(evidence, original):
                sentence = f"{where} is no copy of a record of {copy.source}"
                report.add(Kind.BROKEN_COPY, sentence, slot.line, offset=slot.offset)
                continue
            counts[original] += 1
            if counts[original] > max(1, sends.places[original]):
                lines = sends.begins[original], slot.line
                report.add(Kind.BROKEN_COPY, f"{where} was copied before", *lines, offset=slot.offset)
                continue
            partition, offset = sends.partitions[original], sends.offsets[original]
            before, earlier = last.setdefault(partition, (offset, slot))
            if offset < before:
                sentence = f"{where} stands behind {sends.names[earlier.send]}, which comes after it in {copy.source}"
                report.add(Kind.BROKEN_COPY, sentence, earlier.line, slot.line, offset=slot.offset)
            else:
                last[partition] = offset, slot
            furthest[partition] = max(furthest.get(partition, NOTHING), offset)
    over = _over(evidence, target)
    for log in source.partitions.values():
        _judge_missing(evidence, log, counts, furthest.get(log.partition, NOTHING), over, copy, report)


def _does_not_count(evidence: Evidence, row: int) -> bool:
    """Whether every send of the record failed or was aborted."""
    sends = evidence.sends
    for one in sends.all_of(row):
        transaction = evidence.transaction_of(one)
        is_aborted = transaction is not None and transaction.is_aborted
        if sends.outcomes[one] != Outcome.FAILED and not is_aborted:
            return False
    return True


def _over(evidence: Evidence, target: Topic) -> int:
    """The line at which copying was over: records committed before it must be in the target. 0 if copying may have
    continued, because an end of the target was not read or a copy was written after it."""
    over = []
    for log in target.partitions.values():
        if not log.ends:
            return 0
        last = max(log.ends, key=lambda end: end.start_line)
        if any(
            slot.offset >= last.offset and _committed_by(evidence, log, slot) > last.start_line for slot in log.slots()
        ):
            return 0
        over.append(last.start_line)
    return min(over, default=0)


def _committed_by(evidence: Evidence, log: PartitionLog, slot: Slot) -> int:
    """The first line that proves that the record in this slot is committed; 0 if none does."""
    row = evidence.sends.writer(slot.send, log.partition, slot.offset)
    transaction, proofs = evidence.transaction_of(row), [slot.committed_line]
    if evidence.sends.outcomes[row] == Outcome.DONE and transaction is None:
        proofs.append(evidence.sends.ends[row])
    elif evidence.sends.outcomes[row] == Outcome.DONE and transaction is not None and transaction.is_committed:
        proofs.append(transaction.end_line)
    return min((line for line in proofs if line), default=0)


def _judge_missing(
    evidence: Evidence, log: PartitionLog, counts: array[int], furthest: int, over: int, copy: Copy, report: Report
) -> None:
    sends = evidence.sends
    for slot in log.slots():
        if counts[slot.send]:
            continue
        row = sends.writer(slot.send, log.partition, slot.offset)
        committed = _committed_by(evidence, log, slot)
        is_due = slot.offset <= furthest or committed < over
        if committed and is_due and not _does_not_count(evidence, row):
            sentence = f"{sends.names[row]} at {log} offset {slot.offset} is missing in {copy.target}"
            lines = sends.begins[row], sends.ends[row], slot.line
            report.add(Kind.BROKEN_COPY, sentence, *lines, offset=slot.offset)
