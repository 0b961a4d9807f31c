"""The shape of everything durable in the broker: a log plus two functions.

    decide(state, request) -> records, replies, timers        reads the state, never changes what the log holds
    apply(state, record)                                      the only place that changes what the log holds

Folding `apply` over the log gives the state: a test for every machine proves it. `CoordinatorHost` runs one machine
over one log. A state may also hold *volatile* parts that no record carries (members waiting in a join, parked
requests); `decide` may change those, and they are gone after a reload.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from moldau.types import Offset, ProducerEpoch, ProducerId

State = TypeVar("State")
Request = TypeVar("Request")
Response = TypeVar("Response")
Record = TypeVar("Record")

NO_REQUEST_ID = -1
"""The request id of a timer's firing and of `decide_loaded`: nobody waits for its reply."""


class Timer(msgspec.Struct, Generic[Request], frozen=True):
    """Arms the timer `key` (replacing an armed one of that key), or cancels it if `deadline_ms` is None.

    When it is due, `request` is decided like any other request, under NO_REQUEST_ID. A machine takes a firing that
    its state no longer asks for in silence: a timer may fire although the append that would have cancelled it failed.
    """

    key: Hashable
    deadline_ms: int | None
    request: Request | None = None


class Decision(msgspec.Struct, Generic[Request, Response, Record], frozen=True):
    """What one request leads to: ONE atomic batch of records, replies by request id, timers.

    A request without a reply here is parked: a later decision answers it by its id.
    """

    records: tuple[Record, ...] = ()
    replies: tuple[tuple[int, Response], ...] = ()
    timers: tuple[Timer[Request], ...] = ()


class Machine(Protocol[State, Request, Response, Record]):
    """One kind of coordinator. Deterministic: time is an argument, randomness is handed to the constructor."""

    def new_state(self) -> State:
        """The state of an empty log."""
        ...

    def decide(
        self, state: State, request_id: int, request: Request, now_ms: int
    ) -> Decision[Request, Response, Record]:
        """Decides one request. Raises KafkaError to refuse it, then nothing may have changed.

        Whatever a record will change must not be changed here: the append may fail.
        """
        ...

    def decide_loaded(self, state: State, now_ms: int) -> Decision[Request, Response, Record]:
        """Decided once, after the log was folded and before the first request: timers of what was loaded."""
        ...

    def apply(
        self, state: State, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: Record
    ) -> None:
        """Takes one record of the log, in the order of the log. Any exception stops the shard."""
        ...

    def apply_end_transaction(
        self, state: State, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> None:
        """Takes the marker that ends the producer's open transaction in this log."""
        ...
