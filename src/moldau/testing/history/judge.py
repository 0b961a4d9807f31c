"""The judge: pure, deterministic, and in a time that grows with the length of the history."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from moldau.testing.history.copies import Copy, judge_copy
from moldau.testing.history.cycles import judge_cycles
from moldau.testing.history.events import Event
from moldau.testing.history.evidence import Evidence
from moldau.testing.history.findings import Finding, Report, Step, Verdict
from moldau.testing.history.logs import Outcome
from moldau.testing.history.records import judge_records


def judge(
    history: Iterable[Event],
    *,
    compacted: Collection[str] = (),
    copies: Iterable[Copy] = (),
    are_writes_isolated: bool = False,
) -> Verdict:
    """What the history proves against the cluster. It is iterated twice if anything is found.

    `compacted`: topics whose records may go when a newer one has their key. `copies`: topics that are to be copies of
    others. `are_writes_isolated`: transactions that write to the same partitions run one after the other, so that none
    may write both before and after another one; Kafka itself does not promise this.
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
    """Fetches the events by the numbers of their lines."""
    wanted = {line for found in report.kept for line in found.lines}
    if not wanted:
        return ()
    steps = {line: Step(line, event) for line, event in enumerate(history, 1) if line in wanted}
    return tuple(
        Finding(found.kind, found.sentence, tuple(steps[line] for line in found.lines)) for found in report.kept
    )


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
