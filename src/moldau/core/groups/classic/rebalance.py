"""Rebalances: all members join again, and those that do are in the next generation.

prepare -> (the initial delay, or all members joined, or the rebalance timeout) -> complete_join -> SyncGroup
"""

from __future__ import annotations

from moldau.core.groups.classic.group import Group, GroupState, Member, members_for_leader
from moldau.core.groups.draft import Draft
from moldau.core.groups.records import empty_group_record
from moldau.core.groups.requests import JoinPhaseOver
from moldau.errors import ERROR_CODES
from moldau.wire.protocol.messages.groups_classic import JoinGroupResponse, SyncGroupResponse

REBALANCE_IN_PROGRESS = ERROR_CODES["REBALANCE_IN_PROGRESS"]


def prepare_or_complete_join(draft: Draft, group: Group) -> None:
    """A member came, changed or left: begins a rebalance, or completes the present one if possible."""
    if group.can_rebalance():
        prepare(draft, group)
    else:
        complete_join_if_all_joined(draft, group)


def prepare(draft: Draft, group: Group) -> None:
    """Begins a rebalance. Members must join again before the rebalance timeout, or before the initial delay of a new
    group ends."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        _give_up_assignment(draft, group)
    draft.cancel_sync(group)
    if group.state is GroupState.EMPTY:
        # the group is new: give the other members time to start
        delay_ms = draft.settings.group_initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        group.transition_to(GroupState.PREPARING_REBALANCE, draft.wall_ms)
        firing = JoinPhaseOver(group.group_id, group.generation, is_initial=True, remaining_ms=remaining_ms)
        draft.arm_join(group, delay_ms, firing)
        return
    group.transition_to(GroupState.PREPARING_REBALANCE, draft.wall_ms)
    if group.has_all_members_joined():
        complete_join(draft, group)
    else:
        draft.arm_join(group, group.rebalance_timeout_ms(), JoinPhaseOver(group.group_id, group.generation))


def _give_up_assignment(draft: Draft, group: Group) -> None:
    """Makes members that wait for their assignment join again."""
    for member in group.members.values():
        group.assign(member, b"")
        answer_sync(draft, group, member, SyncGroupResponse(error_code=REBALANCE_IN_PROGRESS))


def answer_sync(draft: Draft, group: Group, member: Member, response: SyncGroupResponse) -> None:
    """Answers the member's parked SyncGroup, if any. Its session begins again."""
    parked, member.awaiting_sync = member.awaiting_sync, None
    if parked is not None:
        draft.reply(parked, response)
        # the session may have run out while the member waited for others, which counts as alive
        draft.arm_session(group, member)


def complete_join_if_all_joined(draft: Draft, group: Group) -> None:
    """The first rebalance of an empty group always waits for its delay."""
    if (
        group.state is GroupState.PREPARING_REBALANCE
        and group.previous_state is not GroupState.EMPTY
        and group.has_all_members_joined()
    ):
        complete_join(draft, group)


def join_phase_over(draft: Draft, firing: JoinPhaseOver) -> None:
    """The time to join is over."""
    group = draft.state.groups.get(firing.group_id)
    if (
        group is None
        or group.state is not GroupState.PREPARING_REBALANCE
        or group.generation != firing.generation
        or firing.is_initial != (group.previous_state is GroupState.EMPTY)
    ):
        return
    if firing.is_initial and group.was_member_added and firing.remaining_ms != 0:
        group.was_member_added = False
        delay_ms = min(draft.settings.group_initial_rebalance_delay_ms, firing.remaining_ms)
        remaining_ms = max(firing.remaining_ms - delay_ms, 0)
        again = JoinPhaseOver(group.group_id, group.generation, is_initial=True, remaining_ms=remaining_ms)
        draft.arm_join(group, delay_ms, again)
    else:
        complete_join(draft, group)


def complete_join(draft: Draft, group: Group) -> None:
    """Ends the join phase: members that did not join are removed (static ones stay), the others get the new
    generation."""
    draft.cancel_join(group)
    for member in list(group.members.values()):
        if member.awaiting_join is None and member.instance_id is None:
            group.remove(member.member_id)
            draft.cancel_session(group, member.member_id)
    if group.members and not group.elect_joined_leader():
        # only static members are left, and none has joined yet: wait again
        draft.arm_join(group, group.rebalance_timeout_ms(), JoinPhaseOver(group.group_id, group.generation))
        return
    group.was_member_added = False
    group.begin_generation(draft.wall_ms)
    if group.state is GroupState.EMPTY:
        # if this append fails, the last generation in the log has removed members, which time out after a reload
        draft.records.append(empty_group_record(group))
        return
    for member in group.members.values():
        parked = group.unpark_join(member)
        if parked is not None:
            draft.reply(parked, generation_reply(group, member))
        draft.arm_session(group, member)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    draft.arm_sync(group)


def generation_reply(group: Group, member: Member) -> JoinGroupResponse:
    """The present generation as the response to `member`. The leader's has the metadata of all members."""
    is_leader = group.leader_id == member.member_id
    name = group.protocol_name or ""
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_for_leader(name, tuple(group.members.values())) if is_leader else (),
    )


def has_memory(draft: Draft, group: Group, grown_bytes: int) -> bool:
    """Whether the group may use so much more memory. Groups from a load are accepted in any case."""
    memory = draft.state.memory
    if group.held_bytes + grown_bytes > draft.settings.moldau_group_bytes:
        memory.bound_reached("moldau.group.bytes")
        return False
    if memory.used_bytes + grown_bytes > memory.limit_bytes:
        memory.bound_reached("moldau.group.memory.bytes")
        return False
    return True
