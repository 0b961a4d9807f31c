"""Heartbeat, LeaveGroup and expired sessions."""

from __future__ import annotations

from collections.abc import Container

from moldau.core.groups.classic.group import Group, GroupState, Member, Parked
from moldau.core.groups.classic.rebalance import (
    REBALANCE_IN_PROGRESS,
    complete_join_if_all_joined,
    prepare_or_complete_join,
)
from moldau.core.groups.draft import Draft
from moldau.core.groups.refusals import refused_join, refused_leave
from moldau.core.groups.requests import SessionExpired
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.types import Pausing
from moldau.wire.protocol.messages.groups_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupResponse,
)

_UNKNOWN_MEMBER_ID = ERROR_CODES["UNKNOWN_MEMBER_ID"]


def heartbeat(draft: Draft, parked: Parked, message: HeartbeatRequest) -> None:
    """v0-4. Extends the session. 27 tells the member to join again."""
    try:
        group = _known_group(draft, message.group_id)
        group.check_member(message.member_id, message.group_instance_id)
        if message.generation_id != group.generation:
            raise kafka_error("ILLEGAL_GENERATION")
    except KafkaError as error:
        draft.reply(parked, HeartbeatResponse(error_code=error.code))
        return
    draft.arm_session(group, group.members[message.member_id])
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    draft.reply(parked, HeartbeatResponse(error_code=REBALANCE_IN_PROGRESS if is_rebalancing else 0))


def _known_group(draft: Draft, group_id: str) -> Group:
    if group_id == "":
        raise kafka_error("INVALID_GROUP_ID")
    group = draft.state.groups.get(group_id)
    if group is None:
        raise kafka_error("UNKNOWN_MEMBER_ID")
    return group


def leave(draft: Draft, parked: Parked, message: LeaveGroupRequest) -> Pausing[None]:
    """v0-5. From v3 on several members, also by instance id, for administrators."""
    if parked.api_version < 3:
        message = LeaveGroupRequest(message.group_id, members=(MemberIdentity(member_id=message.member_id),))
    if message.group_id == "":
        draft.reply(parked, LeaveGroupResponse(error_code=ERROR_CODES["INVALID_GROUP_ID"]))
        return
    group = draft.state.groups.get(message.group_id)
    if group is None:
        draft.reply(parked, (yield from refused_leave(message, _UNKNOWN_MEMBER_ID, parked.api_version)))
        return
    members: list[MemberResponse] = []
    leaving: dict[str, None] = {}
    for identity in message.members:
        code = 0
        try:
            leaving[_leaver(group, identity, leaving)] = None
        except KafkaError as error:
            code = error.code
        members.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
        yield
    for member_id in leaving:
        _remove(draft, group, member_id)
    if leaving:
        _after_removal(draft, group)
    if parked.api_version < 3:
        draft.reply(parked, LeaveGroupResponse(error_code=members[0].error_code))
    else:
        draft.reply(parked, LeaveGroupResponse(members=tuple(members)))


def _leaver(group: Group, identity: MemberIdentity, leaving: Container[str]) -> str:
    """The member id of the leaving member. `leaving`: members that leave by the same request. Raises 25, 82."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if member_id != "" and member_id in group.pending_members and member_id not in leaving:
        return member_id
    holder = "" if instance_id is None else group.static_members.get(instance_id, "")
    if holder in leaving or member_id in leaving or (member_id == "" and holder == ""):
        raise kafka_error("UNKNOWN_MEMBER_ID")
    if member_id == "":
        return holder
    group.check_member(member_id, instance_id)
    return member_id


def _remove(draft: Draft, group: Group, member_id: str) -> None:
    if member_id in group.pending_members:
        group.remove(member_id)
        draft.cancel_session(group, member_id)
    else:
        _remove_member(draft, group, group.members[member_id])


def _remove_member(draft: Draft, group: Group, member: Member) -> None:
    """Answers the member's waiting requests with 25, so that a living client joins again."""
    joining = group.unpark_join(member)
    if joining is not None:
        draft.reply(joining, refused_join(_UNKNOWN_MEMBER_ID, "", joining.api_version))
    syncing, member.awaiting_sync = member.awaiting_sync, None
    if syncing is not None:
        # Kafka does not answer this request
        draft.reply(syncing, SyncGroupResponse(error_code=_UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    draft.cancel_session(group, member.member_id)


def _after_removal(draft: Draft, group: Group) -> None:
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(draft, group)
    elif group.state is not GroupState.EMPTY:
        prepare_or_complete_join(draft, group)


def session_expired(draft: Draft, firing: SessionExpired) -> None:
    """The session timer. Members that wait for a rebalance count as alive, except new ones."""
    group = draft.state.groups.get(firing.group_id)
    if group is None:
        return
    pending_until_ms = group.pending_members.get(firing.member_id)
    if pending_until_ms is not None:
        if pending_until_ms <= draft.now_ms:
            group.remove(firing.member_id)
            complete_join_if_all_joined(draft, group)
        return
    member = group.members.get(firing.member_id)
    if member is None or member.session_deadline_ms > draft.now_ms:
        return
    is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
    if is_waiting and not member.is_new:
        return
    _remove_member(draft, group, member)
    _after_removal(draft, group)
