"""Histories written as stories: each line of text is an action of one process.

    == a title
    finds: lost write                      (or: fine)
    p send orders-0 a -> 0                 acknowledged at offset 0; `-> failed`, `-> unknown`
    p send orders-0 b as x                 begun; `p x -> 1` ends it later
    p begin, p commit -> done, p abort -> done, p offsets group orders-0@3
    c consumer group g, c consumer group g commits, c consumer read_uncommitted, p producer not idempotent
    c assign orders-0@0 orders-1@?, c assigned orders-0, c revoked orders-0, c seek orders-0@2
    c poll orders-0 0:a 1:b orders-1 0:c
    c commits group orders-0@2 -> done, c asks group -> orders-0@2
    c end orders-0@2, p crash, admin creates orders, fault kill -9 of broker 1

`compacted: topic`, `copy: source target` and `writes are isolated` may come before the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from moldau.testing.history import Copy, Event, Verdict, judge
from moldau.testing.history import events as ev

NO_FINDING = "fine"


class Story(msgspec.Struct, frozen=True):
    """`finds`: the one kind of finding, or `fine`."""

    title: str
    finds: str
    events: tuple[Event, ...]
    compacted: tuple[str, ...]
    copies: tuple[Copy, ...]
    are_writes_isolated: bool

    def judged(self) -> Verdict:
        return judge(
            self.events,
            compacted=self.compacted,
            copies=self.copies,
            are_writes_isolated=self.are_writes_isolated,
        )


def stories(path: Path) -> Iterator[Story]:
    for block in path.read_text().split("\n== ")[1:]:
        title, *lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        told = Teller()
        for line in lines:
            told.line(line)
        yield Story(
            title, told.finds, tuple(told.events), tuple(told.compacted), tuple(told.copies), told.are_writes_isolated
        )


class Teller:
    """Makes events from the lines of one story."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.finds, self.are_writes_isolated = "", False
        self.compacted: list[str] = []
        self.copies: list[Copy] = []
        self.transactions: dict[str, int] = {}
        self.open: dict[tuple[str, str], tuple[int, int]] = {}
        """By process and label: operation and partition of begun sends."""
        self.operations = 0

    def line(self, line: str) -> None:
        if line == NO_FINDING:
            self.finds = NO_FINDING
        elif line.startswith("finds: "):
            self.finds = line.removeprefix("finds: ")
        elif line.startswith("compacted: "):
            self.compacted.append(line.removeprefix("compacted: "))
        elif line.startswith("copy: "):
            self.copies.append(Copy(*line.removeprefix("copy: ").split()))
        elif line == "writes are isolated":
            self.are_writes_isolated = True
        elif line.startswith("fault "):
            self.events.append(ev.Fault(process="operator", text=line.removeprefix("fault ")))
        else:
            self._step(*line.partition(" -> ")[::2])

    def _step(self, words: str, outcome: str) -> None:
        process, verb, *rest = words.split()
        if (process, verb) in self.open:
            self._end(process, *self.open[process, verb], outcome)
            return
        label = rest.pop() if rest[-2:-1] == ["as"] else ""
        if label:
            rest.pop()
        tell: dict[str, Callable[[str, list[str]], Event]] = {
            "producer": lambda who, said: ev.ProducerStarts(process=who, idempotent=not said),
            "consumer": self._consumer,
            "begin": self._begin,
            "offsets": lambda who, said: ev.TransactionOffsets(
                process=who, transaction=self.transactions[who], group=said[0], positions=_offsets(said[1:])
            ),
            "assign": lambda who, said: ev.Assign(process=who, positions=_positions(said)),
            "assigned": lambda who, said: ev.Assigned(process=who, positions=_positions(said)),
            "revoked": lambda who, said: ev.Revoked(process=who, partitions=tuple(said)),
            "seek": lambda who, said: ev.Seek(process=who, positions=_positions(said)),
            "poll": lambda who, said: ev.Poll(process=who, records=_records(said)),
            "end": lambda who, said: ev.EndReached(process=who, positions=_offsets(said)),
            "crash": lambda who, said: ev.Crash(process=who),
            "creates": lambda who, said: ev.TopicCreated(process=who, topic=said[0]),
        }
        if verb in tell:
            assert not outcome, f"{verb} has no outcome"
            self.events.append(tell[verb](process, rest))
            return
        self.operations += 1
        begin, partition = self._operation(process, verb, rest)
        self.events.append(begin)
        if label:
            self.open[process, label] = self.operations, partition
        elif outcome:
            self._end(process, self.operations, partition, outcome)

    def _consumer(self, process: str, said: list[str]) -> Event:
        group = said[said.index("group") + 1] if "group" in said else None
        is_raw = "read_uncommitted" in said
        return ev.ConsumerStarts(
            process=process,
            group=group,
            auto_commit="commits" in said,
            isolation="read_uncommitted" if is_raw else "read_committed",
        )

    def _begin(self, process: str, said: list[str]) -> Event:
        self.transactions[process] = abs(self.transactions.get(process, 0)) + 1
        return ev.TransactionBegins(process=process, transaction=self.transactions[process])

    def _operation(self, process: str, verb: str, said: list[str]) -> tuple[Event, int]:
        transaction = self.transactions.get(process)
        if verb == "send":
            topic, _, partition = said[0].rpartition("-")
            key = said[said.index("key") + 1] if "key" in said else None
            is_open = transaction is not None and transaction > 0
            send = ev.Send(
                process=process,
                operation=self.operations,
                topic=topic,
                record=said[1],
                key=key,
                partition=int(partition),
                transaction=transaction if is_open else None,
                tombstone="tombstone" in said,
            )
            return send, int(partition)
        if verb in ("commit", "abort"):
            assert transaction is not None
            self.transactions[process] = -transaction if verb == "abort" else transaction
            is_commit = verb == "commit"
            ending = ev.TransactionEnds(
                process=process, operation=self.operations, transaction=transaction, commit=is_commit
            )
            return ending, -1
        if verb == "commits":
            positions = _offsets(said[1:])
            return ev.Commit(process=process, operation=self.operations, group=said[0], positions=positions), -1
        assert verb == "asks", f"no step is called {verb}"
        return ev.AskCommitted(process=process, operation=self.operations, group=said[0]), -1

    def _end(self, process: str, operation: int, partition: int, outcome: str) -> None:
        end: Event
        if outcome == "done":
            end = ev.Done(process=process, operation=operation)
        elif outcome == "failed":
            end = ev.Failed(process=process, operation=operation)
        elif outcome == "unknown":
            end = ev.Unknown(process=process, operation=operation)
        elif "@" in outcome:
            end = ev.Committed(process=process, operation=operation, positions=_offsets(outcome.split()))
        else:
            end = ev.Sent(process=process, operation=operation, partition=partition, offset=int(outcome))
        self.events.append(end)


def _positions(words: list[str]) -> dict[str, int | None]:
    pairs = [word.partition("@") for word in words]
    return {where: int(offset) if offset not in ("", "?") else None for where, _, offset in pairs}


def _offsets(words: list[str]) -> dict[str, int]:
    return {where: int(offset) for where, _, offset in (word.partition("@") for word in words)}


def _records(words: list[str]) -> dict[str, tuple[tuple[int, str], ...]]:
    records: dict[str, tuple[tuple[int, str], ...]] = {}
    where = ""
    for word in words:
        offset, colon, name = word.partition(":")
        if colon:
            records[where] = (*records[where], (int(offset), name))
        else:
            where = word
            records[where] = ()
    return records
