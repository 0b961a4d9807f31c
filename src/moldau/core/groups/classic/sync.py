"""SyncGroup: the leader sends the assignments, every member gets its own.

v0-5; v5 checks protocol type and name (KIP-559). The assignments take effect when they are in the log.
"""

from __future__ import annotations

from moldau.core.groups.classic.group import Group, GroupState, Parked
from moldau.core.groups.classic.rebalance import REBALANCE_IN_PROGRESS, answer_sync, has_memory, prepare
from moldau.core.groups.counters import REBALANCES
from moldau.core.groups.draft import Draft
from moldau.core.groups.records import group_metadata_record
from moldau.core.groups.requests import GroupNotWritten, SyncPhaseOver
from moldau.errors import ERROR_CODES, KafkaError, kafka_error
from moldau.types import Pausing
from moldau.wire.protocol.messages.groups_classic import SyncGroupRequest, SyncGroupResponse

_INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
_GROUP_MAX_SIZE_REACHED = ERROR_CODES["GROUP_MAX_SIZE_REACHED"]


def sync(draft: Draft, parked: Parked, message: SyncGroupRequest) -> Pausing[None]:
    """Decides a SyncGroup. Members are parked until the leader's assignments are in the log."""
    given: dict[str, bytes] = {}
    for assignment in message.assignments:
        given[assignment.member_id] = assignment.assignment
        yield
    try:
        group = _checked_group(draft, parked, message)
    except KafkaError as error:
        draft.reply(parked, SyncGroupResponse(error_code=error.code))
        return
    group.pending_sync.pop(message.member_id, None)
    if not group.pending_sync:
        draft.cancel_sync(group)
    member = group.members[message.member_id]
    if group.state is GroupState.STABLE:
        draft.reply(parked, _assignment_reply(group, member.assignment))
        return
    earlier, member.awaiting_sync = member.awaiting_sync, parked
    if earlier is not None:
        # Kafka never answers the earlier request
        draft.reply(earlier, SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))
    if group.leader_id == message.member_id:
        _hand_out(draft, group, given)


def _checked_group(draft: Draft, parked: Parked, message: SyncGroupRequest) -> Group:
    if parked.api_version >= 5 and None in (message.protocol_type, message.protocol_name):
        raise kafka_error("INCONSISTENT_GROUP_PROTOCOL")
    if message.group_id == "":
        raise kafka_error("INVALID_GROUP_ID")
    group = draft.state.groups.get(message.group_id)
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


def _hand_out(draft: Draft, group: Group, given: dict[str, bytes]) -> None:
    members = tuple(group.members.values())
    fault = _fault_of(draft, group, given)
    if fault:
        # as Kafka for assignments that cannot be written: all waiting members get the error and join again
        for member in members:
            answer_sync(draft, group, member, SyncGroupResponse(error_code=fault))
        prepare(draft, group)
        return
    draft.records.append(group_metadata_record(group, members, group.leader_id, given))
    draft.count(REBALANCES)
    draft.if_refused.append(GroupNotWritten(group.group_id))
    for member in members:
        answer_sync(draft, group, member, _assignment_reply(group, given.get(member.member_id, b"")))


def _fault_of(draft: Draft, group: Group, given: dict[str, bytes]) -> int:
    """42 if a member would exceed its memory with its assignment, 81 if the group or the node would; 0: no error."""
    grown_bytes = 0
    for member_id, member in group.members.items():
        change_bytes = len(given.get(member_id, b"")) - len(member.assignment)
        if change_bytes > 0 and member.held_bytes() + change_bytes > draft.settings.moldau_group_member_bytes:
            draft.state.memory.bound_reached("moldau.group.member.bytes")
            return _INVALID_REQUEST
        grown_bytes += change_bytes
    return 0 if grown_bytes <= 0 or has_memory(draft, group, grown_bytes) else _GROUP_MAX_SIZE_REACHED


def group_not_written(draft: Draft, failed: GroupNotWritten) -> None:
    """The append of the assignments failed: rebalances again. A static member's successor is forgotten, and the old
    member has its session again."""
    group = draft.state.groups.get(failed.group_id)
    if group is None:
        return
    if group.state is GroupState.COMPLETING_REBALANCE:
        prepare(draft, group)
    replacement, group.replacement = group.replacement, None
    if replacement is not None:
        draft.cancel_session(group, replacement.member_id)
        old = group.members.get(group.static_members.get(replacement.instance_id or "", ""))
        if old is not None:
            draft.arm_session(group, old)


def _assignment_reply(group: Group, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def sync_phase_over(draft: Draft, firing: SyncPhaseOver) -> None:
    """The timer of the sync phase: members that did not sync are removed, and the group rebalances."""
    group = draft.state.groups.get(firing.group_id)
    if group is None or group.generation != firing.generation or not group.pending_sync:
        return
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        return
    for member_id in list(group.pending_sync):
        group.remove(member_id)
        draft.cancel_session(group, member_id)
    prepare(draft, group)
