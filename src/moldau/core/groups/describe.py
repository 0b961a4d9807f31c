"""DescribeGroups v0-6 and ListGroups v0-5, for one shard."""

from __future__ import annotations

from moldau.core.groups.classic.group import Group, GroupState, Member
from moldau.core.groups.state import GroupsState
from moldau.errors import ERROR_CODES
from moldau.types import Pausing
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    DescribedGroupMember,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

_GROUP_ID_NOT_FOUND = ERROR_CODES["GROUP_ID_NOT_FOUND"]
_DEAD = "Dead"
_CLASSIC = "classic"
_STATES = tuple(state.value.lower() for state in GroupState)


def describe_group(state: GroupsState, group_id: str, api_version: int) -> DescribedGroup:
    """An unknown group is Dead; since v6 with error 69 (KIP-1043). As in Kafka, metadata only while Stable."""
    group = state.groups.get(group_id)
    if group is None or group_id in state.other_kinds:
        if api_version < 6:
            return DescribedGroup(group_id=group_id, group_state=_DEAD)
        reason = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        return DescribedGroup(
            group_id=group_id, group_state=_DEAD, error_code=_GROUP_ID_NOT_FOUND, error_message=reason
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if group.state is GroupState.STABLE else "",
        members=tuple(_describe_member(group, member) for member in group.members.values()),
    )


def _describe_member(group: Group, member: Member) -> DescribedGroupMember:
    is_stable = group.state is GroupState.STABLE
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol_name or "") if is_stable else b"",
        member_assignment=member.assignment,
    )


def shortened(message: ListGroupsRequest) -> Pausing[ListGroupsRequest]:
    """Equivalent filters with known words only, because every group is compared with each word."""
    states = yield from _known_words(message.states_filter, _STATES)
    types = yield from _known_words(message.types_filter, (_CLASSIC,))
    return ListGroupsRequest(states_filter=states, types_filter=types)


def _known_words(names: tuple[str, ...], known: tuple[str, ...]) -> Pausing[tuple[str, ...]]:
    found: dict[str, None] = {}
    for name in names:
        word = name.strip().lower()
        if word in known:
            found[word] = None
        yield
    return tuple(found) or names[:1]


def list_groups(state: GroupsState, message: ListGroupsRequest) -> ListGroupsResponse:
    """Filters ignore case. An unknown name matches nothing."""
    states = [name.strip().lower() for name in message.states_filter]
    types = [name.strip().lower() for name in message.types_filter]
    if types and _CLASSIC not in types:
        return ListGroupsResponse()
    return ListGroupsResponse(
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=_CLASSIC,
            )
            for group in state.groups.values()
            if group.group_id not in state.other_kinds and (not states or group.state.value.lower() in states)
        )
    )
