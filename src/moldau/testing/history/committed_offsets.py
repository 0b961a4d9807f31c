"""Possible committed offsets of a group, with overlapping commits and commits of unknown outcome."""

from __future__ import annotations

import msgspec

NEVER = 1 << 62


class Attempt(msgspec.Struct):
    """One commit of one partition: lines of its begin and its end. One with an unknown outcome never ends, because it
    may still take effect."""

    offset: int
    begin: int
    end: int = NEVER


class Question(msgspec.Struct, frozen=True):
    """Asked at `line`. `settled_by`: of the commits acknowledged by then the one that began last."""

    line: int
    settled_by: Attempt | None


class CommittedOffset:
    """The commits of one group for one partition.

    A commit cannot be what a question finds if it had ended before another began that was acknowledged before the
    question was asked. All others can, and so can those with an unknown outcome. Offsets of a transaction begin where
    they are added to it and end with its commit: the coordinator lets them take their place in the order at either.
    """

    def __init__(self) -> None:
        self._attempts: list[Attempt] = []
        self._settled: Attempt | None = None
        """Of the acknowledged commits the one that began last."""
        self._open_questions = 0
        self.highest = -1
        """Of all that were ever tried."""

    def begin(self, offset: int, line: int) -> Attempt:
        """A commit of `offset` began at `line` of the history. Give it to `done` or `failed` when its outcome is
        known."""
        attempt = Attempt(offset, line)
        self._attempts.append(attempt)
        self.highest = max(self.highest, offset)
        return attempt

    def may_begin(self, offset: int, line: int) -> None:
        """A consumer that commits by itself stands at `offset`."""
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
        """The commit was refused: the group never had its offset."""
        self._attempts = [other for other in self._attempts if other is not attempt]

    def ask(self, line: int) -> Question:
        """Somebody asks for the committed offset at `line`. Give the question to `answer`, or call `drop`."""
        self._open_questions += 1
        return Question(line, self._settled)

    def drop(self) -> None:
        """There will be no answer to one of the questions."""
        self._open_questions -= 1

    def resumed(self, question: Question, offset: int) -> Attempt | None:
        """A member got `offset` first. The acknowledged commit that proves it to be older than all that the group may
        have; else None: what lies between a commit and the first record may be nothing to read."""
        self._open_questions -= 1
        settled = question.settled_by
        if settled is None or any(one.offset <= offset for one in self._possible(settled)):
            return None
        return settled

    def answer(self, question: Question, offset: int, *, are_all_known: bool) -> Attempt | None:
        """The acknowledged commit that proves the group not to have `offset`; else None. `are_all_known`: no consumer
        commits by itself. Where one does, any offset above may have been committed."""
        if not are_all_known:
            return self.resumed(question, offset)
        self._open_questions -= 1
        settled = question.settled_by
        if settled is None or any(one.offset == offset for one in self._possible(settled)):
            return None
        return settled

    def _possible(self, settled: Attempt) -> list[Attempt]:
        return [one for one in self._attempts if one is settled or one.end >= settled.begin]
