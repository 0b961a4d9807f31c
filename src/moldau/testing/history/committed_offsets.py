"""Possible committed offsets of a group, given overlapping commits and commits with unknown outcomes."""

from __future__ import annotations

import msgspec

NEVER = 1 << 62


class Attempt(msgspec.Struct):
    """One commit of one partition, with the lines of its begin and its end. A commit with an unknown outcome never
    ends, because it may still take effect."""

    offset: int
    begin: int
    end: int = NEVER


class Question(msgspec.Struct, frozen=True):
    """A request for the committed offset at `line`. `settled_by`: the commit that began last among those acknowledged
    by then."""

    line: int
    settled_by: Attempt | None


class CommittedOffset:
    """The commits of one group for one partition.

    A question cannot find a commit that ended before another one began, if that other one was acknowledged before the
    question. All other commits are possible, also those with an unknown outcome. A commit inside a transaction begins
    when its offsets are added and ends with the transaction's commit, because the coordinator may order it by either.
    """

    def __init__(self) -> None:
        self._attempts: list[Attempt] = []
        self._settled: Attempt | None = None
        """The acknowledged commit that began last."""
        self._open_questions = 0
        self.highest = -1
        """The highest offset of any attempt."""

    def begin(self, offset: int, line: int) -> Attempt:
        """A commit of `offset` began at `line` of the history. Give it to `done` or `failed` when its outcome is
        known."""
        attempt = Attempt(offset, line)
        self._attempts.append(attempt)
        self.highest = max(self.highest, offset)
        return attempt

    def may_begin(self, offset: int, line: int) -> None:
        """A consumer with automatic commits is at `offset`."""
        if offset < self.highest:
            self.begin(offset, line)
        self.highest = max(self.highest, offset)

    def done(self, attempt: Attempt, line: int) -> None:
        """The commit was acknowledged at `line`."""
        attempt.end = line
        if self._settled is None or attempt.begin > self._settled.begin:
            self._settled = attempt
        if not self._open_questions:
            self._attempts = self._possible(self._settled)

    def failed(self, attempt: Attempt) -> None:
        """The commit failed for certain: the group never had its offset."""
        self._attempts = [other for other in self._attempts if other is not attempt]

    def ask(self, line: int) -> Question:
        """A client asks for the committed offset at `line`. Give the question to `answer`, or call `drop`."""
        self._open_questions += 1
        return Question(line, self._settled)

    def drop(self) -> None:
        """One of the questions gets no answer."""
        self._open_questions -= 1

    def resumed(self, question: Question, offset: int) -> Attempt | None:
        """A member read `offset` first. Returns the acknowledged commit that proves this offset to be below every
        offset that the group may have, else None. A higher first record proves nothing, because the offsets in between
        may have no records to read."""
        self._open_questions -= 1
        settled = question.settled_by
        if settled is None or any(one.offset <= offset for one in self._possible(settled)):
            return None
        return settled

    def answer(self, question: Question, offset: int, *, are_all_known: bool) -> Attempt | None:
        """Returns the acknowledged commit that proves that the group does not have `offset`, else None.
        `are_all_known`: no consumer commits automatically. Otherwise any higher offset may have been committed."""
        if not are_all_known:
            return self.resumed(question, offset)
        self._open_questions -= 1
        settled = question.settled_by
        if settled is None or any(one.offset == offset for one in self._possible(settled)):
            return None
        return settled

    def _possible(self, settled: Attempt) -> list[Attempt]:
        return [one for one in self._attempts if one is settled or one.end >= settled.begin]
