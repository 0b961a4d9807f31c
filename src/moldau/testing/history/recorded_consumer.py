"""A confluent-kafka consumer that records its calls and otherwise behaves as usual."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from moldau.testing.history import events
from moldau.testing.history.session import Session, now_ms, offsets_of, partition_name
from moldau.testing.waiting import NotReachedError

T = TypeVar("T")
OnRebalance = Callable[[Consumer, list[TopicPartition]], None]
POLL_S = 0.2
READ_AT_ONCE = 10_000
MAX_UNANSWERED = 1_000
"""The number of asynchronous commits to remember. The outcome of older ones stays unknown."""


class RecordedConsumer(Consumer):  # type: ignore[misc]
    """Writes records to the history when they are returned, and automatic commits when the broker's response is served.

    librdkafka does not report when it sends an automatic commit, so its line comes late. The line therefore ends a
    commit only if the consumer never moves back and commits in no other way. Otherwise it would seem to overtake
    commits made in between.
    """

    def __init__(self, session: Session, settings: Mapping[str, Any], process: str) -> None:
        self._session, self._process = session, process
        self._group = str(settings["group.id"])
        self._on_commit = settings.get("on_commit")
        self._unanswered: deque[tuple[int, dict[str, int]]] = deque(maxlen=MAX_UNANSWERED)
        """Asynchronous commits, as (operation, offsets)."""
        self._is_steered = False
        """The application has committed explicitly, or has set a position."""
        super().__init__(dict(settings) | {"on_commit": self._committed_later})
        session.write(
            events.ConsumerStarts(
                process=process,
                group=self._group,
                auto_commit=str(settings.get("enable.auto.commit", True)).lower() == "true",
                isolation=str(settings.get("isolation.level", "read_committed")),
                at_ms=now_ms(),
            )
        )

    # -- where it reads

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """As in Consumer. Writes the positions to the history first."""
        self._session.write(events.Assign(process=self._process, positions=_positions(partitions), at_ms=now_ms()))
        super().assign(partitions)

    def unassign(self) -> None:
        """As in Consumer. Writes an empty assignment to the history first."""
        self._session.write(events.Assign(process=self._process, positions={}, at_ms=now_ms()))
        super().unassign()

    def incremental_assign(self, partitions: Sequence[TopicPartition]) -> None:
        """As in Consumer. Writes the added positions to the history first."""
        self._assigned(partitions)
        super().incremental_assign(partitions)

    def incremental_unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """As in Consumer. Writes the revoked partitions to the history first."""
        self._revoked(partitions)
        super().incremental_unassign(partitions)

    def seek(self, partition: TopicPartition) -> None:
        """As in Consumer. Writes the position to the history first."""
        self._is_steered = True
        self._session.write(events.Seek(process=self._process, positions=_positions([partition]), at_ms=now_ms()))
        super().seek(partition)

    def subscribe(
        self,
        topics: Sequence[str],
        on_assign: OnRebalance | None = None,
        on_revoke: OnRebalance | None = None,
        on_lost: OnRebalance | None = None,
    ) -> None:
        """As in Consumer. Writes assigned partitions to the history before `on_assign` is called, and revoked or lost
        ones after `on_revoke` or `on_lost`."""

        def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self._assigned(partitions)
            if on_assign is not None:
                on_assign(consumer, partitions)

        def taken_by(told: OnRebalance | None) -> OnRebalance:
            def taken(consumer: Consumer, partitions: list[TopicPartition]) -> None:
                if told is not None:
                    told(consumer, partitions)
                self._revoked(partitions)

            return taken

        super().subscribe(
            topics, on_assign=assigned, on_revoke=taken_by(on_revoke), on_lost=taken_by(on_lost or on_revoke)
        )

    def _assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self._session.write(events.Assigned(process=self._process, positions=_positions(partitions), at_ms=now_ms()))

    def _revoked(self, partitions: Iterable[TopicPartition]) -> None:
        names = tuple(partition_name(one.topic, one.partition) for one in partitions)
        self._session.write(events.Revoked(process=self._process, partitions=names, at_ms=now_ms()))

    # -- what it reads

    def poll(self, *timeout: float, **named: float) -> Message | None:
        """As in Consumer. Writes a record to the history before returning it."""
        message = super().poll(*timeout, **named)
        if message is not None:
            self._note([message])
        return message

    def consume(self, *how_many: Any, **named: Any) -> list[Message]:
        """As in Consumer. Writes the records to the history before returning them."""
        messages: list[Message] = super().consume(*how_many, **named)
        self._note(messages)
        return messages

    def _note(self, messages: Iterable[Message]) -> None:
        records: dict[str, list[tuple[int, str]]] = {}
        for message in messages:
            if message.error() is None:
                where = partition_name(message.topic(), message.partition())
                name = self._session.naming(message.key(), message.value())
                records.setdefault(where, []).append((message.offset(), name))
        if records:
            polled = {where: tuple(some) for where, some in records.items()}
            self._session.write(events.Poll(process=self._process, records=polled, at_ms=now_ms()))

    def read_to_end(self, ends: Sequence[TopicPartition], timeout_s: float) -> Iterator[Message]:
        """Reads all records from the beginning to `ends`. Raises NotReachedError if no record comes for `timeout_s`
        before that."""
        left = {(one.topic, one.partition): one.offset for one in ends}
        self.assign([TopicPartition(one.topic, one.partition, OFFSET_BEGINNING) for one in ends])
        deadline_s = time.monotonic() + timeout_s
        while left:
            for message in self.consume(READ_AT_ONCE, timeout=POLL_S):
                where, error = (message.topic(), message.partition()), message.error()
                if error is None:
                    deadline_s = time.monotonic() + timeout_s
                    yield message
                elif error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                elif message.offset() >= left.get(where, 0):
                    left.pop(where, None)
            if left and time.monotonic() > deadline_s:
                raise NotReachedError(f"nothing came for {timeout_s:g} s before these ends: {left}")
        self._session.write(events.EndReached(process=self._process, positions=offsets_of(ends), at_ms=now_ms()))

    # -- committed offsets

    def commit(
        self,
        message: Message | None = None,
        offsets: Sequence[TopicPartition] | None = None,
        asynchronous: bool = True,
    ) -> list[TopicPartition] | None:
        """As in Consumer. Writes the offsets to the history first, and the outcome when it is known: on return, or, if
        `asynchronous`, when the broker's response is served."""
        if message is not None:
            positions = {partition_name(message.topic(), message.partition()): message.offset() + 1}
        else:
            positions = offsets_of(self.position(self.assignment()) if offsets is None else offsets)
        known = _known(positions)
        self._is_steered = True
        operation = self._commit_begins(known)
        if asynchronous:
            self._unanswered.append((operation, known))
        chosen = {"message": message} if message is not None else {"offsets": offsets} if offsets is not None else {}
        done: list[TopicPartition] | None = self._ended(
            operation, lambda: super(RecordedConsumer, self).commit(**chosen, asynchronous=asynchronous)
        )
        if done is not None and all(one.error is None for one in done):
            committed = _known(offsets_of(done))
            if committed == known:
                self._session.write_done(self._process, operation)
            elif committed:
                # without offsets librdkafka commits its stored offsets, and none below its own earlier commit; the time
                # of that commit is unknown, so the outcome of both stays unknown
                self._commit_begins(committed)
        return done

    def committed(self, partitions: Sequence[TopicPartition], *more: Any, **named: Any) -> list[TopicPartition]:
        """As in Consumer. Writes the question to the history first, then the answer."""
        operation = self._session.next_operation()
        asked = events.AskCommitted(process=self._process, operation=operation, group=self._group, at_ms=now_ms())
        self._session.write(asked)
        found: list[TopicPartition] = self._ended(
            operation, lambda: super(RecordedConsumer, self).committed(partitions, *more, **named)
        )
        positions = offsets_of(one for one in found if one.error is None)
        self._session.write(
            events.Committed(process=self._process, operation=operation, positions=positions, at_ms=now_ms())
        )
        return found

    def consumer_group_metadata(self) -> bytes:
        """As in Consumer. The session remembers the group of the metadata for `send_offsets_to_transaction`."""
        metadata: bytes = super().consumer_group_metadata()
        self._session.groups[metadata] = self._group
        return metadata

    def _commit_begins(self, positions: dict[str, int]) -> int:
        operation = self._session.next_operation()
        self._session.write(
            events.Commit(
                process=self._process, operation=operation, group=self._group, positions=positions, at_ms=now_ms()
            )
        )
        return operation

    def _committed_later(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        """An automatic or asynchronous commit was answered."""
        done = [one for one in partitions if one.error is None and one.offset >= 0]
        operation = self._answered(_known(offsets_of(partitions)))
        if operation is not None:
            if error is not None:
                self._session.write_error(self._process, operation, error)
            elif len(done) == len(partitions):
                self._session.write_done(self._process, operation)
        elif error is None and done:
            operation = self._commit_begins(offsets_of(done))
            if not self._is_steered:
                self._session.write_done(self._process, operation)
        if self._on_commit is not None:
            self._on_commit(error, partitions)

    def _answered(self, positions: dict[str, int]) -> int | None:
        """The operation of the asynchronous commit of these offsets; None if the commit was automatic."""
        found = next((operation for operation, offsets in self._unanswered if offsets == positions), None)
        # responses come in the order of the commits
        while found is not None and self._unanswered.popleft()[0] != found:
            pass
        return found

    def _ended(self, operation: int, act: Callable[[], T]) -> T:
        try:
            return act()
        except KafkaException as error:
            self._session.write_error(self._process, operation, error.args[0])
            raise


def _known(positions: Mapping[str, int]) -> dict[str, int]:
    """The positions that are offsets, without those that are -1."""
    return {where: offset for where, offset in positions.items() if offset >= 0}


def _positions(partitions: Iterable[TopicPartition]) -> dict[str, int | None]:
    """The positions in the notation of the history: None is the committed offset, -1 the end of the log."""
    known = {OFFSET_BEGINNING: 0, OFFSET_END: -1}
    return {
        partition_name(one.topic, one.partition): known.get(one.offset, one.offset if one.offset >= 0 else None)
        for one in partitions
    }
