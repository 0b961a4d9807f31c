"""The response to a group request that failed as a whole, in the form of its version.

The machine uses it for rejections, the broker for requests that reach no shard: 14 while it loads, 15 or 16 where it is
missing, and `append_error` after a failed append.
"""

from __future__ import annotations

from moldau.core.coordination.refusals import append_error_code
from moldau.core.groups.requests import (
    CommitInTransaction,
    DeleteGroup,
    DescribeGroup,
    FetchOffsets,
    GroupRequest,
    GroupResponse,
)
from moldau.errors import ERROR_CODES, KafkaError, MoldauError
from moldau.types import Pausing, all_of, each_of
from moldau.wire.protocol.messages.group_admin import DeletableGroupResult, OffsetDeleteRequest, OffsetDeleteResponse
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

_INVALID_COMMIT_OFFSET_SIZE = ERROR_CODES["INVALID_COMMIT_OFFSET_SIZE"]


def append_error(error: MoldauError, request: GroupRequest) -> int:
    """As `append_error_code`, with a special code for a commit that is too large."""
    is_commit = isinstance(request.message, (OffsetCommitRequest, CommitInTransaction))
    if is_commit and isinstance(error, KafkaError) and error.name in ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"):
        return _INVALID_COMMIT_OFFSET_SIZE
    return append_error_code(error)


def refusal(request: GroupRequest, error_code: int) -> Pausing[GroupResponse]:
    """The response to `request` with `error_code` for all of it."""
    message = request.message
    if isinstance(message, JoinGroupRequest):
        return refused_join(error_code, message.member_id, request.api_version)
    if isinstance(message, SyncGroupRequest):
        return SyncGroupResponse(error_code=error_code)
    if isinstance(message, HeartbeatRequest):
        return HeartbeatResponse(error_code=error_code)
    if isinstance(message, LeaveGroupRequest):
        return LeaveGroupResponse(error_code=error_code)
    if isinstance(message, OffsetCommitRequest):
        return (yield from refused_commit(message, error_code))
    if isinstance(message, CommitInTransaction):
        return (yield from refused_commit(message.commit, error_code))
    if isinstance(message, FetchOffsets):
        return (yield from _refused_fetch(message, error_code, request.api_version))
    if isinstance(message, DescribeGroup):
        return DescribedGroup(group_id=message.group_id, error_code=error_code)
    if isinstance(message, DeleteGroup):
        return DeletableGroupResult(message.group_id, error_code)
    if isinstance(message, OffsetDeleteRequest):
        return OffsetDeleteResponse(error_code=error_code)
    return ListGroupsResponse(error_code=error_code)


def refused_join(error_code: int, member_id: str, api_version: int) -> JoinGroupResponse:
    """Since v7 a missing protocol name is null (KIP-559)."""
    name = None if api_version >= 7 else ""
    return JoinGroupResponse(error_code=error_code, member_id=member_id, protocol_name=name)


def refused_commit(message: OffsetCommitRequest, error_code: int) -> Pausing[OffsetCommitResponse]:
    """The response with `error_code` for every partition."""
    topics = yield from all_of(refused_commit_topic(topic, topic.name, error_code) for topic in message.topics)
    return OffsetCommitResponse(topics=topics)


def refused_commit_topic(
    topic: OffsetCommitRequestTopic, name: str, error_code: int
) -> Pausing[OffsetCommitResponseTopic]:
    """One topic in an OffsetCommit response, every partition with one code."""
    yield
    rows = yield from each_of(
        OffsetCommitResponsePartition(row.partition_index, error_code) for row in topic.partitions
    )
    return OffsetCommitResponseTopic(name=name, topic_id=topic.topic_id, partitions=rows)


def _refused_fetch(message: FetchOffsets, error_code: int, api_version: int) -> Pausing[OffsetFetchResponseGroup]:
    if api_version >= 2:
        return OffsetFetchResponseGroup(group_id=message.group.group_id, error_code=error_code)
    # v1 has no top-level error
    asked = message.group.topics or ()
    topics = yield from all_of(refused_fetch_topic(topic, topic.name, error_code) for topic in asked)
    return OffsetFetchResponseGroup(group_id=message.group.group_id, topics=topics)


def refused_fetch_topic(
    topic: OffsetFetchRequestTopics, name: str, error_code: int
) -> Pausing[OffsetFetchResponseTopics]:
    """One topic in an OffsetFetch response, every partition with one code and the offset -1."""
    yield
    rows = yield from each_of(
        OffsetFetchResponsePartitions(index, committed_offset=-1, error_code=error_code)
        for index in topic.partition_indexes
    )
    return OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=rows)


def refused_leave(message: LeaveGroupRequest, error_code: int, api_version: int) -> Pausing[LeaveGroupResponse]:
    """`error_code` for each member. Before v3 the request has one member, and its error is at the top."""
    if api_version < 3:
        return LeaveGroupResponse(error_code=error_code)
    members = yield from each_of(
        MemberResponse(member.member_id, member.group_instance_id, error_code) for member in message.members
    )
    return LeaveGroupResponse(members=members)
