"""The lines of a history: what clients were about to do, how it ended, and what they read.

The order of the lines is the order of time. A line of a begin is written before the call, a line of an end after the
call has returned. So an operation whose end stands above the begin of another was over before the other began, and no
clock is needed for that. `at_ms` is for people.

An operation has a number of its process. It ends by `sent`, `done`, `committed`, `failed` or `unknown`; one without
such a line (its process was killed) has an unknown outcome too. Each record has a name, and records that differ have
names that differ. A partition is written `topic-number`.
"""

from __future__ import annotations

import msgspec

PositionsByPartition = dict[str, int | None]
"""By partition the offset of the next record to be read. None: where the group is. -1: at the end of the log."""


class Line(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, tag_field="event"):
    """`process`: who did it. A producer and a consumer of one name are one process."""

    process: str
    at_ms: int = 0


class ProducerStarts(Line, frozen=True, tag="producer"):
    """A producer with a new state. Only an idempotent one is promised no duplicate and the order of its sends."""

    idempotent: bool = True


class ConsumerStarts(Line, frozen=True, tag="consumer"):
    """A consumer without positions. One that commits by itself may commit whatever it was given, at any time."""

    group: str | None = None
    auto_commit: bool = False
    isolation: str = "read_committed"


class Send(Line, frozen=True, tag="send"):
    """A record is about to be handed to the producer. `partition` None: the producer chooses. `transaction`: its number
    among those of the process."""

    operation: int
    topic: str
    record: str
    key: str | None = None
    partition: int | None = None
    transaction: int | None = None
    tombstone: bool = False


NO_OFFSET = -1


class Sent(Line, frozen=True, tag="sent"):
    """The send was acknowledged. `offset`: NO_OFFSET where nobody says (acks=0; a batch that was sent again)."""

    operation: int
    partition: int
    offset: int


class TransactionBegins(Line, frozen=True, tag="begin"):
    transaction: int


class TransactionOffsets(Line, frozen=True, tag="offsets"):
    """Offsets of a group that are committed if the transaction is."""

    transaction: int
    group: str
    positions: dict[str, int]


class TransactionEnds(Line, frozen=True, tag="end transaction"):
    """The producer is about to commit or to abort."""

    operation: int
    transaction: int
    commit: bool


class Commit(Line, frozen=True, tag="commit"):
    """The offsets of a group are about to be committed, without a transaction."""

    operation: int
    group: str
    positions: dict[str, int]


class AskCommitted(Line, frozen=True, tag="ask committed"):
    """The committed offsets of a group are about to be read."""

    operation: int
    group: str


class Committed(Line, frozen=True, tag="committed"):
    """The answer to `ask committed`. -1: nothing is committed."""

    operation: int
    positions: dict[str, int]


class Done(Line, frozen=True, tag="done"):
    operation: int


class Failed(Line, frozen=True, tag="failed"):
    """Nothing was done, for certain."""

    operation: int
    error: str = ""


class Unknown(Line, frozen=True, tag="unknown"):
    """The operation may have been done, now or later: a time-out, a connection that broke."""

    operation: int
    error: str = ""


class Assign(Line, frozen=True, tag="assign"):
    """The consumer's own choice: these partitions and no others."""

    positions: PositionsByPartition


class Assigned(Line, frozen=True, tag="assigned"):
    """A rebalance gave these partitions to the member, beside those that it has."""

    positions: PositionsByPartition


class Revoked(Line, frozen=True, tag="revoked"):
    """A rebalance took these partitions."""

    partitions: tuple[str, ...]


class Seek(Line, frozen=True, tag="seek"):
    positions: PositionsByPartition


class Poll(Line, frozen=True, tag="poll"):
    """What one call returned: by partition, offset and name of each record, in their order."""

    records: dict[str, tuple[tuple[int, str], ...]]


class EndReached(Line, frozen=True, tag="end reached"):
    """The consumer has read its partitions up to the end of the log, which was asked for after the consumer started."""

    positions: dict[str, int]


class Crash(Line, frozen=True, tag="crash"):
    """The process was killed: what it had begun has an unknown outcome."""


class TopicCreated(Line, frozen=True, tag="topic"):
    """The topic was created; one of that name before it is gone with its records."""

    topic: str


class Fault(Line, frozen=True, tag="fault"):
    """What was done to the cluster. Nobody judges it: it helps who reads a finding."""

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
