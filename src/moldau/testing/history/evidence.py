"""Folds the lines of a history in one pass into the input of the rules, and reports violations that a single line
proves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from moldau.testing.history import events
from moldau.testing.history.committed_offsets import Attempt, CommittedOffset, Question
from moldau.testing.history.findings import Kind, Report
from moldau.testing.history.logs import NOTHING, Outcome, PartitionLog, Sends, Topic, Transaction
from moldau.testing.history.readers import Position, Reader, Resumption


class Attempts(msgspec.Struct, frozen=True):
    """A commit of several partitions, with the committed offset that each attempt belongs to."""

    parts: tuple[tuple[CommittedOffset, Attempt], ...]

    def done(self, line: int) -> None:
        """The commit was acknowledged at `line`, for all partitions."""
        for committed, attempt in self.parts:
            committed.done(attempt, line)

    def failed(self) -> None:
        """The commit failed for certain, for all partitions."""
        for committed, attempt in self.parts:
            committed.failed(attempt)


class Ending(msgspec.Struct, frozen=True):
    """A transaction that its producer is ending, with the offsets that its commit includes."""

    transaction: Transaction
    is_commit: bool
    attempts: Attempts


class Questions(msgspec.Struct, frozen=True):
    group: str
    by_partition: dict[str, Question]


Open = int | Attempts | Ending | Questions
"""An operation without an end: a row of the sends, or one of these."""


class Process:
    """A producer and a consumer with the same name: their unfinished operations and the consumer's positions."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: dict[int, Open] = {}
        self.transactions: dict[int, int] = {}
        """The index among all transactions, by number."""
        self.offsets: dict[int, list[tuple[int, events.TransactionOffsets]]] = {}
        """The offsets added to each transaction with their lines, by number."""
        self.life, self.is_idempotent, self.is_producer = NOTHING, True, False
        self.reader = Reader(name, 0)
        self.read_since: dict[int, int] = {}
        """The line of the poll, by each transaction whose records it read since its own last transaction ended."""


