"""What one partition of `__consumer_offsets` says, and what lives on top of it.

*Durable*, changed by `fold_record` and `fold_transaction_end` only: `offsets`, `pending_offsets`, `other_kinds`.
Folding the log gives exactly these. *Volatile*, made from the last metadata record of each group by a load and changed
by decisions: `groups`. Where a record settles what a decision began (the assignments of a generation, a static member's
successor), the fold carries it over into the living group, so that a failed append leaves the group as it was.
"""

from __future__ import annotations

import msgspec

from moldau.core.groups.classic.group import Group, GroupState, group_from_record
from moldau.core.groups.classic.memory import MemberMemory
from moldau.core.groups.records import GroupMetadataRecord, GroupRecord, OffsetRecord, OtherKindRecord
from moldau.types import NO_PRODUCER_ID, Offset, ProducerId
from moldau.wire.protocol.messages.group_records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue


class CommittedOffset(OffsetCommitValue, frozen=True):
    """One committed position; `expire_timestamp` -1 unless the client asked for a retention time (before v5)."""

    record_offset: Offset = Offset(-1)
    """Where the record stands in `__consumer_offsets`."""


OffsetsByPartition = dict[str, dict[int, CommittedOffset]]
"""Topic name, then partition index."""


class GroupsState(msgspec.Struct):
    """See the module."""

    offsets: dict[str, OffsetsByPartition] = msgspec.field(default_factory=dict)
    pending_offsets: dict[ProducerId, dict[str, OffsetsByPartition]] = msgspec.field(default_factory=dict)
    """Transactional commits whose marker has not come, by producer, then group."""
    other_kinds: dict[str, str] = msgspec.field(default_factory=dict)
    """Group id to the kind of a group that is not classic."""
    groups: dict[str, Group] = msgspec.field(default_factory=dict)
    is_loaded: bool = False
    memory: MemberMemory = msgspec.field(default_factory=MemberMemory)


def fold_record(state: GroupsState, offset: Offset, producer_id: ProducerId, record: GroupRecord) -> None:
    """Takes one record of the log."""
    if isinstance(record, OffsetRecord):
        _fold_offset(state, offset, producer_id, record.key, record.value)
    elif isinstance(record, GroupMetadataRecord):
        _fold_metadata(state, record.key.group, record.value)
    elif isinstance(record, OtherKindRecord):
        if record.is_tombstone:
            state.other_kinds.pop(record.group_id, None)
        else:
            state.other_kinds[record.group_id] = record.kind


def _fold_offset(
    state: GroupsState, offset: Offset, producer_id: ProducerId, key: OffsetCommitKey, value: OffsetCommitValue | None
) -> None:
    if value is None:
        remove_offset(state.offsets, key)
        if producer_id != NO_PRODUCER_ID:
            remove_offset(state.pending_offsets.get(producer_id, {}), key)
        return
    committed = CommittedOffset(**msgspec.structs.asdict(value), record_offset=offset)
    if key.group not in state.groups:
        state.groups[key.group] = Group(group_id=key.group, memory=state.memory)
    target = state.offsets if producer_id == NO_PRODUCER_ID else state.pending_offsets.setdefault(producer_id, {})
    target.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = committed


def remove_offset(offsets: dict[str, OffsetsByPartition], key: OffsetCommitKey) -> None:
    """Leaves no empty dictionaries behind."""
    topics = offsets.get(key.group, {})
    partitions = topics.get(key.topic, {})
    partitions.pop(key.partition, None)
    if not partitions:
        topics.pop(key.topic, None)
    if not topics:
        offsets.pop(key.group, None)


def _fold_metadata(state: GroupsState, group_id: str, value: GroupMetadataValue | None) -> None:
    if value is None:
        ended = state.groups.pop(group_id, None)
        if ended is not None:
            ended.dissolve()
        return
    # a classic group takes the place of one of another kind that had the name
    state.other_kinds.pop(group_id, None)
    group = state.groups.get(group_id)
    if not state.is_loaded or group is None:
        if group is not None:
            group.dissolve()
        state.groups[group_id] = group_from_record(group_id, value, state.memory)
    else:
        _settle(group, value)


def _settle(group: Group, value: GroupMetadataValue) -> None:
    """The living group takes over what is in the log now."""
    replacement, group.replacement = group.replacement, None
    if value.generation != group.generation or not value.members:
        return
    if group.state is GroupState.COMPLETING_REBALANCE:
        for recorded in value.members:
            member = group.members.get(recorded.member_id)
            if member is not None:
                group.assign(member, recorded.assignment)
        group.transition_to(GroupState.STABLE, value.current_state_timestamp)
    elif replacement is not None and replacement.instance_id is not None:
        old_member_id = group.static_members.get(replacement.instance_id)
        if old_member_id is not None:
            group.replace_static(old_member_id, replacement)


def fold_transaction_end(state: GroupsState, producer_id: ProducerId, committed: bool) -> None:
    """The producer's pending offsets count from now on, or never did; an offset committed since then stays."""
    pending = state.pending_offsets.pop(producer_id, {})
    if not committed:
        return
    for group_id, topics in pending.items():
        for topic, partitions in topics.items():
            target = state.offsets.setdefault(group_id, {}).setdefault(topic, {})
            for partition, offset in partitions.items():
                present = target.get(partition)
                if present is None or present.record_offset < offset.record_offset:
                    target[partition] = offset


def is_offset_pending(state: GroupsState, group_id: str, topic: str, partition: int) -> bool:
    """Does an open transaction hold a commit of this partition?"""
    return any(partition in groups.get(group_id, {}).get(topic, {}) for groups in state.pending_offsets.values())


def topics_with_offsets(state: GroupsState) -> tuple[str, ...]:
    """Topics that any group has an offset of, sorted: those that no longer exist are to be forgotten after a load."""
    return tuple(sorted({topic: None for topics in state.offsets.values() for topic in topics}))
