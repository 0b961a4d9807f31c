"""Classic groups: membership, description and listing (KIP-62, 345, 394, 429, 559)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from moldau.wire.protocol.schema import Int16, Int32, Request, message, wire


class JoinGroupRequestProtocol(msgspec.Struct, frozen=True):
    name: str = ""
    metadata: bytes = b""


@message(versions="0-9", flexible="6+")
class JoinGroupRequest(Request["JoinGroupResponse"], frozen=True):
    """Joins a group or its next generation. An empty member id requests one.

    v1 rebalance timeout (KIP-62); v4 a member id must be requested first (KIP-394); v5 static members (KIP-345); v8
    reason (KIP-800); v9 changes the response only.
    """

    group_id: str = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Annotated[Int32, wire("1+", ignorable=True)] = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, wire("5+", nullable="5+")] = None
    protocol_type: str = ""
    protocols: tuple[JoinGroupRequestProtocol, ...] = ()
    reason: Annotated[str | None, wire("8+", nullable="8+", ignorable=True)] = None


class JoinGroupResponseMember(msgspec.Struct, frozen=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None
    metadata: bytes = b""


@message(versions="0-9", flexible="6+")
class JoinGroupResponse(msgspec.Struct, frozen=True):
    """Generation, leader, chosen protocol; to the leader also the members' metadata.

    v2 throttle time; v5 instance ids; v7 protocol type, and a null name on error (KIP-559); v9 the leader may skip
    its assignment (KIP-814).
    """

    throttle_time_ms: Annotated[Int32, wire("2+", ignorable=True)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, wire("7+", nullable="7+", ignorable=True)] = None
    protocol_name: Annotated[str | None, wire(nullable="7+")] = ""
    leader: str = ""
    skip_assignment: Annotated[bool, wire("9+")] = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


class SyncGroupRequestAssignment(msgspec.Struct, frozen=True):
    member_id: str = ""
    assignment: bytes = b""


@message(versions="0-5", flexible="4+")
class SyncGroupRequest(Request["SyncGroupResponse"], frozen=True):
    """The leader sends the assignments, every member gets its own. v3 instance id (KIP-345); v5 protocol type and name
    (KIP-559)."""

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, wire("3+", nullable="3+")] = None
    protocol_type: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


@message(versions="0-5", flexible="4+")
class SyncGroupResponse(msgspec.Struct, frozen=True):
    """The member's assignment. v1 throttle time; v5 protocol type and name."""

    throttle_time_ms: Annotated[Int32, wire("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None
    protocol_name: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None
    assignment: bytes = b""


@message(versions="0-4", flexible="4+")
class HeartbeatRequest(Request["HeartbeatResponse"], frozen=True):
    """Keeps a member alive. v3 instance id (KIP-345)."""

    group_id: str = ""
    generation_id: Int32 = 0
    member_id: str = ""
    group_instance_id: Annotated[str | None, wire("3+", nullable="3+")] = None


@message(versions="0-4", flexible="4+")
class HeartbeatResponse(msgspec.Struct, frozen=True):
    """REBALANCE_IN_PROGRESS tells the member to join again. v1 throttle time."""

    throttle_time_ms: Annotated[Int32, wire("1+", ignorable=True)] = 0
    error_code: Int16 = 0


class MemberIdentity(msgspec.Struct, frozen=True):
    member_id: Annotated[str, wire("3+")] = ""
    group_instance_id: Annotated[str | None, wire("3+", nullable="3+")] = None
    reason: Annotated[str | None, wire("5+", nullable="5+", ignorable=True)] = None


@message(versions="0-5", flexible="4+")
class LeaveGroupRequest(Request["LeaveGroupResponse"], frozen=True):
    """v0-2 one member; v3 several, also by instance id (KIP-345); v5 reason (KIP-800)."""

    group_id: str = ""
    member_id: Annotated[str, wire("0-2")] = ""
    members: Annotated[tuple[MemberIdentity, ...], wire("3+")] = ()


class MemberResponse(msgspec.Struct, frozen=True):
    member_id: Annotated[str, wire("3+")] = ""
    group_instance_id: Annotated[str | None, wire("3+", nullable="3+")] = ""
    error_code: Annotated[Int16, wire("3+")] = 0


@message(versions="0-5", flexible="4+")
class LeaveGroupResponse(msgspec.Struct, frozen=True):
    """v1 throttle time; v3 an error for each member."""

    throttle_time_ms: Annotated[Int32, wire("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[MemberResponse, ...], wire("3+")] = ()


@message(versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request["DescribeGroupsResponse"], frozen=True):
    """v3 authorized operations (KIP-430); v6 changes the response only."""

    groups: tuple[str, ...] = ()
    include_authorized_operations: Annotated[bool, wire("3+")] = False


class DescribedGroupMember(msgspec.Struct, frozen=True):
    member_id: str = ""
    group_instance_id: Annotated[str | None, wire("4+", nullable="4+", ignorable=True)] = None
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


class DescribedGroup(msgspec.Struct, frozen=True):
    error_code: Int16 = 0
    error_message: Annotated[str | None, wire("6+", nullable="6+")] = None
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, wire("3+")] = -2_147_483_648


@message(versions="0-6", flexible="5+")
class DescribeGroupsResponse(msgspec.Struct, frozen=True):
    """v1 throttle time; v3 authorized operations; v4 instance ids; v6 error 69 with a message for an unknown group
    (KIP-1043).
    """

    throttle_time_ms: Annotated[Int32, wire("1+", ignorable=True)] = 0
    groups: tuple[DescribedGroup, ...] = ()


@message(versions="0-5", flexible="3+")
class ListGroupsRequest(Request["ListGroupsResponse"], frozen=True):
    """v4 filter by state (KIP-518); v5 by type (KIP-848)."""

    states_filter: Annotated[tuple[str, ...], wire("4+")] = ()
    types_filter: Annotated[tuple[str, ...], wire("5+")] = ()


class ListedGroup(msgspec.Struct, frozen=True):
    group_id: str = ""
    protocol_type: str = ""
    group_state: Annotated[str, wire("4+", ignorable=True)] = ""
    group_type: Annotated[str, wire("5+", ignorable=True)] = ""


@message(versions="0-5", flexible="3+")
class ListGroupsResponse(msgspec.Struct, frozen=True):
    """v1 throttle time; v4 state; v5 type."""

    throttle_time_ms: Annotated[Int32, wire("1+", ignorable=True)] = 0
    error_code: Int16 = 0
    groups: tuple[ListedGroup, ...] = ()
