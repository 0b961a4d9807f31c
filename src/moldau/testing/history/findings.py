"""Findings against a cluster, with their proof."""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

import msgspec

from moldau.testing.history.events import Event, Fault, Poll

KEPT = 20
"""The number of findings of each kind that are shown with their proof. All are counted."""
SHOWN_RECORDS = 6
"""The number of records of one poll in a printed finding."""


class Kind(enum.StrEnum):
    LOST_WRITE = "lost write"
    """An acknowledged record is missing where a consumer read past it, or past the end of its log."""
    DUPLICATE = "duplicate"
    """A record is at more offsets than it was sent, and its producers are idempotent."""
    REORDERING = "reordering"
    """A record was acknowledged below one that was acknowledged before it was sent, or that the same idempotent
    producer sent before it."""
    INCONSISTENT_OFFSET = "inconsistent offset"
    """Two records were seen or acknowledged at one offset."""
    ABORTED_READ = "aborted read"
    """A record was read whose send failed for certain, or whose transaction was aborted."""
    PRECOMMITTED_READ = "precommitted read"
    """A read_committed consumer read a record whose transaction had not begun to commit."""
    UNSENT_READ = "unsent read"
    """A record was read before any producer began to send it, in a topic whose sends are recorded."""
    SKIPPED_POLL = "skipped poll"
    """A consumer skipped a record that others read at that offset."""
    NON_MONOTONIC_POLL = "non-monotonic poll"
    """A consumer read an offset that is not above the one before it, without a seek, an assignment or a rebalance in
    between."""
    COMMITTED_OFFSET_BACK = "committed offset went back"
    """A group's committed offset is not that of any commit that may be the last, or a member resumed below all of
    those."""
    WRITE_CYCLE = "write cycle"
    """Transactions wrote before one another in a cycle (G0)."""
    CIRCULAR_FLOW = "circular information flow"
    """Transactions read from one another in a cycle (G1c)."""
    BROKEN_COPY = "broken copy"
    """A topic does not hold each record of another topic once and in order for each partition."""


class Found(msgspec.Struct, frozen=True):
    """`lines`: the numbers of the lines that prove it, from 1. `offset`: the offset that the finding is about, if
    any."""

    kind: Kind
    sentence: str
    lines: tuple[int, ...]
    offset: int | None


class Report:
    """The findings so far: the first of each kind, and the count of each."""

    def __init__(self) -> None:
        self.kept: list[Found] = []
        self.counts: Counter[Kind] = Counter()

    def add(self, kind: Kind, sentence: str, *lines: int, offset: int | None = None) -> None:
        """`lines` may include 0 for a missing line, and may repeat a line."""
        self.counts[kind] += 1
        if self.counts[kind] <= KEPT:
            self.kept.append(Found(kind, sentence, tuple(sorted({*lines} - {0})), offset))


class Step(msgspec.Struct, frozen=True):
    line: int
    event: Event

    def told(self, near: int | None) -> str:
        """A description. For a long poll, shows the records around the offset `near`."""
        event = self.event
        return f"line {self.line:>7}  {event.at_ms / 1000:.3f} s  {event.process:<12}  {described(event, near)}"


class Finding(msgspec.Struct, frozen=True):
    """`proof`: the operations and reads in time order, with the faults in between. `offset`: the offset that it is
    about."""

    kind: Kind
    sentence: str
    proof: tuple[Step, ...]
    offset: int | None

    def __str__(self) -> str:
        return "\n".join([f"{self.kind}: {self.sentence}", *(f"    {step.told(self.offset)}" for step in self.proof)])


class Verdict(msgspec.Struct, frozen=True):
    """`findings`: the first of each kind. `counts`: the number of all. `judged`: the amount of input."""

    findings: tuple[Finding, ...]
    counts: dict[Kind, int]
    judged: dict[str, int]

    def __str__(self) -> str:
        seen = ", ".join(f"{count:,} {name}" for name, count in self.judged.items())
        if not self.findings:
            return f"nothing is wrong: {seen}"
        wrong = ", ".join(f"{kind}: {count:,}" for kind, count in self.counts.items())
        return "\n".join([*map(str, self.findings), f"{wrong}; judged were {seen}"])


def described(event: Event, near: int | None) -> str:
    """A description of an event, without its process and time."""
    if isinstance(event, Fault):
        return event.text
    if isinstance(event, Poll):
        return "poll " + "; ".join(f"{where}: {_shortened(some, near)}" for where, some in event.records.items())
    fields = msgspec.to_builtins(event)
    words = [f"{name} {value}" for name, value in fields.items() if name not in ("event", "process", "at_ms")]
    return " ".join([fields["event"], ", ".join(words)]).rstrip()


def _shortened(records: Sequence[tuple[int, str]], near: int | None) -> str:
    at = len(records) if near is None else bisect_left(records, near, key=lambda one: one[0])
    begin = max(0, min(at - SHOWN_RECORDS // 2, len(records) - SHOWN_RECORDS))
    shown = records[begin : begin + SHOWN_RECORDS]
    words = [f"{offset} {name}" for offset, name in shown]
    before, after = begin, len(records) - begin - len(shown)
    return ", ".join([f"... {before} more"] * (before > 0) + words + [f"{after} more ..."] * (after > 0))
