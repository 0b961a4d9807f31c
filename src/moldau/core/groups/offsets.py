"""Committed offsets: OffsetCommit v2-10, TxnOffsetCommit v0-6, and the reads of OffsetFetch v1-10.

Topics come here by name and exist (offset_topics.py). Readers see a commit when it is in the log, and one of a
transaction when its commit marker is. For their end see expiry.py.
"""

from __future__ import annotations

from moldau.core.groups.classic.group import Group, GroupState, Parked
from moldau.core.groups.committed_offsets import CommittedOffset
from moldau.core.groups.draft import Draft
from moldau.core.groups.records import OffsetRecord
from moldau.core.groups.refusals import refused_commit
from moldau.core.groups.requests import CommitInTransaction, FetchOffsets
from moldau.core.groups.state import GroupsState
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.types import ZERO_UUID, Pausing, Uuid, all_of
from moldau.wire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

MAX_TIMESTAMP_MS = 2**63 - 1

_OFFSET_METADATA_TOO_LARGE = ERROR_CODES["OFFSET_METADATA_TOO_LARGE"]
_UNSTABLE_OFFSET_COMMIT = ERROR_CODES["UNSTABLE_OFFSET_COMMIT"]


def commit_offsets(draft: Draft, parked: Parked, message: OffsetCommitRequest) -> Pausing[None]:
    """Records each valid partition. The others get their own error."""
    try:
        group = _committing_group(draft, message, parked.api_version)
    except KafkaError as error:
        draft.reply(parked, (yield from refused_commit(message, error.code)))
        return
    response = yield from _record(draft, message)
    member = None if group is None else group.members.get(message.member_id)
    if group is not None and member is not None:
        # a commit extends the session of a classic member
        draft.arm_session(group, member)
    draft.reply(parked, response)


def commit_in_transaction(draft: Draft, parked: Parked, message: CommitInTransaction) -> Pausing[None]:
    """As `commit_offsets`, for the producer's open transaction in this log: its marker decides. As in Kafka, it does
    not extend a session."""
    try:
        _committing_group(draft, message.commit, parked.api_version, is_transactional=True)
    except KafkaError as error:
        draft.reply(parked, (yield from refused_commit(message.commit, error.code)))
        return
    draft.producer_id, draft.producer_epoch = message.producer_id, message.producer_epoch
    draft.reply(parked, (yield from _record(draft, message.commit)))


def _record(draft: Draft, message: OffsetCommitRequest) -> Pausing[OffsetCommitResponse]:
    """Records the last row of each partition. A batch must hold all records, and each earlier row would be replaced."""
    topics: list[OffsetCommitResponseTopic] = []
    latest: dict[tuple[str, int], tuple[Uuid, OffsetCommitRequestPartition]] = {}
    for topic in message.topics:
        partitions: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            code = 0
            if _utf16_length(partition.committed_metadata or "") > draft.settings.offset_metadata_max_bytes:
                code = _OFFSET_METADATA_TOO_LARGE
            else:
                latest[topic.name, partition.partition_index] = topic.topic_id, partition
            partitions.append(OffsetCommitResponsePartition(partition.partition_index, code))
            yield
        topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, tuple(partitions)))
    for (name, _), (topic_id, partition) in latest.items():
        draft.records.append(_offset_record(draft, message, name, topic_id, partition))
        yield
    return OffsetCommitResponse(topics=tuple(topics))


