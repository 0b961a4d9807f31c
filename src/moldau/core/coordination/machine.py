"""The interface of a durable state machine: a log and two functions.

    decide(state, request, now) -> records, replies, timers   reads the state, never changes its durable part
    apply(state, record)                                      the only function that changes the durable part

Applying the whole log gives the state; a test of every machine proves it. `CoordinatorHost` runs one machine over one
log, and `shell/coordination` drives it. A state may also have *volatile* parts that are in no record (members that wait
in a join, tokens of a quota). `decide` may change those, and a reload begins without them. A request has values only,
so it can be sent to another broker, stored, and decided again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

import msgspec

from moldau.core.metadata.image import MetadataDelta, MetadataImage
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Offset, Pausing, ProducerEpoch, ProducerId
from moldau.wire.records.control import EndTransactionMarker

State = TypeVar("State")
Request = TypeVar("Request")
Response = TypeVar("Response")
Record = TypeVar("Record")

NO_REQUEST_ID = -1
"""The request id of requests that no client sent (a timer, a load, new metadata). Their replies are dropped."""


class Now(msgspec.Struct, frozen=True):
    """The time of a decision on both clocks, in milliseconds."""

    steady_ms: int
    """For deadlines. Setting the clock neither ends nor prolongs a session."""
    wall_ms: int
    """For records: since the epoch; may go back."""


Counts = tuple[tuple[str, int], ...]
"""Names of counters, and the increment of each."""


class Timer(msgspec.Struct, Generic[Request], frozen=True):
    """Sets the timer `key` (replacing one with that key), or cancels it if `deadline_ms` is None.

    When it is due, `request` is decided under NO_REQUEST_ID. A machine ignores a timer that its state no longer needs,
    because a timer may fire after the append that should have cancelled it failed.
    """

    key: Hashable
    deadline_ms: int | None
    """Steady time."""
    request: Request | None = None


class Decision(msgspec.Struct, Generic[Request, Response, Record], frozen=True):
    """The result of one request: one atomic batch of records, replies by request id, timers.

    A request without a reply is parked. A later decision answers it by its id.
    """

    records: tuple[Record, ...] = ()
    replies: tuple[tuple[int, Response], ...] = ()
    timers: tuple[Timer[Request], ...] = ()
    if_refused: tuple[Request, ...] = ()
    """Decided next if the append fails: the machine undoes the volatile changes of this decision."""
    producer_id: ProducerId = NO_PRODUCER_ID
    """With a producer id the records belong to that producer's transaction: the batch has the transactional flag."""
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    marker: EndTransactionMarker | None = None
    """Ends the producer's transaction in this log with a control batch, instead of records."""
    transaction_version: int = 0
    """Of the marker. 2: its producer epoch must be above that of the transaction (KIP-890)."""
    counts: Counts = ()
    """The counters that increase after the append."""


class Machine(Protocol[State, Request, Response, Record]):
    """One kind of coordinator. Deterministic: time is an argument, the constructor gets the randomness."""

    def new_state(self) -> State:
        """The state of an empty log."""
        ...

    def decide(
        self, state: State, request_id: int, request: Request, now: Now
    ) -> Decision[Request, Response, Record] | Pausing[Decision[Request, Response, Record]]:
        """Decides one request. Raises KafkaError to reject it; nothing has changed then.

        Do not change here what a record will change, because the append may fail. A generator if a request may name
        many things. It changes nothing before its last yield, and no other decision comes before its end.
        """
        ...

    def decide_loaded(self, state: State, image: MetadataImage, now: Now) -> Decision[Request, Response, Record]:
        """The first decision after a load: the timers of the loaded state, and records for things that the metadata no
        longer has."""
        ...

    def decide_metadata(
        self, state: State, image: MetadataImage, delta: MetadataDelta, now: Now
    ) -> Decision[Request, Response, Record]:
        """The metadata changed by `delta`. `image` includes the change."""
        ...

    def apply(
        self, state: State, offset: Offset, producer_id: ProducerId, producer_epoch: ProducerEpoch, record: Record
    ) -> None:
        """Applies one record, in the order of the log. Any exception stops the shard."""
        ...

    def apply_end_transaction(
        self, state: State, producer_id: ProducerId, producer_epoch: ProducerEpoch, committed: bool
    ) -> Pausing[None] | None:
        """Applies the marker that ends the producer's transaction in this log. A generator if a transaction may have
        many records: no decision comes before its end."""
        ...
