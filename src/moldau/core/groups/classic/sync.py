"""SyncGroup: the leader hands in the assignments, everybody fetches its own.

v0-5; v5 checks protocol type and name (KIP-559). The assignments count once they stand in the log.
"""

from __future__ import annotations

from moldau.core.groups.classic.group import Group, GroupState, Parked
from moldau.core.groups.classic.rebalance import REBALANCE_IN_PROGRESS, answer_sync, prepare
from moldau.core.groups.records import group_metadata_record
from moldau.core.groups.requests import SyncPhaseOver
from moldau.core.groups.turn import Turn
from moldau.errors import KafkaError, kafka_error
from moldau.wire.protocol.messages.groups_classic import SyncGroupRequest, SyncGroupResponse


def sync(turn: Turn, parked: Parked, message: SyncGroupRequest) -> None:
    """Decides a SyncGroup; members are parked until the leader's assignments are in the log."""
    try:
        group = _checked_group(turn, parked, message)
    except KafkaError as error:
        turn.reply(parked, SyncGroupResponse(error_code=error.code))
        return
    group.pending_sync.pop(message.member_id, None)
    if not group.pending_sync:
        turn.cancel_sync(group)
    member = group.members[message.member_id]
    if group.state is GroupState.STABLE:
        turn.reply(parked, _assignment_reply(group, member.assignment))
        return
    earlier, member.awaiting_sync = member.awaiting_sync, parked
    if earlier is not None:
        # Kafka leaves the earlier request without an answer for ever
        turn.reply(earlier, SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
    if group.leader_id == message.member_id:
        _hand_out(turn, group, message)


def _checked_group(turn: Turn, parked: Parked, message: SyncGroupRequest) -> Group:
    if parked.api_version >= 5 and None in (message.protocol_type, message.protocol_name):
        raise kafka_error("INCONSISTENT_GROUP_PROTOCOL")
    if message.group_id == "":
        raise kafka_error("INVALID_GROUP_ID")
    group = turn.state.groups.get(message.group_id)
    if group is None:
        raise kafka_error("UNKNOWN_MEMBER_ID")
    group.check_member(message.member_id, message.group_instance_id)
    if message.generation_id != group.generation:
        raise kafka_error("ILLEGAL_GENERATION")
    if _differs(message.protocol_type, group.protocol_type) or _differs(message.protocol_name, group.protocol_name):
        raise kafka_error("INCONSISTENT_GROUP_PROTOCOL")
    if group.state is GroupState.PREPARING_REBALANCE:
        raise kafka_error("REBALANCE_IN_PROGRESS")
    return group


def _differs(asked: str | None, present: str | None) -> bool:
    return asked is not None and present is not None and asked != present


def _hand_out(turn: Turn, group: Group, message: SyncGroupRequest) -> None:
    given = {assignment.member_id: assignment.assignment for assignment in message.assignments}
    members = tuple(group.members.values())
    turn.records.append(group_metadata_record(group, members, group.leader_id, given))
    for member in members:
        answer_sync(turn, group, member, _assignment_reply(group, given.get(member.member_id, b"")))


def _assignment_reply(group: Group, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def sync_phase_over(turn: Turn, firing: SyncPhaseOver) -> None:
    """The timer of the sync phase: who has not asked for its assignment is out, and the rest begins anew."""
    group = turn.state.groups.get(firing.group_id)
    if group is None or group.generation != firing.generation or not group.pending_sync:
        return
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    for member_id in list(group.pending_sync):
        group.remove(member_id)
        turn.cancel_session(group, member_id)
    prepare(turn, group)
