"""Conditions that a test waits for, and the error when they are not reached."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from moldau.errors import MoldauError
from moldau.testing.inside import GroupView, Record, is_unknown
from moldau.testing.tracebacks import hides
from moldau.types import TopicPartition

__tracebackhide__ = hides


class NotReachedError(MoldauError, TimeoutError):
    """`wait_for` timed out. The message has the last state."""

    __module__ = "moldau.testing"


class Observed(Protocol):
    """The methods of `Cluster` that conditions use."""

    def stable_spans(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first offset and the last stable offset of each partition. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    def records(self, topic: str) -> Iterator[Record]:
        """The records that a read_committed consumer reads. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    def isr_by_partition(self, topic: str) -> dict[int, frozenset[int]]:
        """The ids of the in-sync replicas of each partition. Raises UNKNOWN_TOPIC_OR_PARTITION."""
        ...

    def group(self, group_id: str) -> GroupView:
        """State, members and lag of the group. Raises GROUP_ID_NOT_FOUND."""
        ...


Check = Callable[[bool], tuple[bool, str]]
"""Returns whether the condition holds, and a description of the state. The argument says whether this is the last
check, whose description is shown and may cost more."""


def pauses_until(check: Check, timeout: float) -> Iterator[None]:
    """Yields at each pause until the check holds. Raises NotReachedError."""
    deadline = time.monotonic() + timeout
    while True:
        is_last = time.monotonic() >= deadline
        holds, seen = check(is_last)
        if holds:
            return
        if is_last:
            raise NotReachedError(f"waited for {timeout:g} s; last seen: {seen}")
        yield


def make_check(
    cluster: Observed,
    predicate: Callable[[], object] | None,
    *,
    topic: str | None,
    records: int | None,
    isr: int | Iterable[int] | None,
    group: str | None,
    lag: int | None,
    members: int | None,
) -> Check:
    """A check that all given conditions hold at once. Raises ValueError if no condition, or an incomplete one, is
    given."""
    if (topic is None) != (records is None and isr is None):
        raise ValueError("a topic: give topic= with records= or isr=, or both")
    if (group is None) != (lag is None and members is None):
        raise ValueError("a group: give group= with lag= or members=, or both")
    checks: list[Check] = []
    if predicate is not None:
        checks.append(lambda _: _check_predicate(predicate))
    if topic is not None and records is not None:
        checks.append(_RecordsCheck(cluster, topic, records))
    if topic is not None and isr is not None:
        wanted = isr if isinstance(isr, int) else frozenset(isr)
        checks.append(lambda _: _check_isr(cluster, topic, wanted))
    if group is not None:
        checks.append(lambda _: _check_group(cluster, group, lag, members))
    if not checks:
        raise ValueError(
            "wait for what? Give a predicate, topic= with records= or isr=, or group= and lag= or members="
        )

    def check_all(is_last: bool) -> tuple[bool, str]:
        seen = [check(is_last) for check in checks]
        return all(holds for holds, _ in seen), "; ".join(story for _, story in seen)

    return check_all


def _check_predicate(predicate: Callable[[], object]) -> tuple[bool, str]:
    """A failing assertion means that the condition does not hold yet. Other errors are raised."""
    try:
        result = predicate()
    except AssertionError as error:
        return False, f"the predicate failed: {error or 'AssertionError'}"
    return bool(result), f"the predicate gave {result!r}"


class _RecordsCheck:
    """At least `records` records that a read_committed consumer reads.

    A topic has more offsets than records, because transaction markers and aborted or compacted records have offsets
    too. Counting reads the whole topic, so the next count waits until enough new offsets exist.
    """

    def __init__(self, cluster: Observed, topic: str, records: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._records = records
        self._spans: dict[int, tuple[int, int]] = {}
        """The spans at the last count; empty before the first count."""
        self._counts: dict[int, int] = {}

    def __call__(self, is_last: bool) -> tuple[bool, str]:
        try:
            spans = self._cluster.stable_spans(self._topic)
            if is_last or (spans != self._spans and self._may_suffice(spans)):
                found = Counter(record.partition for record in self._cluster.records(self._topic))
                self._spans, self._counts = spans, {index: found[index] for index in spans}
        except MoldauError as error:
            if not is_unknown(error):
                raise
            self._spans, self._counts = {}, {}  # a new topic of this name is a different one
            return False, str(error)
        total = sum(self._counts.values())
        parts = ", ".join(f"{index}: {count}" for index, count in self._counts.items())
        story = f"topic {self._topic!r} has {total} of {self._records} records"
        return spans == self._spans and total >= self._records, story if len(spans) == 1 else f"{story} ({parts})"

    def _may_suffice(self, spans: dict[int, tuple[int, int]]) -> bool:
        ends = {index: end for index, (_, end) in self._spans.items()}
        new = sum(end - ends.get(index, start) for index, (start, end) in spans.items())
        return sum(self._counts.values()) + new >= self._records


def _check_isr(cluster: Observed, topic: str, wanted: int | frozenset[int]) -> tuple[bool, str]:
    try:
        found = cluster.isr_by_partition(topic)
    except MoldauError as error:
        if not is_unknown(error):
            raise
        return False, str(error)
    other = [
        f"{index}: {sorted(isr)}"
        for index, isr in found.items()
        if (len(isr) if isinstance(wanted, int) else isr) != wanted
    ]
    goal = wanted if isinstance(wanted, int) else sorted(wanted)
    return not other, f"in-sync replicas of {topic!r} are not {goal} in {', '.join(other[:8]) or 'no partition'}"


def _check_group(cluster: Observed, group: str, lag: int | None, members: int | None) -> tuple[bool, str]:
    try:
        view = cluster.group(group)
    except MoldauError as error:
        if not is_unknown(error):
            raise
        return members == 0 and lag is None, str(error)
    holds, story = True, f"group {group!r} is {view.state}"
    if lag is not None and not view.lag and not view.members:
        holds, story = False, f"{story}, and has committed nothing"
    if members is not None:
        holds = holds and len(view.members) == members and view.state == ("Stable" if members else "Empty")
        story += f", has {len(view.members)} of {members} members"
    if lag is not None:
        total = sum(view.lag.values())
        holds = holds and total <= lag
        story += f", has a lag of {total}{_by_partition(view.lag)} and not {lag}" if total > lag else ", its lag is met"
    return holds, story


def _by_partition(lag: dict[TopicPartition, int]) -> str:
    behind = [f"{one}: {count}" for one, count in lag.items() if count]
    return f" ({', '.join(behind[:8])}{', ...' if len(behind) > 8 else ''})" if len(lag) > 1 else ""
