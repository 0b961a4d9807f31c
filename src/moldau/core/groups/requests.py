"""What a group machine is asked, and what it answers.

A request from a client is `GroupRequest(message, api_version, client_id, client_host)`; its `message` is one of

    JoinGroupRequest      -> JoinGroupResponse      (may be parked)
    SyncGroupRequest      -> SyncGroupResponse      (may be parked)
    HeartbeatRequest      -> HeartbeatResponse
    LeaveGroupRequest     -> LeaveGroupResponse
    OffsetCommitRequest   -> OffsetCommitResponse   (topics that exist, by name: see offset_topics.py)
    CommitInTransaction   -> OffsetCommitResponse   (the same)
    FetchOffsets          -> OffsetFetchResponseGroup
    DescribeGroup         -> DescribedGroup
    ListGroupsRequest     -> ListGroupsResponse     (this shard's part of the list)
    DeleteGroup           -> DeletableGroupResult   (may be parked)
    OffsetDeleteRequest   -> OffsetDeleteResponse   (topics that exist; may be parked)

OffsetFetch, DescribeGroups, ListGroups and DeleteGroups may touch several shards: their handler asks each shard and
joins the parts. When topics are deleted, each shard is given `ForgetTopics`. Timers fire as `SessionExpired`,
`JoinPhaseOver`, `SyncPhaseOver`, `ExpireOffsets`, `ContinueDeletion` and `ContinueOffsetDeletion`. Nobody waits for a
reply to these: they come under NO_REQUEST_ID. A transaction coordinator asks `EndTransaction`, and gets a
`TransactionEnded`.
"""

from __future__ import annotations

import msgspec

from moldau.core.groups.classic.group import Parked
from moldau.types import ProducerEpoch, ProducerId, Uuid
from moldau.wire.protocol.messages.group_admin import (
    DeletableGroupResult,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
)
from moldau.wire.records.control import EndTransactionMarker


class FetchOffsets(msgspec.Struct, frozen=True):
    """The offsets of one group, in the shape that OffsetFetch has since v8; topics by name, None for all of them.

    `require_stable`: a partition with an open transactional commit answers 88.
    """

    group: OffsetFetchRequestGroup
    require_stable: bool = False


class CommitInTransaction(msgspec.Struct, frozen=True):
    """A TxnOffsetCommit, in the shape and in the version of an OffsetCommit of a classic group. Whoever sends it has
    made sure that this shard is in the producer's transaction; the log refuses a producer epoch that is over."""

    commit: OffsetCommitRequest
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


class DescribeGroup(msgspec.Struct, frozen=True):
    group_id: str


class DeleteGroup(msgspec.Struct, frozen=True):
    """One group of a DeleteGroups."""

    group_id: str


GroupMessage = (
    JoinGroupRequest
    | SyncGroupRequest
    | HeartbeatRequest
    | LeaveGroupRequest
    | OffsetCommitRequest
    | CommitInTransaction
    | FetchOffsets
    | DescribeGroup
    | ListGroupsRequest
    | DeleteGroup
    | OffsetDeleteRequest
)


class TransactionEnded(msgspec.Struct, frozen=True):
    """The marker is in the log."""


GroupResponse = (
    JoinGroupResponse
    | SyncGroupResponse
    | HeartbeatResponse
    | LeaveGroupResponse
    | OffsetCommitResponse
    | OffsetFetchResponseGroup
    | DescribedGroup
    | ListGroupsResponse
    | DeletableGroupResult
    | OffsetDeleteResponse
    | TransactionEnded
)


class GroupRequest(msgspec.Struct, frozen=True):
    """`client_host` is the peer's address alone, `127.0.0.1`. The reply is a response for `api_version`."""

    message: GroupMessage
    api_version: int
    client_id: str | None = None
    client_host: str = ""


class EndTransaction(msgspec.Struct, frozen=True):
    """The producer's transaction ends in this shard: what it has committed here counts from now on, or never did.

    `transaction_version`: 2 where each transaction has a producer epoch of its own (KIP-890).
    """

    marker: EndTransactionMarker
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    transaction_version: int


class SessionExpired(msgspec.Struct, frozen=True):
    """A member, or a pending member id, was silent for its session timeout."""

    group_id: str
    member_id: str


class JoinPhaseOver(msgspec.Struct, frozen=True):
    """The time to join the generation after `generation` is over.

    `is_initial`: the first delay of an empty group, which may be prolonged by `remaining_ms` while new members come.
    """

    group_id: str
    generation: int
    is_initial: bool = False
    remaining_ms: int = 0


class SyncPhaseOver(msgspec.Struct, frozen=True):
    """The time to send SyncGroup in `generation` is over."""

    group_id: str
    generation: int


class ForgetTopics(msgspec.Struct, frozen=True):
    """Topics are gone: offsets committed for them end. Long lists of offsets end in several decisions.

    Each by its name and the id that the offsets were committed under, ZERO_UUID where none was noted: a topic of the
    same name may be there again, with offsets of its own.
    """

    topics: tuple[tuple[str, Uuid], ...]


class TopicsNotForgotten(msgspec.Struct, frozen=True):
    """The ends of their offsets could not be appended: the log is full, or too few replicas have it."""

    topics: tuple[tuple[str, Uuid], ...]


class ExpireOffsets(msgspec.Struct, frozen=True):
    """The time to look for what is too old. `group_ids`: the groups still to be looked at; None: all."""

    group_ids: tuple[str, ...] | None = None


class ContinueDeletion(msgspec.Struct, frozen=True):
    """The rest of a DeleteGroup whose group had more positions than fit one batch; `parked` waits for the answer."""

    group_id: str
    parked: Parked


class ContinueOffsetDeletion(msgspec.Struct, frozen=True):
    """The rest of an OffsetDelete that named more positions than fit one batch; `parked` waits for the answer, which
    begins with `done`."""

    message: OffsetDeleteRequest
    parked: Parked
    done: tuple[OffsetDeleteResponseTopic, ...]


class DeletionNotBegun(msgspec.Struct, frozen=True):
    """The first batch of a DeleteGroup or OffsetDelete could not be appended: `parked` has the error, and the rest
    stays too."""

    parked: Parked


class GroupNotWritten(msgspec.Struct, frozen=True):
    """The record of the group's members could not be appended: it was larger than `max.message.bytes`, or the disk
    refused it."""

    group_id: str


class GroupNotMade(msgspec.Struct, frozen=True):
    """The record of a new group could not be appended; whoever was the first to join has the error."""

    group_id: str


AnyGroupRequest = (
    GroupRequest
    | EndTransaction
    | SessionExpired
    | JoinPhaseOver
    | SyncPhaseOver
    | ForgetTopics
    | TopicsNotForgotten
    | ExpireOffsets
    | ContinueDeletion
    | ContinueOffsetDeletion
    | DeletionNotBegun
    | GroupNotWritten
    | GroupNotMade
)
