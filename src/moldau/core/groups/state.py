"""The state of one partition of `__consumer_offsets`.

*Durable* (`offsets`, `pending`, `other_kinds`): only `fold_record` and `fold_transaction_end` change it. Applying the
log gives exactly these. *Volatile* (`groups`): a load builds it from the last metadata record of each group, decisions
change it. If a record completes a decision (the assignments of a generation, a static member's successor), the fold
also changes the living group, so that a failed append leaves the group unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from moldau.core.groups.classic.group import Group, GroupState, group_from_record
from moldau.core.groups.classic.memory import MemberMemory
from moldau.core.groups.committed_offsets import CommittedOffset, OffsetsByPartition, PendingOffsets, remove_position
from moldau.core.groups.records import GroupMetadataRecord, GroupRecord, OffsetRecord, OtherKindRecord
from moldau.types import NO_PRODUCER_ID, Offset, Pausing, ProducerId, Uuid
from moldau.wire.protocol.messages.group_records import GroupMetadataValue, OffsetCommitKey, OffsetCommitValue


class GroupsState(msgspec.Struct):
    """The groups of one partition of `__consumer_offsets`: see the module."""

    offsets: dict[str, OffsetsByPartition] = msgspec.field(default_factory=dict)
    """By group."""
    pending: PendingOffsets = msgspec.field(default_factory=PendingOffsets)
    other_kinds: dict[str, str] = msgspec.field(default_factory=dict)
    """Group id to the kind of a group that is not classic."""
    groups: dict[str, Group] = msgspec.field(default_factory=dict)
    is_loaded: bool = False
    memory: MemberMemory = msgspec.field(default_factory=MemberMemory)


def fold_record(state: GroupsState, offset: Offset, producer_id: ProducerId, record: GroupRecord) -> None:
    """Applies one record of the log."""
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
        # as in Kafka, a deleted offset does not return with the transaction that commits it
        remove_position(state.offsets, key)
        state.pending.forget(key)
        return
    committed = CommittedOffset(**msgspec.structs.asdict(value), record_offset=offset)
    _hold_group(state, key.group)
    if producer_id == NO_PRODUCER_ID:
        state.offsets.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = committed
    else:
        state.pending.put(producer_id, key, committed)


def _hold_group(state: GroupsState, group_id: str) -> None:
    """A commit creates a group, even without members."""
    if group_id not in state.groups:
        state.groups[group_id] = Group(group_id=group_id, memory=state.memory)


def _fold_metadata(state: GroupsState, group_id: str, value: GroupMetadataValue | None) -> None:
    if value is None:
        ended = state.groups.pop(group_id, None)
        if ended is not None:
            ended.dissolve()
        return
    # a classic group replaces one of another kind with the same name
    state.other_kinds.pop(group_id, None)
    group = state.groups.get(group_id)
    if not state.is_loaded or group is None:
        if group is not None:
            group.dissolve()
        state.groups[group_id] = group_from_record(group_id, value, state.memory)
    else:
        _settle(group, value)


def _settle(group: Group, value: GroupMetadataValue) -> None:
    """Applies the record to the living group."""
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


def fold_transaction_end(state: GroupsState, producer_id: ProducerId, committed: bool) -> Pausing[None]:
    """The producer's pending offsets take effect or are dropped. An offset that was committed later stays."""
    for key, offset in state.pending.end(producer_id):
        if committed:
            _hold_group(state, key.group)
            target = state.offsets.setdefault(key.group, {}).setdefault(key.topic, {})
            present = target.get(key.partition)
            if present is None or present.record_offset < offset.record_offset:
                target[key.partition] = offset
        yield


def offsets_at(state: GroupsState, key: OffsetCommitKey) -> Iterator[CommittedOffset]:
    """The committed offset of the partition, and those of open transactions."""
    committed = state.offsets.get(key.group, {}).get(key.topic, {}).get(key.partition)
    if committed is not None:
        yield committed
    yield from state.pending.offsets_at(key)


def topic_ids(state: GroupsState, names: Iterable[str]) -> tuple[tuple[str, Uuid], ...]:
    """The topics `names` with each id that any of their offsets has, sorted."""
    wanted = dict.fromkeys(names)
    found: dict[tuple[str, Uuid], None] = {}
    for positions in (state.offsets, *state.pending.by_producer.values()):
        for topics in positions.values():
            for topic, partitions in topics.items():
                if topic in wanted:
                    found |= {(topic, offset.topic_id): None for offset in partitions.values()}
    return tuple(sorted(found))


def topics_with_offsets(state: GroupsState) -> tuple[str, ...]:
    """The topics with any committed offset, or one of an open transaction, sorted. After a load those that no longer
    exist are forgotten."""
    names = {topic: None for topics in state.offsets.values() for topic in topics}
    names |= {topic: None for topics in state.pending.producers.values() for topic in topics}
    return tuple(sorted(names))
