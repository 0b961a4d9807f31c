"""Random executions of a correct cluster, as histories; and ways to break one of its guarantees."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import combinations

import msgspec

from moldau.testing.history import Event, Kind
from moldau.testing.history import events as ev

TOPIC, GROUP, JUDGE = "orders", "g", "judge"
PARTITIONS = 2
STEPS = 60
Records = dict[str, tuple[tuple[int, str], ...]]


class Written(msgspec.Struct):
    """One offset of a log; a marker has no name. `is_committed` None: its transaction is open."""

    name: str | None
    is_committed: bool | None = True


class World:
    """A cluster, two plain and two transactional producers, two members of a group, and a reader of everything at the
    end."""

    def __init__(self, seed: int) -> None:
        self.choices = random.Random(seed)
        self.logs: dict[str, list[Written]] = {f"{TOPIC}-{partition}": [] for partition in range(PARTITIONS)}
        self.events: list[Event] = []
        self.operations = 0
        self.committed = dict.fromkeys(self.logs, 0)
        self.positions: dict[str, dict[str, int]] = {"c1": {}, "c2": {}}
        self.transactions = {"t1": 0, "t2": 0}
        for member in self.positions:
            self.tell(ev.ConsumerStarts(process=member, group=GROUP))
        for member, where in zip(self.positions, self.logs, strict=True):
            self.join(member, where)
        steps = [
            self.send_some,
            self.send_some,
            self.run_transaction,
            self.poll,
            self.poll,
            self.commit,
            self.rebalance,
        ]
        for _ in range(STEPS):
            self.choices.choice(steps)()
        self.read_all()

    def tell(self, event: Event) -> None:
        self.events.append(event)

    def next_operation(self) -> int:
        self.operations += 1
        return self.operations

    # -- writing

    def begin_send(self, process: str, where: str, transaction: int | None) -> tuple[int, str]:
        operation = self.next_operation()
        name = f"{process}.{operation}"
        partition = int(where[-1])
        self.tell(
            ev.Send(
                process=process,
                operation=operation,
                topic=TOPIC,
                record=name,
                partition=partition,
                transaction=transaction,
            )
        )
        return operation, name

    def end_send(self, process: str, where: str, operation: int, offset: int | None, *, is_told: bool) -> None:
        """`offset` None: it is not stored."""
        if is_told and offset is not None:
            self.tell(ev.Sent(process=process, operation=operation, partition=int(where[-1]), offset=offset))
        elif is_told:
            self.tell(ev.Failed(process=process, operation=operation))
        elif self.choices.random() < 0.5:
            self.tell(ev.Unknown(process=process, operation=operation))

    def append(self, where: str, name: str | None, is_committed: bool | None = True) -> int:
        self.logs[where].append(Written(name, is_committed))
        return len(self.logs[where]) - 1

    def send_some(self) -> None:
        """Several sends at once; their responses come in order or not."""
        process, where = self.choices.choice(("p1", "p2")), self.choices.choice(list(self.logs))
        begun = [self.begin_send(process, where, None) for _ in range(self.choices.randrange(1, 5))]
        written = [
            (operation, self.append(where, name) if self.choices.random() < 0.9 else None) for operation, name in begun
        ]
        self.choices.shuffle(written)
        for operation, offset in written:
            self.end_send(process, where, operation, offset, is_told=self.choices.random() < 0.8)

    def run_transaction(self) -> None:
        """With reads by others in the middle, which end below its first record."""
        process = self.choices.choice(list(self.transactions))
        self.transactions[process] += 1
        number = self.transactions[process]
        self.tell(ev.TransactionBegins(process=process, transaction=number))
        own: dict[str, list[int]] = {}
        for _ in range(self.choices.randrange(1, 5)):
            where = self.choices.choice(list(self.logs))
            operation, name = self.begin_send(process, where, number)
            own.setdefault(where, []).append(self.append(where, name, None))
            self.end_send(process, where, operation, own[where][-1], is_told=True)
            self.poll()
        is_commit, is_told = self.choices.random() < 0.7, self.choices.random() < 0.8
        operation = self.next_operation()
        self.tell(ev.TransactionEnds(process=process, operation=operation, transaction=number, commit=is_commit))
        is_done = is_commit and (is_told or self.choices.random() < 0.5)
        for where, offsets in own.items():
            for offset in offsets:
                self.logs[where][offset].is_committed = is_done
            self.append(where, None)
        if is_told:
            self.tell(ev.Done(process=process, operation=operation))

    # -- reading

    def readable(self, where: str, start: int) -> list[tuple[int, str]]:
        found = []
        for offset, one in enumerate(self.logs[where][start:], start):
            if one.is_committed is None:
                break
            if one.is_committed and one.name is not None:
                found.append((offset, one.name))
        return found

    def poll(self) -> None:
        member = self.choices.choice(list(self.positions))
        records: Records = {}
        for where, position in self.positions[member].items():
            some = self.readable(where, position)[: self.choices.randrange(1, 6)]
            if some:
                records[where] = tuple(some)
                self.positions[member][where] = some[-1][0] + 1
        if records:
            self.tell(ev.Poll(process=member, records=records))

    def commit(self) -> None:
        member = self.choices.choice(list(self.positions))
        positions = dict(self.positions[member])
        operation = self.next_operation()
        if positions:
            self.tell(ev.Commit(process=member, operation=operation, group=GROUP, positions=positions))
            is_told = self.choices.random() < 0.8
            if is_told or self.choices.random() < 0.5:
                self.committed |= positions
            self.tell((ev.Done if is_told else ev.Unknown)(process=member, operation=operation))

    def join(self, member: str, where: str) -> None:
        self.tell(ev.Assigned(process=member, positions={where: None}))
        self.positions[member][where] = self.committed[where]

    def rebalance(self) -> None:
        """All partitions change members, or a member is killed and comes back."""
        members = list(self.positions)
        if self.choices.random() < 0.5:
            member = self.choices.choice(members)
            owned = list(self.positions[member])
            self.tell(ev.Crash(process=member))
            self.tell(ev.ConsumerStarts(process=member, group=GROUP))
            self.positions[member] = {}
        else:
            member, owned = members[0], list(self.logs)
            for one in members:
                self.tell(ev.Revoked(process=one, partitions=tuple(self.positions[one])))
                self.positions[one] = {}
        for where in owned:
            self.join(member, where)

    def read_all(self) -> None:
        self.tell(ev.ConsumerStarts(process=JUDGE))
        self.tell(ev.Assign(process=JUDGE, positions=dict.fromkeys(self.logs, 0)))
        self.tell(ev.Poll(process=JUDGE, records={where: tuple(self.readable(where, 0)) for where in self.logs}))
        self.tell(ev.EndReached(process=JUDGE, positions={where: len(log) for where, log in self.logs.items()}))


# -- breaking a guarantee: each gives the broken history, or None if this history has nothing to break


def _last_poll(history: list[Event]) -> tuple[int, Records]:
    """The position of the last reader's poll, and its records."""
    poll = history[-2]
    assert isinstance(poll, ev.Poll)
    return len(history) - 2, dict(poll.records)