class Evidence:
    """The conclusions from a history. Pass it the events in order."""

    def __init__(self) -> None:
        self.sends = Sends()
        self.topics: dict[str, Topic] = {}
        self.all_topics: list[Topic] = []
        self.recorded_topics: set[Topic] = set()
        """Topics with a recorded send."""
        self.transactions: list[Transaction] = []
        self.report = Report()
        self.reads = self.commits = 0
        self._processes: dict[str, Process] = {}
        self._committed: dict[tuple[str, str], CommittedOffset] = {}
        self._automatic_groups: set[str] = set()
        """Groups with a consumer that commits automatically, so that the history does not have all their commits."""
        self._logs: dict[str, PartitionLog] = {}
        """The log of the topic's present life, by the partition's name."""
        self._lives = 0
        self._folds: dict[type, Callable[[Process, Any, int], None]] = {
            events.ProducerStarts: self._producer_starts,
            events.ConsumerStarts: self._consumer_starts,
            events.Send: self._send,
            events.Sent: self._sent,
            events.TransactionBegins: self._transaction_begins,
            events.TransactionOffsets: self._transaction_offsets,
            events.TransactionEnds: self._transaction_ends,
            events.Commit: self._commit,
            events.AskCommitted: self._ask_committed,
            events.Committed: self._answer_committed,
            events.Done: self._done,
            events.Failed: self._failed,
            events.Unknown: self._unknown,
            events.Assign: self._assign,
            events.Assigned: self._assigned,
            events.Revoked: self._revoked,
            events.Seek: self._assigned,
            events.Poll: self._poll,
            events.EndReached: self._end_reached,
            events.Crash: self._crash,
            events.TopicCreated: self._topic_created,
            events.Fault: lambda process, event, line: None,
        }

    def fold(self, history: Iterable[events.Event]) -> None:
        """Folds all events of a history, in order. Raises KeyError for an event of an unknown kind."""
        processes, folds = self._processes, self._folds
        for line, event in enumerate(history, 1):
            process = processes.get(event.process)
            if process is None:
                process = processes[event.process] = Process(event.process)
            folds[type(event)](process, event, line)

    def logs(self) -> Iterator[PartitionLog]:
        """The partitions of every life of every topic."""
        for topic in self.all_topics:
            for _, log in sorted(topic.partitions.items()):
                yield log

    def transaction_of(self, row: int) -> Transaction | None:
        """The transaction that the send in this row of `sends` belongs to; None outside transactions."""
        index = self.sends.transactions[row]
        return None if index == NOTHING else self.transactions[index]

    def prove_transactions(self) -> None:
        """Marks a transaction of unknown outcome as committed if a read_committed consumer read one of its records."""
        for log in self.logs() if self.transactions else ():
            for slot in log.slots():
                transaction = self.transaction_of(self.sends.writer(slot.send, log.partition, slot.offset))
                if transaction is not None:
                    transaction.see(slot.committed_line)

    # -- lives

    def _producer_starts(self, process: Process, event: events.ProducerStarts, line: int) -> None:
        self._lives += 1
        process.life, process.is_idempotent, process.is_producer = self._lives, event.idempotent, True
        process.transactions, process.offsets, process.read_since = {}, {}, {}

    def _consumer_starts(self, process: Process, event: events.ConsumerStarts, line: int) -> None:
        is_committed = event.isolation == "read_committed"
        process.reader = Reader(
            process.name, line, group=event.group, is_committed=is_committed, commits=event.auto_commit
        )
        if event.auto_commit and event.group is not None:
            self._automatic_groups.add(event.group)

    def _crash(self, process: Process, event: events.Crash, line: int) -> None:
        process.open.clear()
        process.reader.positions.clear()
        process.read_since = {}

    def _topic_created(self, process: Process, event: events.TopicCreated, line: int) -> None:
        self.topics[event.topic] = Topic(event.topic, self.topics.get(event.topic))
        self.all_topics.append(self.topics[event.topic])
        self._logs = {where: log for where, log in self._logs.items() if log.topic.name != event.topic}
        self._committed = {
            key: committed for key, committed in self._committed.items() if key[1].rpartition("-")[0] != event.topic
        }

    def _topic(self, name: str) -> Topic:
        topic = self.topics.get(name)
        if topic is None:
            topic = self.topics[name] = Topic(name)
            self.all_topics.append(topic)
        return topic

    def _log(self, where: str) -> PartitionLog:
        log = self._logs.get(where)
        if log is None:
            name, _, partition = where.rpartition("-")
            log = self._logs[where] = self._topic(name).log(int(partition))
        return log

    # -- writing

    def _send(self, process: Process, event: events.Send, line: int) -> None:
        if process.life == NOTHING:
            self._lives += 1
            process.life = self._lives
        topic, sends = self._topic(event.topic), self.sends
        row = sends.add(topic, event.record, line)
        process.is_producer = True
        self.recorded_topics.add(topic)
        sends.lives[row], sends.idempotent[row] = process.life, process.is_idempotent
        sends.tombstones[row] = event.tombstone
        if event.key is not None:
            sends.keys[row] = topic.key_number(event.key)
        if event.transaction is not None:
            sends.transactions[row] = self._transaction(process, event.transaction, line)
        process.open[event.operation] = row

    def _sent(self, process: Process, event: events.Sent, line: int) -> None:
        row = process.open.pop(event.operation, None)
        if not isinstance(row, int):
            return
        sends = self.sends
        topic, offset = sends.topics[row], event.offset
        log = topic.log(event.partition)
        sends.outcomes[row] = Outcome.DONE
        sends.ends[row], sends.partitions[row], sends.offsets[row] = line, event.partition, offset
        if offset < 0:
            return  # the offset is unknown; with acks=0 even whether it was written
        first = topic.names[sends.names[row]]
        if self._stand(log, offset, first, line):
            highest = log.highest_acknowledged(sends.begins[row])
            if offset < highest:
                sentence = f"{sends.names[row]} was acknowledged at {log} offset {offset}, "
                sentence += f"but {highest} had been acknowledged before it was sent"
                self.report.add(Kind.REORDERING, sentence, sends.begins[row], line)
                sends.lives[row] = NOTHING
        log.acknowledged(offset, line)

    def _stand(self, log: PartitionLog, offset: int, first: int, line: int) -> bool:
        """`line` proves that the record is at `offset`. Returns whether no other record is known there."""
        column = log.chunk(offset)[0]
        index = offset & len(column) - 1
        there = column[index]
        if there == first:
            return True
        if there != NOTHING:
            names = self.sends.names
            sentence = f"{names[there]} and {names[first]} are both at {log} offset {offset}"
            told = self._told(log, offset, there)
            self.report.add(Kind.INCONSISTENT_OFFSET, sentence, told, line, offset=offset)
            return False
        column[index] = first
        self.sends.places[first] += 1
        if self.sends.offsets[first] == NOTHING:
            self.sends.partitions[first], self.sends.offsets[first] = log.partition, offset
        return True

    def _told(self, log: PartitionLog, offset: int, first: int) -> int:
        """The first line that proves that the record is at that offset; 0 if unknown."""
        _, committed, raw = log.chunk(offset)
        index = offset & len(raw) - 1
        acknowledged = [
            self.sends.ends[row]
            for row in self.sends.all_of(first)
            if (self.sends.partitions[row], self.sends.offsets[row]) == (log.partition, offset)
        ]
        return min((one for one in (*acknowledged, committed[index], raw[index]) if one), default=0)

    # -- transactions

    def _transaction(self, process: Process, number: int, line: int) -> int:
        index = process.transactions.get(number)
        if index is None:
            index = process.transactions[number] = len(self.transactions)
            self.transactions.append(Transaction(process.name, number, line))
        return index

    def _transaction_begins(self, process: Process, event: events.TransactionBegins, line: int) -> None:
        self._transaction(process, event.transaction, line)

    def _transaction_offsets(self, process: Process, event: events.TransactionOffsets, line: int) -> None:
        process.offsets.setdefault(event.transaction, []).append((line, event))

    def _transaction_ends(self, process: Process, event: events.TransactionEnds, line: int) -> None:
        transaction = self.transactions[self._transaction(process, event.transaction, line)]
        transaction.begin_end(line, process.read_since, is_commit=event.commit)
        process.read_since = {}
        parts: list[tuple[CommittedOffset, Attempt]] = []
        if event.commit:
            for added, offsets in process.offsets.pop(event.transaction, []):
                parts += self._attempt(offsets.group, offsets.positions, added).parts
        process.open[event.operation] = Ending(transaction, event.commit, Attempts(tuple(parts)))

    # -- committed offsets

    def _committed_offset(self, group: str, where: str) -> CommittedOffset:
        return self._committed.setdefault((group, where), CommittedOffset())

    def _attempt(self, group: str, positions: dict[str, int], line: int) -> Attempts:
        self.commits += 1
        parts = []
        for where, offset in positions.items():
            committed = self._committed_offset(group, where)
            parts.append((committed, committed.begin(offset, line)))
        return Attempts(tuple(parts))

    def _commit(self, process: Process, event: events.Commit, line: int) -> None:
        process.open[event.operation] = self._attempt(event.group, event.positions, line)

    def _ask_committed(self, process: Process, event: events.AskCommitted, line: int) -> None:
        asked = {
            where: committed.ask(line) for (group, where), committed in self._committed.items() if group == event.group
        }
        process.open[event.operation] = Questions(event.group, asked)

    def _answer_committed(self, process: Process, event: events.Committed, line: int) -> None:
        questions = process.open.pop(event.operation, None)
        if not isinstance(questions, Questions):
            return
        for where, question in questions.by_partition.items():
            committed = self._committed_offset(questions.group, where)
            offset = event.positions.get(where)
            if offset is None:
                committed.drop()
                continue
            are_all_known = questions.group not in self._automatic_groups
            overtaken = committed.answer(question, offset, are_all_known=are_all_known)
            if overtaken is not None:
                sentence = (
                    f"group {questions.group} has {offset} committed for {where}, but committed {overtaken.offset}"
                )
                lines = overtaken.begin, overtaken.end, question.line, line
                self.report.add(Kind.COMMITTED_OFFSET_BACK, sentence, *lines)

    # -- ends of operations

    def _done(self, process: Process, event: events.Done, line: int) -> None:
        match process.open.pop(event.operation, None):
            case Attempts() as attempts:
                attempts.done(line)
            case Ending(transaction=transaction, is_commit=is_commit, attempts=attempts):
                transaction.end(line, is_commit=is_commit)
                attempts.done(line)
            case _:
                return

    def _failed(self, process: Process, event: events.Failed, line: int) -> None:
        match process.open.pop(event.operation, None):
            case int() as row:
                self.sends.outcomes[row], self.sends.ends[row] = Outcome.FAILED, line
            case Attempts() as attempts:
                attempts.failed()
            case Ending(transaction=transaction, is_commit=True, attempts=attempts):
                transaction.refuse_commit()
                attempts.failed()
            case _:
                return

    def _unknown(self, process: Process, event: events.Unknown, line: int) -> None:
        process.open.pop(event.operation, None)

    # -- reading

    def _assign(self, process: Process, event: events.Assign, line: int) -> None:
        process.reader.positions.clear()
        self._assigned(process, event, line)

    def _assigned(self, process: Process, event: events.Assign | events.Assigned | events.Seek, line: int) -> None:
        reader = process.reader
        for where, offset in event.positions.items():
            is_known = offset is not None and offset >= 0
            resumption = None
            if offset is None and reader.group is not None:
                committed = self._committed_offset(reader.group, where)
                resumption = Resumption(committed, committed.ask(line))
            reader.place(where, self._log(where), offset if is_known else None, line, resumption)

    def _revoked(self, process: Process, event: events.Revoked, line: int) -> None:
        for where in event.partitions:
            position = process.reader.positions.pop(where, None)
            if position is not None and position.resumption is not None:
                position.resumption.committed.drop()

    def _poll(self, process: Process, event: events.Poll, line: int) -> None:
        reader, sends = process.reader, self.sends
        for where, records in event.records.items():
            log = self._log(where)
            position = reader.positions.get(where)
            for offset, name in records:
                first = log.topic.names.get(name)
                if first is None or position is None or position.log is not log:
                    log, position, first = self._find(reader, where, name, line)
                reader.read(position, offset, name, line, self.report)
                if self._stand(log, offset, first, line):
                    sends.seen[first] = 1
                column = log.chunk(offset)[1 if reader.is_committed else 2]
                index = offset & len(column) - 1
                column[index] = column[index] or line
                if process.is_producer and reader.is_committed:
                    transaction = sends.transactions[sends.writer(first, log.partition, offset)]
                    if transaction != NOTHING:
                        process.read_since.setdefault(transaction, line)
            self.reads += len(records)
            if reader.commits and reader.group is not None and records:
                self._committed_offset(reader.group, where).may_begin(records[-1][0] + 1, line)

    def _find(self, reader: Reader, where: str, name: str, line: int) -> tuple[PartitionLog, Position, int]:
        """The log, the reader's position and the first send of a record. Adds a send for a record without one, and a
        position for a reader without one."""
        log = self._log(where)
        topic = log.topic.of(name)
        if topic is None:
            topic = log.topic
            self.sends.add(topic, name, line, Outcome.FOREIGN)
        log = topic.log(log.partition)
        position = reader.positions.get(where)
        if position is None or position.log is not log:
            position = reader.place(where, log, None, line)
        return log, position, topic.names[name]

    def _end_reached(self, process: Process, event: events.EndReached, line: int) -> None:
        for where, offset in event.positions.items():
            log = self._log(where)
            position = process.reader.positions.get(where)
            if position is None or position.log is not log:
                position = process.reader.place(where, log, None, line)
            process.reader.end_reached(position, offset, line)
