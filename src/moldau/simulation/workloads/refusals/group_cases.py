"""Invalid requests about groups: joins, heartbeats, leaves, offset fetches and deletions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moldau.simulation.workloads.refusals.case import GROUP, PLAIN, POSITION, UNKNOWN, UNKNOWN_ID, Case, Ground
from moldau.types import Uuid
from moldau.wire.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.groups_classic import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    ListGroupsRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

NOBODY = "refused.nobody"
"""A group that does not exist."""
STRANGER = "no-such-member"
LONG_METADATA = "x" * 4_097
MANY = 450


def group_cases(ground: Ground) -> Iterator[Case]:
    """All requests about groups."""
    yield from _joins()
    yield from _memberships()
    yield from _commits(ground)
    yield from _positions(ground)
    yield from _descriptions()
    yield from _deletions()
    yield from _coordinators()
    yield from _unserved()


def _join(name: str, refusal: str, versions: tuple[int, int] = (0, 9), **fields: Any) -> Case:
    wanted = {
        "group_id": NOBODY,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol("range", b"m"),),
    }
    request = JoinGroupRequest(**{**wanted, **fields})
    return Case(f"JoinGroup {name}", request, (refusal,), versions)


def _joins() -> Iterator[Case]:
    yield _join("of no group", "INVALID_GROUP_ID", group_id="")
    yield _join("without a protocol", "INCONSISTENT_GROUP_PROTOCOL", protocols=())
    yield _join("without a type", "INCONSISTENT_GROUP_PROTOCOL", protocol_type="")
    for timeout_ms in (5_999, 1_800_001, 0, -1):
        yield _join(f"for {timeout_ms} ms", "INVALID_SESSION_TIMEOUT", session_timeout_ms=timeout_ms)
    yield _join("as nobody", "UNKNOWN_MEMBER_ID", member_id=STRANGER)
    yield _join("as nobody there", "UNKNOWN_MEMBER_ID", member_id=STRANGER, group_id=GROUP)
    large = (JoinGroupRequestProtocol("range", bytes((1 << 20) + 1)),)
    yield _join("with a large metadata", "INVALID_REQUEST", protocols=large)


def _memberships() -> Iterator[Case]:
    for group, refusal in (("", "INVALID_GROUP_ID"), (NOBODY, "UNKNOWN_MEMBER_ID"), (GROUP, "UNKNOWN_MEMBER_ID")):
        sync = SyncGroupRequest(group, 1, STRANGER, assignments=(SyncGroupRequestAssignment(STRANGER, b"a"),))
        yield Case(f"SyncGroup {group!r}", sync, (refusal,), (0, 4))
        yield Case(f"Heartbeat {group!r}", HeartbeatRequest(group, 1, STRANGER), (refusal,))
        leave = LeaveGroupRequest(group, STRANGER)
        yield Case(f"LeaveGroup {group!r}", leave, (refusal,), (0, 2))
        members = (MemberIdentity(STRANGER), MemberIdentity("", "no-such-instance"))
        each = (refusal,) if group == "" else (refusal,) * 2
        leave = LeaveGroupRequest(group, members=members)
        yield Case(f"LeaveGroup of two {group!r}", leave, each, (3, 5))


def commit(
    group: str, topic: str, topic_id: Uuid, *rows: OffsetCommitRequestPartition, **fields: Any
) -> OffsetCommitRequest:
    """A commit that names the topic in the form of its version."""
    return OffsetCommitRequest(group, topics=(OffsetCommitRequestTopic(topic, topic_id, rows),), **fields)


def _commits(ground: Ground) -> Iterator[Case]:
    plain_id = ground.topic_ids[PLAIN]
    row = OffsetCommitRequestPartition(0, 3)
    for name, group, refusal, versions, generation in (
        ("of no group", "", "INVALID_GROUP_ID", (2, 10), -1),
        ("of an unknown generation", NOBODY, "ILLEGAL_GENERATION", (2, 8), 5),
        ("of an unknown epoch", NOBODY, "GROUP_ID_NOT_FOUND", (9, 10), 5),
        ("of a stranger", GROUP, "UNKNOWN_MEMBER_ID", (2, 10), 5),
    ):
        member_id = STRANGER if group == GROUP else ""
        request = commit(group, PLAIN, plain_id, row, generation_id_or_member_epoch=generation, member_id=member_id)
        yield Case(f"OffsetCommit {name}", request, (refusal,), versions)
    for index in (9, -1):
        request = commit(GROUP, PLAIN, plain_id, OffsetCommitRequestPartition(index, 3))
        yield Case(f"OffsetCommit of partition {index}", request, ("UNKNOWN_TOPIC_OR_PARTITION",))
    unknown = commit(GROUP, UNKNOWN, UNKNOWN_ID, row)
    yield Case("OffsetCommit of an unknown topic", unknown, ("UNKNOWN_TOPIC_OR_PARTITION",), (2, 9))
    yield Case("OffsetCommit of an unknown id", unknown, ("UNKNOWN_TOPIC_ID",), (10, 10))
    large = OffsetCommitRequestPartition(0, 3, committed_metadata=LONG_METADATA)
    request = commit(GROUP, PLAIN, plain_id, large)
    yield Case("OffsetCommit with long metadata", request, ("OFFSET_METADATA_TOO_LARGE",))


def _positions(ground: Ground) -> Iterator[Case]:
    topic = OffsetFetchRequestTopic(PLAIN, (0, 1, 9))
    for group, expected in ((GROUP, POSITION), (NOBODY, -1)):

        def fault(answer: Any, expected: int = expected) -> str:
            found = [row.committed_offset for row in answer.topics[0].partitions]
            return "" if found == [expected, -1, -1] else f"expected {expected}, got {found}"

        def groups_fault(answer: Any, expected: int = expected) -> str:
            found = [row.committed_offset for row in answer.groups[0].topics[0].partitions]
            return "" if found == [expected, -1, -1] else f"expected {expected}, got {found}"

        request = OffsetFetchRequest(group, (topic,))
        yield Case(f"OffsetFetch of {group}", request, versions=(1, 7), fault=fault)
        named = OffsetFetchRequestTopics(PLAIN, ground.topic_ids[PLAIN], (0, 1, 9))
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=(named,)),))
        yield Case(f"OffsetFetch of the group {group}", request, versions=(8, 10), fault=groups_fault)
    unknown = OffsetFetchRequestTopics(UNKNOWN, UNKNOWN_ID, (0,))
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(GROUP, topics=(unknown,)),))
    yield Case("OffsetFetch of an unknown id", request, ("UNKNOWN_TOPIC_ID",), (10, 10))
    request = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(f"{NOBODY}.{n}", topics=None) for n in range(25)))

    def many_fault(answer: Any) -> str:
        return "" if [len(group.topics) for group in answer.groups] == [0] * 25 else f"{answer.groups}"

    yield Case("OffsetFetch of many groups", request, versions=(8, 10), fault=many_fault)


def _descriptions() -> Iterator[Case]:
    names = tuple(f"{NOBODY}.{number}" for number in range(25))
    yield Case("DescribeGroups of many", DescribeGroupsRequest(names), ("GROUP_ID_NOT_FOUND",) * 25, (6, 6))

    def dead_fault(answer: Any) -> str:
        states = [group.group_state for group in answer.groups]
        return "" if states == ["Dead"] * 25 else f"{states}"

    yield Case("DescribeGroups of the dead", DescribeGroupsRequest(names), versions=(0, 5), fault=dead_fault)

    def empty_fault(answer: Any) -> str:
        (group,) = answer.groups
        found = (group.group_state, group.members, group.authorized_operations)
        return "" if found == ("Empty", (), 0b1101_0100_1000) else f"{group}"

    request = DescribeGroupsRequest((GROUP, GROUP), include_authorized_operations=True)
    yield Case("DescribeGroups of one twice", request, versions=(3, 6), fault=empty_fault)

    def none_fault(answer: Any) -> str:
        return f"{answer.groups}" if answer.groups else ""

    for listing, versions in (
        (ListGroupsRequest(states_filter=("Asleep", "asleep")), (4, 5)),
        (ListGroupsRequest(types_filter=("share",)), (5, 5)),
    ):
        yield Case("ListGroups of none", listing, versions=versions, fault=none_fault)

    def listed_fault(answer: Any) -> str:
        return "" if any(group.group_id == GROUP for group in answer.groups) else f"{GROUP} is not listed"

    listing = ListGroupsRequest(states_filter=("empty",))
    yield Case("ListGroups of the empty", listing, versions=(4, 5), fault=listed_fault)


def _deletions() -> Iterator[Case]:
    for names in (("",), (NOBODY, NOBODY), tuple(f"{NOBODY}.{number}" for number in range(MANY))):
        refusals = ("GROUP_ID_NOT_FOUND",) * len(dict.fromkeys(names))
        yield Case(f"DeleteGroups {len(names)}", DeleteGroupsRequest(names), refusals)
    rows = (OffsetDeleteRequestPartition(0),)
    for group, topic, refusal in (
        ("", PLAIN, "INVALID_GROUP_ID"),
        (NOBODY, PLAIN, "GROUP_ID_NOT_FOUND"),
        (NOBODY, UNKNOWN, "GROUP_ID_NOT_FOUND"),
        (GROUP, UNKNOWN, "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        request = OffsetDeleteRequest(group, (OffsetDeleteRequestTopic(topic, rows),))
        yield Case(f"OffsetDelete {group!r} {topic}", request, (refusal,))
    many = tuple(OffsetDeleteRequestTopic(f"refused.{number}", rows) for number in range(MANY))
    request = OffsetDeleteRequest(GROUP, many)
    refusals = ("UNKNOWN_TOPIC_OR_PARTITION",) * MANY
    yield Case("OffsetDelete of many", request, refusals)


def _coordinators() -> Iterator[Case]:
    for key, key_type, refusal, versions in (
        ("x", 7, "INVALID_REQUEST", (1, 6)),
        ("x", 2, "INVALID_REQUEST", (1, 6)),
        ("g:t:0", 2, "COORDINATOR_NOT_AVAILABLE", (6, 6)),
        ("g:t:0", 2, "INVALID_REQUEST", (1, 5)),
    ):
        low, high = versions
        one = FindCoordinatorRequest(key, key_type)
        name = f"FindCoordinator {key} {key_type}"
        if low < 4:
            yield Case(name, one, (refusal,), (low, min(high, 3)))
        many = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key, key))
        yield Case(f"{name} of many", many, (refusal,), (max(low, 4), high))


def _unserved() -> Iterator[Case]:
    heartbeat = ConsumerGroupHeartbeatRequest(GROUP, STRANGER)
    yield Case("ConsumerGroupHeartbeat", heartbeat, ("UNSUPPORTED_VERSION",), (1, 1))
    describe = ConsumerGroupDescribeRequest((GROUP, NOBODY))
    yield Case("ConsumerGroupDescribe", describe, ("UNSUPPORTED_VERSION",) * 2)
