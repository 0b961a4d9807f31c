"""Staying and going: Heartbeat, LeaveGroup, and the session that runs out."""

from __future__ import annotations

from moldau.core.groups.classic.group import Group, GroupState, Member, Parked
from moldau.core.groups.classic.rebalance import (
    REBALANCE_IN_PROGRESS,
    complete_join_if_all_joined,
    prepare_or_complete_join,
)
from moldau.core.groups.refusals import refused_join, refused_leave
from moldau.core.groups.requests import SessionExpired
from moldau.core.groups.turn import Turn
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
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


def heartbeat(turn: Turn, parked: Parked, message: HeartbeatRequest) -> None:
    """v0-4. Renews the session; 27 asks the member to join again."""
    try:
        group = _known_group(turn, message.group_id)
        group.check_member(message.member_id, message.group_instance_id)
        if message.generation_id != group.generation:
            raise kafka_error("ILLEGAL_GENERATION")
    except KafkaError as error:
        turn.reply(parked, HeartbeatResponse(error_code=error.code))
        return
    turn.arm_session(group, group.members[message.member_id])
    is_rebalancing = group.state is GroupState.PREPARING_REBALANCE
    turn.reply(parked, HeartbeatResponse(error_code=REBALANCE_IN_PROGRESS if is_rebalancing else 0))


def _known_group(turn: Turn, group_id: str) -> Group:
    if group_id == "":
        raise kafka_error("INVALID_GROUP_ID")
    group = turn.state.groups.get(group_id)
    if group is None:
        raise kafka_error("UNKNOWN_MEMBER_ID")
    return group


def leave(turn: Turn, parked: Parked, message: LeaveGroupRequest) -> None:
    """v0-5. From v3 on many members, also by instance id alone, as an administrator removes them."""
    if parked.api_version < 3:
        message = LeaveGroupRequest(message.group_id, members=(MemberIdentity(member_id=message.member_id),))
    if message.group_id == "":
        turn.reply(parked, LeaveGroupResponse(error_code=ERROR_CODES["INVALID_GROUP_ID"]))
        return
    group = turn.state.groups.get(message.group_id)
    if group is None:
        turn.reply(parked, refused_leave(message, _UNKNOWN_MEMBER_ID, parked.api_version))
        return
    codes = [_leave_one(turn, group, member) for member in message.members]
    if 0 in codes:
        _after_removal(turn, group)
    if parked.api_version < 3:
        turn.reply(parked, LeaveGroupResponse(error_code=codes[0]))
        return
    members = tuple(
        MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)
        for member, code in zip(message.members, codes, strict=True)
    )
    turn.reply(parked, LeaveGroupResponse(members=members))


def _leave_one(turn: Turn, group: Group, identity: MemberIdentity) -> int:
    """Removes one member and gives its error code."""
    member_id = identity.member_id
    if member_id == "":
        member_id = group.static_members.get(identity.group_instance_id or "", "")
        if identity.group_instance_id is None or member_id == "":
            return _UNKNOWN_MEMBER_ID
    elif member_id in group.pending_members:
        group.remove(member_id)
        turn.cancel_session(group, member_id)
        return 0
    else:
        try:
            group.check_member(member_id, identity.group_instance_id)
        except KafkaError as error:
            return error.code
    _remove_member(turn, group, group.members[member_id])
    return 0


def _remove_member(turn: Turn, group: Group, member: Member) -> None:
    """Whatever the member waits for ends with 25, so that a client that still lives joins again."""
    joining = group.unpark_join(member)
    if joining is not None:
        turn.reply(joining, refused_join(_UNKNOWN_MEMBER_ID, "", joining.api_version))
    syncing, member.awaiting_sync = member.awaiting_sync, None
    if syncing is not None:
        # Kafka leaves this one without an answer
        turn.reply(syncing, SyncGroupResponse(error_code=_UNKNOWN_MEMBER_ID))
    group.remove(member.member_id)
    turn.cancel_session(group, member.member_id)


def _after_removal(turn: Turn, group: Group) -> None:
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_join_if_all_joined(turn, group)
    elif group.state is not GroupState.EMPTY:
        prepare_or_complete_join(turn, group)


def session_expired(turn: Turn, firing: SessionExpired) -> None:
    """The timer of a session. Members that wait for a rebalance are taken to be alive, except new ones."""
    group = turn.state.groups.get(firing.group_id)
    if group is None:
        return
    pending_until_ms = group.pending_members.get(firing.member_id)
    if pending_until_ms is not None:
        if pending_until_ms <= turn.now_ms:
            group.remove(firing.member_id)
            complete_join_if_all_joined(turn, group)
        return
    member = group.members.get(firing.member_id)
    if member is None or member.session_deadline_ms > turn.now_ms:
        return
    is_waiting = member.awaiting_join is not None or member.awaiting_sync is not None
    if is_waiting and not member.is_new:
        return
    _remove_member(turn, group, member)
    _after_removal(turn, group)