def _sends(history: list[Event]) -> dict[tuple[str, int], ev.Send]:
    return {(one.process, one.operation): one for one in history if isinstance(one, ev.Send)}


def _with_last_poll(history: list[Event], records: Records) -> list[Event]:
    index, _ = _last_poll(history)
    return [*history[:index], ev.Poll(process=JUDGE, records=records), history[-1]]


def _without(history: list[Event], where: str, name: str) -> list[Event]:
    """Removes this record from all reads."""

    def cleaned(event: Event) -> Event:
        if not isinstance(event, ev.Poll):
            return event
        records = {
            place: tuple(one for one in some if place != where or one[1] != name)
            for place, some in event.records.items()
        }
        return msgspec.structs.replace(event, records={place: some for place, some in records.items() if some})

    return [cleaned(event) for event in history]


def _committed(history: list[Event]) -> set[tuple[str, int | None]]:
    """The transactions whose commit was acknowledged, by process and number."""
    ends = {(one.process, one.operation): one for one in history if isinstance(one, ev.TransactionEnds) and one.commit}
    done = [ends[key] for one in history if isinstance(one, ev.Done) and (key := (one.process, one.operation)) in ends]
    return {(end.process, end.transaction) for end in done}


def lose(history: list[Event], choices: random.Random) -> list[Event] | None:
    sends, committed, (_, records) = _sends(history), _committed(history), _last_poll(history)
    sent = [sends[one.process, one.operation] for one in history if isinstance(one, ev.Sent)]
    promised = {one.record for one in sent if one.transaction is None or (one.process, one.transaction) in committed}
    there = [(where, name) for where, some in records.items() for _, name in some if name in promised]
    return _without(history, *choices.choice(there)) if there else None


