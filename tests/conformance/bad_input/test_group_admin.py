"""DeleteGroups and OffsetDelete on a socket: that row of section "Classic groups" of the table of bad input."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.group_admin import (
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.protocol.messages.groups_classic import (
    DescribeGroupsRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.support.wire import RawConnection
from tests.support.wire_groups import commit, join, joined

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


@pytest.fixture
def committed(raw: RawConnection, new_topic: NewTopic, new_name: NewName) -> Callable[[str], tuple[str, str]]:
    """Commits a position of a new topic without being a member: `committed("group")` gives group and topic."""

    def make(what: str) -> tuple[str, str]:
        group, topic = new_name(what), new_topic(partitions=3)
        committing(raw, group, topic)
        return group, topic

    return make


def committing(raw: RawConnection, group: str, topic: str, **who: object) -> None:
    """A broker may need a moment for its coordinator and a new topic."""
    code = 15
    for _ in range(1_000):
        code = commit(raw, group, topic, **who)
        if code not in (3, 14, 15, 16):
            break
    assert code == 0


def delete(raw: RawConnection, *groups: str, version: int = 2) -> list[tuple[str, int]]:
    answer = raw.ask(DeleteGroupsRequest(groups_names=groups), version)
    return [(result.group_id, result.error_code) for result in answer.results]


def delete_offsets(
    raw: RawConnection, group: str, *topics: tuple[str, tuple[int, ...]]
) -> tuple[int, set[tuple[str, int, int]]]:
    """The error of the whole, and (topic, partition, error) of each."""
    rows = tuple(
        OffsetDeleteRequestTopic(name, tuple(OffsetDeleteRequestPartition(index) for index in indexes))
        for name, indexes in topics
    )
    answer = raw.ask(OffsetDeleteRequest(group, rows), 0)
    told = {(topic.name, row.partition_index, row.error_code) for topic in answer.topics for row in topic.partitions}
    return answer.error_code, told


def positions(raw: RawConnection, group: str) -> list[tuple[str, int]]:
    answer = raw.ask(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)), 8).groups[0]
    return [(topic.name, row.partition_index) for topic in answer.topics for row in topic.partitions]


def state(raw: RawConnection, group: str) -> str:
    return raw.ask(DescribeGroupsRequest(groups=(group,)), 5).groups[0].group_state


def subscription(*topics: str) -> tuple[JoinGroupRequestProtocol, ...]:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    metadata = struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)
    return (JoinGroupRequestProtocol(name="range", metadata=metadata),)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_groups_that_are_not_there(raw: RawConnection, committed, new_name: NewName, version: int) -> None:
    group, _ = committed("group")
    absent = new_name("absent")
    assert delete(raw, absent, version=version) == [(absent, 69)]
    assert delete(raw, "", version=version) == [("", 69)]
    assert delete(raw, version=version) == []
    assert delete(raw, absent, absent, version=version) == [(absent, 69)]
    assert delete(raw, group, version=version) == [(group, 0)]
    assert delete(raw, group, version=version) == [(group, 69)]


def test_a_group_is_deleted_once_with_its_positions(raw: RawConnection, committed) -> None:
    group, topic = committed("group")
    assert positions(raw, group) == [(topic, 0)]
    assert delete(raw, group, group) == [(group, 0)]
    assert (state(raw, group), positions(raw, group)) == ("Dead", [])
    assert joined(raw, group).generation_id == 1


def test_strange_group_ids(raw: RawConnection, committed) -> None:
    committed("group")
    for name in ("a\nb", "../../x", "\x00", "x" * 30_000):
        assert delete(raw, name) == [(name, 69)]
    raw.assert_alive()


def test_a_living_group_is_not_deleted(raw: RawConnection, committed, new_name: NewName) -> None:
    committed("group")
    group = new_name("living")
    me = joined(raw, group)
    assert (group, 68) in delete(raw, group, new_name("absent"))
    raw.ask(LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id=me.member_id),)), 4)
    # without a position it ends at the next check by itself
    assert delete(raw, group)[0][1] in (0, 69)


def test_positions_of_what_is_not_there(raw: RawConnection, committed, new_name: NewName) -> None:
    group, topic = committed("group")
    absent = new_name("absent")
    assert delete_offsets(raw, absent, (topic, (0,))) == (69, set())
    assert delete_offsets(raw, absent, ("no-such-topic", (0,))) == (69, set())
    assert delete_offsets(raw, absent) == (69, set())
    assert delete_offsets(raw, "", (topic, (0,))) == (24, set())
    assert delete_offsets(raw, group) == (0, set())
    assert delete_offsets(raw, group, (topic, (-1, 9)), ("", (0,)), ("no-such-topic", (0,))) == (
        0,
        {(topic, -1, 3), (topic, 9, 3), ("", 0, 3), ("no-such-topic", 0, 3)},
    )
    assert positions(raw, group) == [(topic, 0)]
    assert delete_offsets(raw, group, (topic, (0, 0, 1))) == (0, {(topic, 0, 0), (topic, 1, 0)})
    assert positions(raw, group) == []


def test_positions_of_a_subscribed_topic(raw: RawConnection, committed, new_name: NewName) -> None:
    _, topic = committed("group")
    _, other = committed("group")
    group = new_name("living")
    me = joined(raw, group, protocols=subscription(topic))
    who = {"member_id": me.member_id, "generation_id_or_member_epoch": me.generation_id}
    committing(raw, group, topic, **who)
    committing(raw, group, other, **who)
    told = delete_offsets(raw, group, (topic, (0,)), (other, (0,)))
    assert told == (0, {(topic, 0, 86), (other, 0, 0)})
    assert positions(raw, group) == [(topic, 0)]
    raw.ask(LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id=me.member_id),)), 4)
    assert delete_offsets(raw, group, (topic, (0,))) == (0, {(topic, 0, 0)})


def test_positions_where_nobody_knows_what_is_read(raw: RawConnection, committed, new_name: NewName) -> None:
    _, topic = committed("group")
    unreadable = new_name("unreadable")
    joined(raw, unreadable)
    assert delete_offsets(raw, unreadable, (topic, (0,))) == (0, {(topic, 0, 86)})
    connect = new_name("connect")
    first = join(raw, connect, protocol_type="connect")
    second = join(raw, connect, first.member_id, protocol_type="connect")
    sync = SyncGroupRequest(group_id=connect, generation_id=second.generation_id, member_id=second.member_id)
    assert raw.ask(sync, 3).error_code == 0
    assert delete_offsets(raw, connect, (topic, (0,))) == (68, set())


def test_a_retention_time_in_the_past_or_the_future(raw: RawConnection, committed) -> None:
    """Old clients (v2-4) say themselves how long a position counts."""
    group, topic = committed("group")
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    for retention_time_ms in (-5, 0, 2**63 - 1, -(2**63)):
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            retention_time_ms=retention_time_ms,
            topics=(OffsetCommitRequestTopic(name=topic, partitions=(row,)),),
        )
        assert raw.ask(request, 2).topics[0].partitions[0].error_code == 0
    assert commit(raw, group, topic) == 0
    assert positions(raw, group) == [(topic, 0)]


def test_a_group_that_is_named_ten_thousand_times_is_described_once(
    raw: RawConnection, committed: Callable[[str], tuple[str, str]], is_moldau: bool
) -> None:
    group, _ = committed("group")
    answer = raw.ask(DescribeGroupsRequest(groups=(group,) * 10_000), 5)
    assert {described.group_id for described in answer.groups} == {group}
    # Apache Kafka describes it each time
    assert len(answer.groups) == (1 if is_moldau else 10_000)
