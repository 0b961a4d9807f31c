"""The requests and responses of a group machine.

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

OffsetFetch, DescribeGroups, ListGroups and DeleteGroups may concern several shards: their handler asks each shard and
joins the parts. When topics are deleted, each shard gets `ForgetTopics`. Timers fire as `SessionExpired`,
`JoinPhaseOver`, `SyncPhaseOver`, `ExpireOffsets`, `ContinueDeletion` and `ContinueOffsetDeletion`. These come under
NO_REQUEST_ID and need no reply. A transaction coordinator sends `EndTransaction` and gets `TransactionEnded`.
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
    """The offsets of one group, in the form of OffsetFetch v8. Topics by name; None: all.

    `require_stable`: a partition with an open transactional commit gets 88.
    """

    group: OffsetFetchRequestGroup
    require_stable: bool = False


class CommitInTransaction(msgspec.Struct, frozen=True):
    """A TxnOffsetCommit in the form and version of an OffsetCommit of a classic group. The sender has verified that
    this shard is in the producer's transaction. The log rejects an old producer epoch."""

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
    """`client_host`: the address of the peer, `127.0.0.1`. The reply is a response for `api_version`."""

    message: GroupMessage
    api_version: int
    client_id: str | None = None
    client_host: str = ""


class EndTransaction(msgspec.Struct, frozen=True):
    """The producer's transaction ends in this shard: its commits here take effect or are dropped.

    `transaction_version`: 2 where each transaction has its own producer epoch (KIP-890).
    """

    marker: EndTransactionMarker
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    transaction_version: int


class SessionExpired(msgspec.Struct, frozen=True):
    """A member, or a pending member id, sent nothing for its session timeout."""

    group_id: str
    member_id: str


class JoinPhaseOver(msgspec.Struct, frozen=True):
    """The time to join the generation after `generation` is over.

    `is_initial`: the first delay of an empty group. New members may extend it by `remaining_ms`.
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
    """Topics were deleted: ends their committed offsets, in several decisions if they are many.

    Each by its name and the id of the commits, ZERO_UUID if unknown, because a new topic of the same name may exist,
    with its own offsets.
    """

    topics: tuple[tuple[str, Uuid], ...]


class TopicsNotForgotten(msgspec.Struct, frozen=True):
    """The append of the tombstones failed: the log is full, or too few replicas are in sync."""

    topics: tuple[tuple[str, Uuid], ...]


class ExpireOffsets(msgspec.Struct, frozen=True):
    """Check for old offsets. `group_ids`: the groups still to check; None: all."""

    group_ids: tuple[str, ...] | None = None


class ContinueDeletion(msgspec.Struct, frozen=True):
    """The rest of a DeleteGroup whose group has more offsets than fit in one batch. `parked` waits for the response."""

    group_id: str
    parked: Parked


class ContinueOffsetDeletion(msgspec.Struct, frozen=True):
    """The rest of an OffsetDelete with more offsets than fit in one batch. `parked` waits for the response, which
    begins with `done`."""

    message: OffsetDeleteRequest
    parked: Parked
    done: tuple[OffsetDeleteResponseTopic, ...]


class DeletionNotBegun(msgspec.Struct, frozen=True):
    """The append of the first batch of a DeleteGroup or OffsetDelete failed. `parked` has got the error, and the rest
    stays."""

    parked: Parked


class GroupNotWritten(msgspec.Struct, frozen=True):
    """The append of the group's members failed: larger than `max.message.bytes`, or a failed disk."""

    group_id: str


class GroupNotMade(msgspec.Struct, frozen=True):
    """The append of the record of a new group failed. The first member has got the error."""

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
