"""The judge. It is pure and deterministic, and its time grows with the length of the history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from moldau.testing.history.copies import Copy, judge_copy
from moldau.testing.history.cycles import judge_cycles
from moldau.testing.history.events import Event, Fault
from moldau.testing.history.evidence import Evidence
from moldau.testing.history.findings import Finding, Found, Report, Step, Verdict
from moldau.testing.history.logs import Outcome
from moldau.testing.history.records import judge_records

SHOWN_FAULTS = 5


def judge(
    history: Iterable[Event],
    *,
    compacted: Collection[str] = (),
    copies: Iterable[Copy] = (),
    are_writes_isolated: bool = False,
) -> Verdict:
    """Returns the violations that the history proves. Iterates the history twice if there are any.

    `compacted`: topics that may lose a record once a newer one has its key. `copies`: topics that should be copies of
    others. `are_writes_isolated`: transactions that write to the same partitions run one after the other, so none may
    write both before and after another one. Kafka itself does not promise this.
    """
    if isinstance(history, Iterator):
        raise TypeError("a history is iterated twice: give a list or a HistoryFile, not an iterator")
    evidence = Evidence()
    evidence.fold(history)
    evidence.prove_transactions()
    report = evidence.report
    explained = judge_cycles(evidence, report, are_writes_isolated=are_writes_isolated)
    judge_records(evidence, report, compacted, explained)
    for copy in copies:
        judge_copy(evidence, copy, report)
    return Verdict(_with_proofs(history, report), dict(report.counts), _judged(evidence))


def _with_proofs(history: Iterable[Event], report: Report) -> tuple[Finding, ...]:
    """Fetches the events by their line numbers."""
    wanted = {line for found in report.kept for line in found.lines}
    if not wanted:
        return ()
    steps: dict[int, Step] = {}
    faults: list[Step] = []
    for line, event in enumerate(history, 1):
        if line in wanted:
            steps[line] = Step(line, event)
        elif isinstance(event, Fault):
            faults.append(Step(line, event))
    return tuple(_with_proof(found, steps, faults) for found in report.kept)


def _with_proof(found: Found, steps: dict[int, Step], faults: list[Step]) -> Finding:
    """The finding with its events and the first faults between them."""
    first, last = found.lines[0], found.lines[-1]
    between = [fault for fault in faults if first < fault.line < last][:SHOWN_FAULTS]
    proof = sorted([*(steps[line] for line in found.lines), *between], key=lambda step: step.line)
    return Finding(found.kind, found.sentence, tuple(proof), found.offset)


def _judged(evidence: Evidence) -> dict[str, int]:
    outcomes = evidence.sends.outcomes
    return {
        "records acknowledged": outcomes.count(Outcome.DONE),
        "of unknown outcome": outcomes.count(Outcome.UNKNOWN),
        "failed": outcomes.count(Outcome.FAILED),
        "reads of records": evidence.reads,
        "transactions": len(evidence.transactions),
        "commits of offsets": evidence.commits,
    }
