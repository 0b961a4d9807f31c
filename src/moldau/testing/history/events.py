"""The lines of a history: the begins and ends of client operations, and the records that clients read.

The lines are in time order. A begin is written before the call, and an end after the call has returned. So if the end
of one operation is above the begin of another, the first was over before the second began, without any clock. `at_ms`
is for people.

Each process numbers its operations. An operation ends by `sent`, `done`, `committed`, `failed` or `unknown`; an
operation without such a line (its process was killed) has an unknown outcome too. Each record has a name, and different
records have different names. A partition is written `topic-number`.
"""

from __future__ import annotations

import msgspec

PositionsByPartition = dict[str, int | None]
"""The offset of the next record to read, by partition. None: the group's committed offset. -1: the end of the log."""


class Line(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="event"):
    """`process`: the name of the client's process. A producer and a consumer with the same name are one process."""

    process: str
    at_ms: int = 0


class ProducerStarts(Line, frozen=True, tag="producer"):
    """A producer with a new state. Only an idempotent producer guarantees no duplicates and the order of its sends."""

    idempotent: bool = True


class ConsumerStarts(Line, frozen=True, tag="consumer"):
    """A consumer without positions. With automatic commits it may commit any offset that it has read, at any time."""

    group: str | None = None
    auto_commit: bool = False
    isolation: str = "read_committed"


class Send(Line, frozen=True, tag="send"):
    """A record is about to be passed to the producer. `partition` None: the producer chooses. `transaction`: its number
    within the process."""

    operation: int
    topic: str
    record: str
    key: str | None = None
    partition: int | None = None
    transaction: int | None = None
    tombstone: bool = False


NO_OFFSET = -1


class Sent(Line, frozen=True, tag="sent"):
    """The send was acknowledged. `offset`: NO_OFFSET if the offset is unknown (acks=0, or a batch that was sent
    again)."""

    operation: int
    partition: int
    offset: int


class TransactionBegins(Line, frozen=True, tag="begin"):
    transaction: int


class TransactionOffsets(Line, frozen=True, tag="offsets"):
    """Offsets of a group that the transaction commits."""

    transaction: int
    group: str
    positions: dict[str, int]


class TransactionEnds(Line, frozen=True, tag="end transaction"):
    """The producer is about to commit or abort the transaction."""

    operation: int
    transaction: int
    commit: bool


class Commit(Line, frozen=True, tag="commit"):
    """A consumer is about to commit the offsets of a group, without a transaction."""

    operation: int
    group: str
    positions: dict[str, int]


class AskCommitted(Line, frozen=True, tag="ask committed"):
    """A consumer is about to read the committed offsets of a group."""

    operation: int
    group: str


class Committed(Line, frozen=True, tag="committed"):
    """The answer to `ask committed`. -1: no committed offset."""

    operation: int
    positions: dict[str, int]


class Done(Line, frozen=True, tag="done"):
    operation: int


class Failed(Line, frozen=True, tag="failed"):
    """The operation had no effect, for certain."""

    operation: int
    error: str = ""


class Unknown(Line, frozen=True, tag="unknown"):
    """The operation may take effect, now or later, for example after a time-out or a broken connection."""

    operation: int
    error: str = ""


class Assign(Line, frozen=True, tag="assign"):
    """The consumer chose exactly these partitions itself."""

    positions: PositionsByPartition


class Assigned(Line, frozen=True, tag="assigned"):
    """A rebalance gave these partitions to the member, in addition to those that it has."""

    positions: PositionsByPartition


class Revoked(Line, frozen=True, tag="revoked"):
    """A rebalance took these partitions from the member."""

    partitions: tuple[str, ...]


class Seek(Line, frozen=True, tag="seek"):
    positions: PositionsByPartition


class Poll(Line, frozen=True, tag="poll"):
    """The result of one call: offset and name of each record in order, by partition."""

    records: dict[str, tuple[tuple[int, str], ...]]


class EndReached(Line, frozen=True, tag="end reached"):
    """The consumer has read its partitions to the end of the log. The end was read after the consumer started."""

    positions: dict[str, int]


class Crash(Line, frozen=True, tag="crash"):
    """The process was killed: its unfinished operations have an unknown outcome."""


class TopicCreated(Line, frozen=True, tag="topic"):
    """The topic was created. An earlier topic of that name is gone with its records."""

    topic: str


class Fault(Line, frozen=True, tag="fault"):
    """A fault that was applied to the cluster. It is not judged; it helps to understand a finding."""

    text: str


Event = (
    ProducerStarts
    | ConsumerStarts
    | Send
    | Sent
    | TransactionBegins
    | TransactionOffsets
    | TransactionEnds
    | Commit
    | AskCommitted
    | Committed
    | Done
    | Failed
    | Unknown
    | Assign
    | Assigned
    | Revoked
    | Seek
    | Poll
    | EndReached
    | Crash
    | TopicCreated
    | Fault
)