def double(history: list[Event], choices: random.Random) -> list[Event] | None:
    _, records = _last_poll(history)
    where = choices.choice(list(records))
    if not records[where]:
        return None
    end = history[-1]
    assert isinstance(end, ev.EndReached)
    again = (end.positions[where], choices.choice(records[where])[1])
    broken = _with_last_poll(history, records | {where: (*records[where], again)})
    return [*broken[:-1], ev.EndReached(process=JUDGE, positions=end.positions | {where: again[0] + 1})]


def swap(history: list[Event], choices: random.Random) -> list[Event] | None:
    """Two concurrent sends of one producer change places, for all readers."""
    sends = _sends(history)
    by_way: dict[tuple[str, int], list[ev.Sent]] = {}
    for event in history:
        if isinstance(event, ev.Sent) and sends[event.process, event.operation].transaction is None:
            by_way.setdefault((event.process, event.partition), []).append(event)
    begins = {(one.process, one.operation): line for line, one in enumerate(history) if isinstance(one, ev.Send)}
    lines = {(one.process, one.operation): line for line, one in enumerate(history) if isinstance(one, ev.Sent)}
    pairs = [
        (one, other)
        for some in by_way.values()
        for one, other in combinations(some, 2)
        if begins[other.process, other.operation] < lines[one.process, one.operation]
    ]
    if not pairs:
        return None
    one, other = choices.choice(pairs)
    names = {sends[each.process, each.operation].record: each for each in (one, other)}
    swapped = {one.offset: other.offset, other.offset: one.offset}
    where = f"{TOPIC}-{one.partition}"

    def moved(event: Event) -> Event:
        if event is one or event is other:
            assert isinstance(event, ev.Sent)
            return msgspec.structs.replace(event, offset=swapped[event.offset])
        if isinstance(event, ev.Poll) and where in event.records:
            by_offset = {each.offset: name for name, each in names.items()}
            some = tuple(
                (offset, by_offset[swapped[offset]] if offset in swapped else name)
                for offset, name in event.records[where]
            )
            return msgspec.structs.replace(event, records=event.records | {where: some})
        return event

    return [moved(event) for event in history]


def disagree(history: list[Event], choices: random.Random) -> list[Event] | None:
    _, records = _last_poll(history)
    told = {(f"{TOPIC}-{one.partition}", one.offset) for one in history if isinstance(one, ev.Sent)}
    there = [(where, index) for where, some in records.items() for index, one in enumerate(some)]
    there = [(where, index) for where, index in there if (where, records[where][index][0]) in told]
    if not there:
        return None
    where, index = choices.choice(there)
    some = list(records[where])
    some[index] = some[index][0], "torn"
    return _with_last_poll(history, records | {where: tuple(some)})


def read_aborted(history: list[Event], choices: random.Random) -> list[Event] | None:
    sends, (_, records) = _sends(history), _last_poll(history)
    ends = {(one.process, one.operation): one for one in history if isinstance(one, ev.TransactionEnds)}
    aborted = {
        (end.process, end.transaction)
        for one in history
        if isinstance(one, ev.Done) and (end := ends.get((one.process, one.operation))) is not None and not end.commit
    }
    there = [
        (one.partition, one.offset, send.record)
        for one in history
        if isinstance(one, ev.Sent)
        and ((send := sends[one.process, one.operation]).process, send.transaction) in aborted
    ]
    if not there:
        return None
    partition, offset, name = choices.choice(there)
    where = f"{TOPIC}-{partition}"
    return _with_last_poll(history, records | {where: tuple(sorted([*records[where], (offset, name)]))})