def _committing_group(
    draft: Draft, message: OffsetCommitRequest, api_version: int, *, is_transactional: bool = False
) -> Group | None:
    """The group, or None for a first commit without one. Raises KafkaError for an invalid commit.

    A transaction may commit into a group with members without being one of them, and while the group waits for its
    assignments: before TxnOffsetCommit v3 a producer could not say who the member is.
    """
    if message.group_id == "":
        # Kafka accepts it, but no list ever shows it
        raise kafka_error("INVALID_GROUP_ID")
    if draft.state.other_kinds.get(message.group_id) == "share":
        # as in Kafka: offsets of share groups are stored elsewhere
        raise kafka_error("GROUP_ID_NOT_FOUND")
    generation = message.generation_id_or_member_epoch
    group = draft.state.groups.get(message.group_id)
    if group is None:
        if generation >= 0:
            raise kafka_error("GROUP_ID_NOT_FOUND" if api_version >= 9 else "ILLEGAL_GENERATION")
        offsets = draft.state.offsets
        if (
            message.group_id not in offsets
            and max(len(draft.state.groups), len(offsets)) >= draft.settings.moldau_groups
        ):
            raise kafka_error("GROUP_MAX_SIZE_REACHED")
        return None
    if generation < 0 and group.state is GroupState.EMPTY:
        # an administrator, or a consumer without group management
        return group
    if generation < 0 and message.member_id == "" and message.group_instance_id is None:
        if is_transactional:
            return group
        raise kafka_error("UNKNOWN_MEMBER_ID")
    group.check_member(message.member_id, message.group_instance_id)
    if generation != group.generation:
        raise kafka_error("ILLEGAL_GENERATION")
    if group.state is GroupState.COMPLETING_REBALANCE and not is_transactional:
        # the member has the new generation, but not its assignment yet
        raise kafka_error("REBALANCE_IN_PROGRESS")
    return group


def _utf16_length(text: str) -> int:
    """The length in UTF-16 code units, as in Java."""
    return len(text) + sum(character > "\uffff" for character in text)


def _offset_record(
    draft: Draft, message: OffsetCommitRequest, topic: str, topic_id: Uuid, partition: OffsetCommitRequestPartition
) -> OffsetRecord:
    has_expiry = message.retention_time_ms != -1
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=draft.wall_ms,
        # Java's sum would overflow, and an offset that is kept for ever would expire at the next check
        expire_timestamp=min(draft.wall_ms + message.retention_time_ms, MAX_TIMESTAMP_MS) if has_expiry else -1,
        topic_id=topic_id,
    )
    key = OffsetCommitKey(group=message.group_id, topic=topic, partition=partition.partition_index)
    return OffsetRecord(key, value, _value_version(has_expiry, topic_id))


def _value_version(has_expiry: bool, topic_id: Uuid) -> int:
    """Only v1 has an expiry time, and only v4 a topic id. v3 is readable for older brokers."""
    if has_expiry:
        return 1
    return 3 if topic_id == ZERO_UUID else 4


def fetch_offsets(state: GroupsState, request: FetchOffsets) -> Pausing[OffsetFetchResponseGroup]:
    """-1 for no commit; an unknown group has no commits. All topics: those with an offset."""
    asked = request.group
    group_id = asked.group_id
    stored = state.offsets.get(group_id, {})
    wanted = (
        ((name, ZERO_UUID, tuple(sorted(stored[name]))) for name in sorted(stored))
        if asked.topics is None
        else ((topic.name, topic.topic_id, topic.partition_indexes) for topic in asked.topics)
    )
    topics = yield from all_of(_fetched_topic(state, request, *each) for each in wanted)
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _fetched_topic(
    state: GroupsState, request: FetchOffsets, name: str, topic_id: Uuid, indexes: tuple[int, ...]
) -> Pausing[OffsetFetchResponseTopics]:
    group_id = request.group.group_id
    stored = state.offsets.get(group_id, {}).get(name, {})
    partitions = []
    for index in indexes:
        committed = stored.get(index)
        if request.require_stable and state.pending.has(group_id, name, index):
            partitions.append(_no_offset(index, _UNSTABLE_OFFSET_COMMIT))
        elif committed is None or _is_of_other_topic(committed, topic_id):
            partitions.append(_no_offset(index, 0))
        else:
            partitions.append(
                OffsetFetchResponsePartitions(
                    partition_index=index,
                    committed_offset=committed.offset,
                    committed_leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                )
            )
        yield
    yield
    return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=tuple(partitions))


def _is_of_other_topic(committed: CommittedOffset, topic_id: Uuid) -> bool:
    """Whether the offset is of a deleted topic of the same name."""
    return ZERO_UUID not in (topic_id, committed.topic_id) and committed.topic_id != topic_id


def _no_offset(index: int, error_code: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=error_code
    )
