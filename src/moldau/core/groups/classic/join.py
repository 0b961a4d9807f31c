"""JoinGroup: new members, known members that join again, restarted static members.

v0-9. v4: a new dynamic member gets MEMBER_ID_REQUIRED first (KIP-394). v5: static members (KIP-345). v7: protocol type
and name in the response (KIP-559). v9: a restarted static leader may skip its assignment (KIP-814).
"""

from __future__ import annotations

from uuid import UUID

from moldau.core.groups.classic.group import Group, GroupState, Member, Parked, members_for_leader, select_protocol
from moldau.core.groups.classic.memory import MEMBER_BYTES, protocols_bytes
from moldau.core.groups.classic.rebalance import (
    REBALANCE_IN_PROGRESS,
    complete_join_if_all_joined,
    generation_reply,
    has_memory,
    prepare_or_complete_join,
)
from moldau.core.groups.draft import Draft
from moldau.core.groups.records import group_metadata_record, new_group_record
from moldau.core.groups.refusals import refused_join
from moldau.core.groups.requests import GroupNotMade, GroupNotWritten, GroupRequest
from moldau.errors import ERROR_CODES, KafkaError
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequest, JoinGroupResponse, SyncGroupResponse
from moldau.wire.protocol.runtime import MAX_STRING_BYTES

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""A parked join of a new member fails after this time. Otherwise a member whose client is gone would stay unnoticed."""
MAX_PENDING_MEMBERS = 10_000
"""The most unused member ids of a group. Kafka has no such bound."""

_MAX_PREFIX_BYTES = MAX_STRING_BYTES - len("-") - len(str(UUID(int=0)))

_FENCED_INSTANCE_ID = ERROR_CODES["FENCED_INSTANCE_ID"]


def join(draft: Draft, parked: Parked, request: GroupRequest, message: JoinGroupRequest) -> None:
    """Decides a JoinGroup. A member that must wait for others is parked."""
    error = _refusal_before_group(draft, request, message)
    if error is not None:
        _refuse(draft, parked, "", error)
        return
    group = draft.state.groups.get(message.group_id)
    if group is None:
        if message.member_id != "":
            _refuse(draft, parked, message.member_id, "UNKNOWN_MEMBER_ID")
            return
        if len(draft.state.groups) >= draft.settings.moldau_groups:
            draft.state.memory.bound_reached("moldau.groups")
            _refuse(draft, parked, "", "GROUP_MAX_SIZE_REACHED")
            return
        group = Group(group_id=message.group_id, state_timestamp_ms=draft.wall_ms, memory=draft.state.memory)
        _join_group(draft, parked, request, message, group)
        if group.members or group.pending_members:
            # Kafka creates the group even if its first member is rejected
            draft.state.groups[message.group_id] = group
            draft.records.append(new_group_record(group))
            draft.if_refused.append(GroupNotMade(group.group_id))
    else:
        _join_group(draft, parked, request, message, group)


def group_not_made(draft: Draft, failed: GroupNotMade) -> None:
    """Removes the new group and its only member, which got an error. Otherwise later members would wait for a member
    that no client knows."""
    group = draft.state.groups.pop(failed.group_id)
    for member_id in (*group.members, *group.pending_members):
        draft.cancel_session(group, member_id)
    draft.cancel_join(group)
    group.dissolve()


def _refusal_before_group(draft: Draft, request: GroupRequest, message: JoinGroupRequest) -> str | None:
    if message.group_id == "":
        return "INVALID_GROUP_ID"
    settings = draft.settings
    if not settings.group_min_session_timeout_ms <= message.session_timeout_ms <= settings.group_max_session_timeout_ms:
        return "INVALID_SESSION_TIMEOUT"
    if draft.state.other_kinds.get(message.group_id, "consumer") != "consumer":
        return "INCONSISTENT_GROUP_PROTOCOL"
    if _asked_bytes(message) > settings.moldau_group_member_bytes:
        draft.state.memory.bound_reached("moldau.group.member.bytes")
        return "INVALID_REQUEST"
    if message.member_id == "" and len(_prefix_of_member_id(request, message).encode()) > _MAX_PREFIX_BYTES:
        # Kafka accepts the member, and then answers its leader and each DescribeGroups of the group with -1
        return "INVALID_REQUEST"
    return None


def _prefix_of_member_id(request: GroupRequest, message: JoinGroupRequest) -> str:
    """The prefix of a new member id: the instance id of a static member, the client id of any other."""
    return (request.client_id or "") if message.group_instance_id is None else message.group_instance_id


def _asked_bytes(message: JoinGroupRequest) -> int:
    """The memory that the member will use, without the names from its connection."""
    ids = len(message.member_id) + len(message.group_instance_id or "")
    return MEMBER_BYTES + ids + protocols_bytes(message.protocols)


def _refuse(draft: Draft, parked: Parked, member_id: str, error: str) -> None:
    draft.reply(parked, refused_join(ERROR_CODES[error], member_id, parked.api_version))


def _join_group(draft: Draft, parked: Parked, request: GroupRequest, message: JoinGroupRequest, group: Group) -> None:
    if not _has_room(draft, group, message.member_id):
        _refuse(draft, parked, "", "GROUP_MAX_SIZE_REACHED")
        _take_out(draft, group, message.member_id)
    elif not _has_memory(draft, request, message, group):
        # a member that is in the group stays there unchanged
        _refuse(draft, parked, message.member_id, "GROUP_MAX_SIZE_REACHED")
    elif not group.supports(message.protocol_type, message.protocols):
        _refuse(draft, parked, message.member_id, "INCONSISTENT_GROUP_PROTOCOL")
    elif message.member_id != "":
        _join_known_member(draft, parked, request, message, group)
    elif message.group_instance_id is not None:
        _join_static_member(draft, parked, request, message, group)
    elif parked.api_version >= 4:
        member_id = _new_member_id(draft, request, message)
        group.add_pending(member_id, draft.now_ms + message.session_timeout_ms)
        draft.arm_pending_session(group, member_id, message.session_timeout_ms)
        _refuse(draft, parked, member_id, "MEMBER_ID_REQUIRED")
    else:
        _add_member(draft, parked, request, message, group, _new_member_id(draft, request, message))


def _take_out(draft: Draft, group: Group, member_id: str) -> None:
    """Removes a member without room. The others may have waited only for this one."""
    if member_id in group.members or member_id in group.pending_members:
        group.remove(member_id)
        draft.cancel_session(group, member_id)
        complete_join_if_all_joined(draft, group)


def _has_room(draft: Draft, group: Group, member_id: str) -> bool:
    if member_id == "" and len(group.pending_members) >= MAX_PENDING_MEMBERS:
        return False
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        # counts waiting joins, not members: if max_size was lowered, the last members to join again are rejected
        member = group.members.get(member_id)
        is_waiting = member is not None and member.awaiting_join is not None
        return is_waiting or group.awaiting_join_count < draft.settings.group_max_size
    return member_id in group.members or len(group.members) < draft.settings.group_max_size


def _has_memory(draft: Draft, request: GroupRequest, message: JoinGroupRequest, group: Group) -> bool:
    member_id = message.member_id or group.static_members.get(message.group_instance_id or "", "")
    member = group.members.get(member_id)
    if member is not None and member.protocols == message.protocols:
        return True  # a member that joins again with the same protocols is always accepted
    # a static member's id begins with its instance id, a dynamic member's with the client id
    grown_bytes = _asked_bytes(message) + 2 * max(len(request.client_id or ""), len(message.group_instance_id or ""))
    return has_memory(draft, group, grown_bytes)


def _new_member_id(draft: Draft, request: GroupRequest, message: JoinGroupRequest) -> str:
    return f"{_prefix_of_member_id(request, message)}-{UUID(bytes=draft.random.random_bytes(16), version=4)}"


def _new_member(parked: Parked, request: GroupRequest, message: JoinGroupRequest, member_id: str) -> Member:
    return Member(
        member_id=member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id or "",
        client_host=f"/{request.client_host}",
        rebalance_timeout_ms=_rebalance_timeout_ms(parked, message),
        session_timeout_ms=message.session_timeout_ms,
        protocols=message.protocols,
    )


def _rebalance_timeout_ms(parked: Parked, message: JoinGroupRequest) -> int:
    # v0 has no rebalance timeout
    return message.session_timeout_ms if parked.api_version == 0 else message.rebalance_timeout_ms


def _add_member(
    draft: Draft, parked: Parked, request: GroupRequest, message: JoinGroupRequest, group: Group, member_id: str
) -> None:
    member = _new_member(parked, request, message, member_id)
    member.is_new = True
    member.awaiting_join = parked
    if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
        group.was_member_added = True
    if not group.members:
        group.protocol_type = message.protocol_type
    group.add(member)
    draft.arm_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    prepare_or_complete_join(draft, group)


# known members


def _join_known_member(
    draft: Draft, parked: Parked, request: GroupRequest, message: JoinGroupRequest, group: Group
) -> None:
    if message.member_id in group.pending_members:
        if message.group_instance_id is not None:
            # a static member never gets a pending id
            _refuse(draft, parked, message.member_id, "UNKNOWN_SERVER_ERROR")
            return
        _add_member(draft, parked, request, message, group, message.member_id)
        return
    try:
        group.check_member(message.member_id, message.group_instance_id)
    except KafkaError as error:
        draft.reply(parked, refused_join(error.code, message.member_id, parked.api_version))
        return
    member = group.members[message.member_id]
    has_changed = member.protocols != message.protocols
    if group.state is GroupState.EMPTY:
        _refuse(draft, parked, message.member_id, "UNKNOWN_MEMBER_ID")
    elif group.state is GroupState.COMPLETING_REBALANCE and not has_changed:
        # it may have missed the response to its last join
        draft.reply(parked, generation_reply(group, member))
    elif group.state is GroupState.STABLE and not has_changed and group.leader_id != member.member_id:
        # a leader that joins again wants a rebalance, because it may know of a change that is in no member's metadata
        draft.reply(parked, generation_reply(group, member))
    else:
        _update_member(draft, parked, message, group, member)
        prepare_or_complete_join(draft, group)


def _update_member(draft: Draft, parked: Parked, message: JoinGroupRequest, group: Group, member: Member) -> None:
    group.update(member, message.protocols, _rebalance_timeout_ms(parked, message), message.session_timeout_ms)
    earlier = group.park_join(member, parked)
    if earlier is not None:
        # Kafka never answers the earlier request
        draft.reply(earlier, refused_join(REBALANCE_IN_PROGRESS, member.member_id, earlier.api_version))


# static members


def _join_static_member(
    draft: Draft, parked: Parked, request: GroupRequest, message: JoinGroupRequest, group: Group
) -> None:
    instance_id = message.group_instance_id or ""
    member_id = _new_member_id(draft, request, message)
    old_member_id = group.static_members.get(instance_id)
    if old_member_id is None:
        _add_member(draft, parked, request, message, group, member_id)
        return
    old = group.members[old_member_id]
    new = _new_member(parked, request, message, member_id)
    new.client_id, new.client_host = old.client_id, old.client_host
    new.assignment, new.is_new = old.assignment, False
    if new.protocols == old.protocols:
        new.protocols = old.protocols  # share one copy of the metadata
    _fence(draft, group, old)
    draft.cancel_session(group, old.member_id)
    draft.arm_session(group, new)
    if group.state is GroupState.STABLE:
        members = tuple(new if member is old else member for member in group.members.values())
        if select_protocol(members) == group.protocol_name:
            _replace_in_stable_group(draft, parked, group, old, new, members)
            return
    new.awaiting_join = parked
    group.replace_static(old.member_id, new)
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(draft, group)
    else:
        # in CompletingRebalance the leader may be assigning to the old member id
        prepare_or_complete_join(draft, group)


def _fence(draft: Draft, group: Group, old: Member) -> None:
    """Rejects the waiting requests of the member that had the instance id before."""
    joining = group.unpark_join(old)
    if joining is not None:
        draft.reply(joining, refused_join(_FENCED_INSTANCE_ID, old.member_id, joining.api_version))
    syncing, old.awaiting_sync = old.awaiting_sync, None
    if syncing is not None:
        draft.reply(syncing, SyncGroupResponse(error_code=_FENCED_INSTANCE_ID))


def _replace_in_stable_group(
    draft: Draft, parked: Parked, group: Group, old: Member, new: Member, members: tuple[Member, ...]
) -> None:
    """The successor takes over the assignment without a rebalance, once the record is in the log (see state.py)."""
    group.replacement = new
    is_leader = group.leader_id == old.member_id
    leader_id = new.member_id if is_leader else group.leader_id
    assignments = {member.member_id: member.assignment for member in members}
    draft.records.append(group_metadata_record(group, members, leader_id, assignments))
    draft.if_refused.append(GroupNotWritten(group.group_id))
    can_skip = parked.api_version >= 9
    # before v9 the response names the old id of the leader, so that the new member does not assign again
    draft.reply(
        parked,
        JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=(leader_id if can_skip else group.leader_id) or "",
            skip_assignment=can_skip and is_leader,
            member_id=new.member_id,
            members=members_for_leader(group.protocol_name or "", members) if can_skip and is_leader else (),
        ),
    )
