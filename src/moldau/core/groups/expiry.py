"""Ends committed offsets and groups: by age, by DeleteGroups or OffsetDelete, by the deletion of topics (KIP-211, 229,
496).

When a committed offset expires (`offsets.retention.minutes`):
- in an empty group that once had members: this time after the group became empty, whenever the offset was committed;
- in a stable group of consumers: this time after the commit, if no member subscribes to the topic;
- in a group that never had members (it only commits): this time after the commit;
- if committed with a retention time (OffsetCommit v2-4): at that time, in any of these three states.
A group that is rebalancing, or that has members of another protocol, keeps all. An offset that an open transaction
commits stays, and so does its group. A group without members and offsets ends at the next check, even a new one.

DeleteGroups, OffsetDelete and the deletion of a topic also remove offsets that open transactions commit. These do not
return when the transaction is committed.

The check is a timer of each shard (`offsets.retention.check.interval.ms`). It writes tombstones as Kafka does: one for
each offset, then one for the group. Long lists take several decisions, each one batch.
"""

from __future__ import annotations

from collections.abc import Iterator

from moldau.core.coordination.host import TIMER_RETRY_MS
from moldau.core.groups.classic.group import Group, GroupState, Parked
from moldau.core.groups.committed_offsets import CommittedOffset
from moldau.core.groups.counters import OFFSET_DELETIONS, OFFSET_EXPIRATIONS
from moldau.core.groups.draft import Draft
from moldau.core.groups.requests import (
    ContinueDeletion,
    ContinueOffsetDeletion,
    DeleteGroup,
    DeletionNotBegun,
    ExpireOffsets,
    ForgetTopics,
    TopicsNotForgotten,
)
from moldau.core.groups.state import offsets_at
from moldau.errors import ERROR_CODES
from moldau.types import Pausing, Uuid
from moldau.wire.protocol.messages.group_admin import (
    DeletableGroupResult,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.wire.protocol.messages.group_records import OffsetCommitKey

MAX_TOMBSTONES = 1_000
"""The most tombstones in one batch."""
MAX_ENDED_CHARACTERS = 1 << 17
"""The most characters of names in one batch of tombstones, except for its last one. With four bytes for each character
a batch stays below 1 MiB."""
MAX_POSITIONS_A_DECISION = 5_000
"""The most committed offsets that one decision of the check looks at, so others wait a few milliseconds at most."""

_GROUP_ID_NOT_FOUND = ERROR_CODES["GROUP_ID_NOT_FOUND"]
_NON_EMPTY_GROUP = ERROR_CODES["NON_EMPTY_GROUP"]
_GROUP_SUBSCRIBED_TO_TOPIC = ERROR_CODES["GROUP_SUBSCRIBED_TO_TOPIC"]
_INVALID_GROUP_ID = ERROR_CODES["INVALID_GROUP_ID"]


# -- by age


def expire(draft: Draft, request: ExpireOffsets) -> None:
    """One part of the check: the groups that fit in a decision. The rest follows at once."""
    state = draft.state
    group_ids = request.group_ids if request.group_ids is not None else tuple(state.groups)
    looked_at = 0
    for position, group_id in enumerate(group_ids):
        if looked_at >= MAX_POSITIONS_A_DECISION or _is_full(draft):
            draft.arm_expiry(0, ExpireOffsets(group_ids[position:]))
            return
        group = state.groups.get(group_id)
        if group is None or group_id in state.other_kinds:
            continue
        looked_at += 1 + sum(map(len, state.offsets.get(group_id, {}).values()))
        if not _expire_group(draft, group):
            draft.arm_expiry(0, ExpireOffsets(group_ids[position:]))
            return
    draft.arm_expiry(draft.settings.offsets_retention_check_interval_ms, ExpireOffsets())


def _expire_group(draft: Draft, group: Group) -> bool:
    """Checks one group. False if the batch became full before its end."""
    is_anything_left = False
    subscribed = _read_topics(draft, group)
    for key, offset in _positions(draft, group.group_id):
        is_read = subscribed is None or key.topic in subscribed
        if is_read or not _is_expired(draft, group, key, offset):
            is_anything_left = True
        elif _is_full(draft):
            return False
        else:
            draft.end_position(key, OFFSET_EXPIRATIONS)
    if (
        not is_anything_left
        and group.is_empty()
        and not group.pending_members
        and group.group_id not in draft.state.pending.producers
    ):
        draft.end_group(group)
    return True


def _is_full(draft: Draft) -> bool:
    """Whether the batch is full. The log would reject a larger one, and nothing would expire."""
    return len(draft.records) >= MAX_TOMBSTONES or draft.ended_characters >= MAX_ENDED_CHARACTERS


def _is_expired(draft: Draft, group: Group, key: OffsetCommitKey, offset: CommittedOffset) -> bool:
    if group.protocol_type is None:
        since_ms = offset.commit_timestamp
    elif group.state is GroupState.EMPTY:
        # records of old brokers do not have this time (-1)
        since_ms = group.state_timestamp_ms if group.state_timestamp_ms >= 0 else offset.commit_timestamp
    elif group.state is GroupState.STABLE and group.is_of_consumers():
        since_ms = offset.commit_timestamp
    else:
        return False
    if offset.expire_timestamp != -1:
        is_old = draft.wall_ms >= offset.expire_timestamp
    else:
        is_old = draft.wall_ms - since_ms >= draft.settings.offsets_retention_ms
    return is_old and not draft.state.pending.has(group.group_id, key.topic, key.partition)


def _read_topics(draft: Draft, group: Group) -> dict[str, None] | None:
    """The topics that a member reads, whose committed offsets stay; None: all topics."""
    if group.group_id not in draft.state.offsets:
        return {}
    return group.subscribed_topics()


def _positions(draft: Draft, group_id: str) -> Iterator[tuple[OffsetCommitKey, CommittedOffset]]:
    for topic, partitions in draft.state.offsets.get(group_id, {}).items():
        for partition, offset in partitions.items():
            yield OffsetCommitKey(group=group_id, topic=topic, partition=partition), offset


def _held_positions(draft: Draft, group_id: str) -> Iterator[OffsetCommitKey]:
    """Committed offsets, and those that only open transactions commit; each once."""
    committed = draft.state.offsets.get(group_id, {})
    for key, _ in _positions(draft, group_id):
        yield key
    for key in draft.state.pending.positions_of(group_id):
        if key.partition not in committed.get(key.topic, {}):
            yield key


# -- by request


def delete_group(draft: Draft, parked: Parked, request: DeleteGroup, *, is_begun: bool = False) -> None:
    """68 for a group with members, 69 for an unknown one. `is_begun`: some of its offsets have ended."""
    group = draft.state.groups.get(request.group_id)
    if group is None or request.group_id in draft.state.other_kinds:
        draft.reply(parked, DeletableGroupResult(request.group_id, _GROUP_ID_NOT_FOUND))
    elif not group.is_empty():
        draft.reply(parked, DeletableGroupResult(request.group_id, _NON_EMPTY_GROUP))
    else:
        _delete(draft, parked, group, is_begun=is_begun)


def continue_deletion(draft: Draft, firing: ContinueDeletion) -> None:
    """Continues with a group whose offsets do not fit in one batch. If a member has joined since, the rest stays, with
    68."""
    delete_group(draft, firing.parked, DeleteGroup(firing.group_id), is_begun=True)


def deletion_not_begun(draft: Draft, failed: DeletionNotBegun) -> None:
    """The client has got an error, and nothing was deleted."""
    draft.end_deletion(failed.parked)


def _delete(draft: Draft, parked: Parked, group: Group, *, is_begun: bool) -> None:
    for key in _held_positions(draft, group.group_id):
        if _is_full(draft):
            draft.continue_deletion(ContinueDeletion(group.group_id, parked), is_first=not is_begun)
            return
        draft.end_position(key, OFFSET_DELETIONS)
    draft.end_group(group)
    draft.reply(parked, DeletableGroupResult(group.group_id))


def delete_offsets(
    draft: Draft, parked: Parked, message: OffsetDeleteRequest, done: tuple[OffsetDeleteResponseTopic, ...] = ()
) -> Pausing[None]:
    """Deletes offsets of existing topics, by name. 86 if a member subscribes to the topic. Unknown offsets are no
    error.

    More than one batch takes several, and the response comes after the last. (Apache Kafka answers -1 and deletes
    none.) `done`: the results so far, the first topic of `message` in part.
    """
    code = _deletion_fault(draft, message.group_id)
    if code:
        draft.reply(parked, OffsetDeleteResponse(error_code=code))
        return
    group = draft.state.groups[message.group_id]
    stored, pending = draft.state.offsets.get(message.group_id, {}), draft.state.pending
    topics = list(done[:-1])
    ended: dict[tuple[str, int], None] = {}
    subscribed = group.subscribed_topics()
    for number, topic in enumerate(message.topics):
        code = _GROUP_SUBSCRIBED_TO_TOPIC if subscribed is None or topic.name in subscribed else 0
        partitions = list(done[-1].partitions) if done and not number else []
        for position, partition in enumerate(topic.partitions):
            index = partition.partition_index
            is_held = index in stored.get(topic.name, {}) or pending.has(message.group_id, topic.name, index)
            if is_held and not code and (topic.name, index) not in ended:
                if _is_full(draft):
                    rest = OffsetDeleteRequestTopic(topic.name, topic.partitions[position:])
                    again = OffsetDeleteRequest(message.group_id, (rest, *message.topics[number + 1 :]))
                    topics.append(OffsetDeleteResponseTopic(topic.name, tuple(partitions)))
                    firing = ContinueOffsetDeletion(again, parked, tuple(topics))
                    draft.continue_deletion(firing, is_first=not done)
                    return
                ended[topic.name, index] = None
                draft.end_position(OffsetCommitKey(message.group_id, topic.name, index), OFFSET_DELETIONS)
            partitions.append(OffsetDeleteResponsePartition(index, code))
            yield
        topics.append(OffsetDeleteResponseTopic(topic.name, tuple(partitions)))
        yield
    draft.reply(parked, OffsetDeleteResponse(topics=tuple(topics)))


def _deletion_fault(draft: Draft, group_id: str) -> int:
    """The error for the deletion of any offset of the group; 0 if deletions are possible."""
    if group_id == "":
        return _INVALID_GROUP_ID
    group = draft.state.groups.get(group_id)
    if group is None or group_id in draft.state.other_kinds:
        return _GROUP_ID_NOT_FOUND
    if not group.is_empty() and not group.is_of_consumers():
        # the subscriptions of its members are unreadable
        return _NON_EMPTY_GROUP
    return 0


# -- with their topics


def forget_topics(draft: Draft, request: ForgetTopics) -> None:
    """Tombstones for the offsets of deleted topics, also those of open transactions, so that a new topic of the same
    name begins without offsets. Offsets of the new topic stay."""
    state = draft.state
    topics: dict[str, dict[Uuid, None]] = {}
    for name, topic_id in request.topics:
        topics.setdefault(name, {})[topic_id] = None
    draft.if_refused.append(TopicsNotForgotten(request.topics))
    for group_id in dict.fromkeys((*state.offsets, *state.pending.producers)):
        committed, pending = state.offsets.get(group_id, {}), state.pending.producers.get(group_id, {})
        for topic, ids in topics.items():
            for partition in dict.fromkeys((*committed.get(topic, ()), *pending.get(topic, ()))):
                key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
                # a tombstone removes every commit of the partition, but a transaction's commit for the new topic must
                # stay
                if any(offset.topic_id not in ids for offset in offsets_at(state, key)):
                    continue
                if _is_full(draft):
                    draft.continue_forgetting(request)
                    return
                draft.end_position(key, OFFSET_DELETIONS)


def topics_not_forgotten(draft: Draft, failed: TopicsNotForgotten) -> None:
    """Tries again. Otherwise the offsets stay until the next load, and a new topic of the name would have them."""
    draft.continue_forgetting(ForgetTopics(failed.topics), TIMER_RETRY_MS)
