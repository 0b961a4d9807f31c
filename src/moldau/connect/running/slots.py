"""The slots of a connector when their number changes.

A slot of a sink owns partitions by the number of slots, so the batches of all slots end before the number changes. The
task of slot 0 does that, because every number of slots has it, and its transactional id lets one such task at a time
write:

1. It writes {"slots": 3, "earlier": 2}: from now on, no other task begins.
2. It fences the earlier slots, one after the other. A task that is fenced notes no batch any more.
3. It writes their noted batches again, each with the id, number and slot under which it was noted.
4. It writes {"slots": 3}: the tasks of the other slots fence theirs, look once more, and begin.

A task that dies within these steps is followed by one that repeats them, with the same earlier number.

A source keeps a place for each slot. With another number of tasks, a slot is another part of the source, so a task
whose number is not the kept one fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from moldau.connect.running.notes import LONG_WRITE_S, Committed, Notes
from moldau.connect.running.places import Count, Places
from moldau.connect.running.protocol import Task
from moldau.connect.running.transactions import StoppedError
from moldau.errors import MoldauError

LOOK_S: Final = 0.2
"""Between two looks of a slot that waits for slot 0."""
WAIT_S: Final = 60.0
"""A task that has waited so long for slot 0 fails, and says so; its worker starts it again."""


class SlotsError(MoldauError):
    """The slot must not begin."""


class Slots:
    """Gives a sink the notes to write by. `is_settled`: all slots have the same number; the slot owns its partitions
    until its task is fenced."""

    def __init__(self, task: Task, committed: Committed, is_stopping: Callable[[], bool]) -> None:
        self._task = task
        self._committed = committed
        self._is_stopping = is_stopping
        self._places = Places(task, is_stopping)
        self._count = Count(task.slots)
        self._wait = Waiting(task)
        self._change: Iterator[Notes | None] = iter(())
        self._has_fenced = False
        self.own = Notes(task, is_stopping)
        self.is_settled = False

    def start(self) -> None:
        """Fences earlier tasks of the slot, unless slot 0 must go first. Raises FencedError, NoTopicError,
        StoppedError, KafkaException."""
        if self._task.slot:
            self._join()
            return
        self.own.fence()
        self._places.look()
        self.own.resume(self._places.of_slot(0), self._committed)
        found = self._places.count
        if found == self._count:
            self._settle()
        else:
            self._change = self._changed(earlier_of(found))

    def next(self) -> Notes | None:
        """The notes of the slot whose batch is written now: of another slot until all are settled, then the own. Call
        it when no batch of the last one is pending. None: the slot waits. Raises SlotsError, and as `start`."""
        if self._task.slot:
            if not self.is_settled:
                self._wait.look("until the task of slot 0 has ended the batches of the earlier tasks")
                self._join()
            return self.own if self.is_settled else None
        return next(self._change, self.own)

    def close(self) -> None:
        self.own.close()

    def _join(self) -> None:
        self._places.look()
        if self._places.count != self._count:
            return
        if self._has_fenced:
            self.own = Notes(self._task, self._is_stopping)
        self._has_fenced = True
        self.own.fence()
        # slot 0 may have begun to change the number, and fenced this slot before it was taken here
        self._places.look()
        if self._places.count == self._count:
            self.own.resume(self._places.of_slot(self._task.slot), self._committed)
            self._settle()

    def _changed(self, earlier: int) -> Iterator[Notes | None]:
        """The steps of a change, in slot 0, whose own batch is ended. Between two of them, the batch of a slot is
        written, or the sink waits (None)."""
        if earlier > 1:
            self.own.note({}, count=replace(self._count, earlier=earlier))
        pending = [slot for slot in range(1, earlier) if self._ended(slot)]
        # by then, a task that was fenced in a write has published it, or asks before it does
        deadline_s = time.monotonic() + LONG_WRITE_S * bool(pending)
        while time.monotonic() < deadline_s:
            yield None
        for slot in pending:
            notes = self._fenced(slot)
            if notes.pending:
                yield notes
            notes.note({})
            notes.close()
        self.own.note({}, count=self._count)
        self._settle()

    def _ended(self, slot: int) -> bool:
        """Fences the slot. Whether a batch of it must be written again."""
        notes = self._fenced(slot)
        notes.close()
        return bool(notes.pending)

    def _fenced(self, slot: int) -> Notes:
        notes = Notes(replace(self._task, slot=slot), self._is_stopping)
        notes.fence()
        self._places.look()
        notes.resume(self._places.of_slot(slot), self._committed)
        return notes

    def _settle(self) -> None:
        self.is_settled = True
        self._places.close()


class Waiting:
    """The time that a task has waited for slot 0."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._since_s: float | None = None

    def look(self, until: str) -> None:
        """Raises SlotsError after WAIT_S."""
        now_s = time.monotonic()
        if self._since_s is None:
            self._since_s = now_s
        elif now_s - self._since_s > WAIT_S:
            task = self._task
            raise SlotsError(
                f"task {task.slot} of {task.slots} has waited {WAIT_S:.0f} s {until}: see the state of task 0"
            )


def earlier_of(found: Count | None) -> int:
    """The number of slots that may have batches which are not ended."""
    if found is None:
        return 0
    return found.slots if found.earlier is None else found.earlier


def place_of_part(task: Task, is_stopping: Callable[[], bool], write: Callable[[bytes], None]) -> dict[str, Any] | None:
    """The last committed place of a source's slot, if the class splits the source; None if it has none. `write`: writes
    the number of slots, in slot 0 of a connector without places. Raises SlotsError if the places are those of another
    number of tasks, and as `Places.look`."""
    places, waiting = Places(task, is_stopping), Waiting(task)
    try:
        places.look()
        while places.count is None and task.slot:
            waiting.look("until the task of slot 0 has begun")
            if is_stopping():
                raise StoppedError("stopped while it waited for slot 0")
            time.sleep(LOOK_S)
            places.look()
        found, place = places.count, places.of_slot(task.slot)
    finally:
        places.close()
    if found is None:
        write(Count(task.slots).to_json())
    elif found.slots != task.slots:
        raise SlotsError(
            f"{task.connector} has {task.slots} tasks and keeps the places of {found.slots}, whose parts of the source "
            f"are others: set tasks.max as it was, or stop the connector and delete its offsets"
        )
    return place