def read_early(history: list[Event], choices: random.Random) -> list[Event] | None:
    """A commit begins only after its records were read."""
    sends, (_, records) = _sends(history), _last_poll(history)
    read = {name for some in records.values() for _, name in some}
    seen = {(one.process, one.transaction) for one in sends.values() if one.record in read}
    ends = [
        one
        for one in history
        if isinstance(one, ev.TransactionEnds) and one.commit and (one.process, one.transaction) in seen
    ]
    if not ends:
        return None
    late = choices.choice(ends)
    moved = [
        one
        for one in history
        if one is late or (isinstance(one, ev.Done) and (one.process, one.operation) == (late.process, late.operation))
    ]
    return [*(one for one in history if not any(one is other for other in moved)), *moved]


def invent(history: list[Event], choices: random.Random) -> list[Event] | None:
    _, records = _last_poll(history)
    end = history[-1]
    assert isinstance(end, ev.EndReached)
    where = choices.choice(list(records))
    broken = _with_last_poll(history, records | {where: (*records[where], (end.positions[where], "phantom"))})
    return broken if _sends(history) else None


def skip(history: list[Event], choices: random.Random) -> list[Event] | None:
    """A second reader of everything skips one record."""
    _, records = _last_poll(history)
    there = [(where, index) for where, some in records.items() for index in range(len(some))]
    if not there:
        return None
    where, index = choices.choice(there)
    fewer = records | {where: records[where][:index] + records[where][index + 1 :]}
    end = history[-1]
    assert isinstance(end, ev.EndReached)
    return [
        *history,
        ev.ConsumerStarts(process="late"),
        ev.Assign(process="late", positions=dict.fromkeys(records, 0)),
        ev.Poll(process="late", records=fewer),
        ev.EndReached(process="late", positions=end.positions),
    ]


def go_back(history: list[Event], choices: random.Random) -> list[Event] | None:
    polls = [index for index, one in enumerate(history) if isinstance(one, ev.Poll) and any(one.records.values())]
    if not polls:
        return None
    index = choices.choice(polls)
    return [*history[: index + 1], *history[index:]]


def forget_offset(history: list[Event], choices: random.Random) -> list[Event] | None:
    commits = {(one.process, one.operation): one for one in history if isinstance(one, ev.Commit)}
    done = [
        commits[key] for one in history if isinstance(one, ev.Done) and (key := (one.process, one.operation)) in commits
    ]
    known = [(where, offset) for one in done for where, offset in one.positions.items() if offset > 0]
    if not known:
        return None
    where, _ = choices.choice(known)
    ask = ev.AskCommitted(process="admin", operation=1, group=GROUP)
    return [*history, ask, ev.Committed(process="admin", operation=1, positions={where: -1})]


def read_in_a_circle(history: list[Event], choices: random.Random) -> list[Event] | None:
    """Two more transactions, each of which reads the other one's records."""
    ends = history[-1]
    assert isinstance(ends, ev.EndReached)
    where = choices.choice(list(ends.positions))
    partition, end = int(where[-1]), ends.positions[where]
    told: list[Event] = []
    for number, process in enumerate(("x", "y")):
        send = ev.Send(process=process, operation=1, topic=TOPIC, record=process, partition=partition, transaction=1)
        told += [send, ev.Sent(process=process, operation=1, partition=partition, offset=end + number)]
    told += [
        ev.Poll(process="x", records={where: ((end + 1, "y"),)}),
        ev.Poll(process="y", records={where: ((end, "x"),)}),
    ]
    for process in ("x", "y"):
        told.append(ev.TransactionEnds(process=process, operation=2, transaction=1, commit=True))
        told.append(ev.Done(process=process, operation=2))
    return [*history, *told]


BREAKS: dict[Kind, Callable[[list[Event], random.Random], list[Event] | None]] = {
    Kind.LOST_WRITE: lose,
    Kind.DUPLICATE: double,
    Kind.REORDERING: swap,
    Kind.INCONSISTENT_OFFSET: disagree,
    Kind.ABORTED_READ: read_aborted,
    Kind.PRECOMMITTED_READ: read_early,
    Kind.UNSENT_READ: invent,
    Kind.SKIPPED_POLL: skip,
    Kind.NON_MONOTONIC_POLL: go_back,
    Kind.COMMITTED_OFFSET_BACK: forget_offset,
    Kind.CIRCULAR_FLOW: read_in_a_circle,
}
