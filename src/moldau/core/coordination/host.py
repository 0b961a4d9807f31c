"""Runs one machine over one log: keeps the replies of a decision until its records are committed.

`shell/coordination/runtime.py` drives it, one decision at a time:

    replies = host.take(request_id, decision, now)         of a request, or of the timer that host.due(steady_ms) gives
    if they are None: append it as one batch, then host.applying(last_offset) or host.append_failed(error)
    send the replies, and what host.committed(end_offset) releases each time the high watermark moves

Records are applied as soon as they are appended, so the next decision sees them. A decision without records may depend
on records that are not committed yet. Its replies wait for those too (as in Kafka's CoordinatorRuntime). If the append
fails or the shard stops, an error replaces the response.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Generic

import msgspec

from moldau.core.coordination.machine import (
    NO_REQUEST_ID,
    Decision,
    Machine,
    Now,
    Record,
    Request,
    Response,
    State,
    Timer,
)
from moldau.errors import InvariantError, KafkaError, MoldauError, invariant, kafka_error
from moldau.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Offset,
    Pausing,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    whole,
)
from moldau.wire.records.control import EndTransactionMarker

TIMER_RETRY_MS = 500
"""If the records of a timer cannot be appended, its request is decided again after this time (as in
CoordinatorRuntime)."""


class LoadedRecord(msgspec.Struct, Generic[Record], frozen=True):
    """One decoded record of the log, with its offset."""

    offset: Offset
    record: Record
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


class LoadedTransactionEnd(msgspec.Struct, frozen=True):
    """One end-transaction marker of the log."""

    offset: Offset
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool


class _Parked(msgspec.Struct, Generic[Response], frozen=True):
    end_offset: int
    replies: tuple[tuple[int, Response], ...]


class CoordinatorHost(Generic[State, Request, Response, Record]):
    """One shard. Synchronous, for one thread. `state` may be read between calls, but not changed."""

    def __init__(
        self,
        machine: Machine[State, Request, Response, Record],
        topic_partition: TopicPartition,
        *,
        end_offset: int = 0,
        state: State | None = None,
    ) -> None:
        """`state`: from a snapshot up to `end_offset`. Default: the state of an empty log."""
        self.machine = machine
        self.topic_partition = topic_partition
        self.state: State = machine.new_state() if state is None else state
        self.stopped: str | None = None
        """The reason why this shard is stopped, with the address of the record; None while it runs."""
        self.end_offset = end_offset
        """The offset after the last applied record."""
        self.committed_offset = end_offset
        self._pending: Decision[Request, Response, Record] | None = None
        self._pending_request_id = NO_REQUEST_ID
        self._pending_timer: Timer[Request] | None = None
        self._retry_ms = 0
        self._parked: deque[_Parked[Response]] = deque()
        self._timers: dict[Hashable, tuple[int, Timer[Request]]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._armed = 0

    # loading

    def load(self, items: Iterable[LoadedRecord[Record] | LoadedTransactionEnd]) -> None:
        """Applies the committed `items` to the state, in order.

        Never raises because of a record, see `stopped`. May be called repeatedly, with slices of the log.
        """
        for item in items:
            whole(self.replay(item))
        self.committed_offset = self.end_offset

    def replay(self, item: LoadedRecord[Record] | LoadedTransactionEnd) -> Pausing[None]:
        """Applies one item, with at least one pause. The item may be uncommitted, because a new leader may have records
        that no other replica has: call `committed` afterwards."""
        yield
        if self.stopped is not None:
            return
        invariant(item.offset >= self.end_offset, "a log is loaded in the order of its offsets")
        try:
            if isinstance(item, LoadedTransactionEnd):
                yield from self._end_transaction(item.producer_id, item.producer_epoch, item.committed)
            else:
                self.machine.apply(self.state, item.offset, item.producer_id, item.producer_epoch, item.record)
        except Exception as error:
            self._stop(item.offset, item, error)
            return
        self.end_offset = item.offset + 1

    def _end_transaction(
        self, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> Pausing[None]:
        work = self.machine.apply_end_transaction(self.state, producer_id, producer_epoch, committed)
        if work is not None:
            yield from work

    def advance_to(self, end_offset: int) -> None:
        """The owner appended a control batch. The log now ends here."""
        invariant(end_offset >= self.end_offset and self._pending is None, "a log does not go back")
        self.end_offset = end_offset

    # deciding

    def take(
        self,
        request_id: int,
        decision: Decision[Request, Response, Record],
        now: Now,
        timer: Timer[Request] | None = None,
    ) -> tuple[tuple[int, Response], ...] | None:
        """Takes the decision for a request or for `timer`, and returns the replies that may be sent at once.

        None: append the decision, then call `applying` or `append_failed`.
        """
        invariant(self._pending is None, "a decision came before the last one's records were appended")
        # Armed now, cancelled only after the append: a spurious timer does no harm, a lost one blocks a member
        for armed in decision.timers:
            if armed.deadline_ms is not None:
                self._arm(armed)
        if decision.records or decision.marker is not None:
            self._pending, self._pending_request_id, self._pending_timer = decision, request_id, timer
            self._retry_ms = now.steady_ms + TIMER_RETRY_MS
            return None
        self._cancel_timers(decision)
        if self.committed_offset >= self.end_offset:
            return _answerable(decision.replies)
        self._park(decision)
        return ()

    def _park(self, decision: Decision[Request, Response, Record]) -> None:
        replies = _answerable(decision.replies)
        if replies:
            self._parked.append(_Parked(self.end_offset, replies))

    def applying(self, last_offset: int) -> Pausing[tuple[tuple[int, MoldauError], ...]]:
        """The last decision is in the log, which ends at `last_offset`: applies it, with pauses. No other decision may
        come before this ends.

        Returns replies only if the shard stops here. Those of the decision come from `committed`.
        """
        decision, _ = self._taken()
        producer = decision.producer_id, decision.producer_epoch
        what: Record | EndTransactionMarker | None = decision.marker
        offset = last_offset - max(len(decision.records) - 1, 0)
        invariant(offset >= self.end_offset, "records appended below the end of the log")
        try:
            if decision.marker is not None:
                yield from self._end_transaction(*producer, decision.marker.is_commit)
            for what in decision.records:
                self.machine.apply(self.state, Offset(offset), *producer, what)
                offset += 1
                self.end_offset = offset
                yield
        except Exception as error:
            self._stop(offset, what, error)
            stopped = self.stopped_error()
            return (*_failed(decision.replies, stopped), *self.drop(stopped))
        self.end_offset = last_offset + 1
        self._cancel_timers(decision)
        self._park(decision)
        return ()

    def append_failed(self, error: MoldauError) -> tuple[tuple[int, MoldauError], ...]:
        """The last decision is not in the log: its replies become `error`, the state stays.

        A request that the decision parked is answered too. A later reply of the machine to it is ignored.
        """
        decision, timer = self._taken()
        if timer is not None:
            self._arm(Timer(timer.key, self._retry_ms, timer.request))
        replies = _failed(decision.replies, error)
        answered = any(request_id == self._pending_request_id for request_id, _ in replies)
        if not answered and self._pending_request_id != NO_REQUEST_ID:
            # the records would have led to the response, so no other decision sends one
            replies = (*replies, (self._pending_request_id, error))
        return replies

    def _taken(self) -> tuple[Decision[Request, Response, Record], Timer[Request] | None]:
        decision, timer = self._pending, self._pending_timer
        self._pending = self._pending_timer = None
        if decision is None:
            raise InvariantError("nothing was to be appended")
        return decision, timer

    def committed(self, end_offset: int) -> tuple[tuple[int, Response], ...]:
        """The high watermark is `end_offset` (exclusive): returns the replies that waited for it, in order."""
        if end_offset > self.committed_offset:
            self.committed_offset = end_offset
        released: list[tuple[int, Response]] = []
        while self._parked and self._parked[0].end_offset <= self.committed_offset:
            released.extend(self._parked.popleft().replies)
        return tuple(released)

    def drop(self, error: MoldauError) -> tuple[tuple[int, MoldauError], ...]:
        """Leadership or the log is lost: every reply that waits for a commit becomes `error`."""
        replies: list[tuple[int, MoldauError]] = []
        if self._pending is not None:
            # the append may be in progress
            replies.extend(_failed(self._pending.replies, error))
            self._pending = msgspec.structs.replace(self._pending, replies=())
        while self._parked:
            replies.extend(_failed(self._parked.popleft().replies, error))
        return tuple(replies)

    # timers

    def next_deadline_ms(self) -> int | None:
        """When the next timer is due. None: no timer, or the shard is stopped."""
        while self._heap and self.stopped is None:
            deadline_ms, serial, key = self._heap[0]
            armed = self._timers.get(key)
            if armed is not None and armed[0] == serial:
                return deadline_ms
            heapq.heappop(self._heap)
        return None

    def due(self, steady_ms: int) -> Timer[Request] | None:
        """Removes and returns the most overdue timer; None if none is due."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > steady_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        return self._timers.pop(key)[1]

    def _arm(self, timer: Timer[Request]) -> None:
        if timer.deadline_ms is None:
            return
        self._armed += 1
        self._timers[timer.key] = (self._armed, timer)
        heapq.heappush(self._heap, (timer.deadline_ms, self._armed, timer.key))
        if len(self._heap) > 2 * len(self._timers) + 64:
            # each re-armed session leaves a dead entry, so the heap would grow with every heartbeat
            self._heap = [(live.deadline_ms or 0, serial, key) for key, (serial, live) in self._timers.items()]
            heapq.heapify(self._heap)

    def _cancel_timers(self, decision: Decision[Request, Response, Record]) -> None:
        for timer in decision.timers:
            if timer.deadline_ms is None:
                self._timers.pop(timer.key, None)

    # stopping

    def stop(self, reason: str) -> None:
        """The log is unreadable: no more decisions. `reason` names the place."""
        self.stopped = reason

    def _stop(self, offset: int, record: object, error: Exception) -> None:
        kind = type(getattr(record, "record", record)).__name__
        self.stopped = f"{self.topic_partition} stopped at offset {offset}: {kind} cannot be applied: {error!r}"

    def stopped_error(self) -> KafkaError:
        """The error for every request after the shard is stopped."""
        return kafka_error("COORDINATOR_NOT_AVAILABLE", f"{self.topic_partition} is stopped")


def _answerable(replies: tuple[tuple[int, Response], ...]) -> tuple[tuple[int, Response], ...]:
    for request_id, _ in replies:  # a loop, because it is cheaper than `all` for one reply
        if request_id == NO_REQUEST_ID:
            return tuple(reply for reply in replies if reply[0] != NO_REQUEST_ID)
    return replies


def _failed(replies: tuple[tuple[int, object], ...], error: MoldauError) -> tuple[tuple[int, MoldauError], ...]:
    return tuple((request_id, error) for request_id, _ in _answerable(replies))
