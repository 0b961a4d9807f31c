"""DeleteGroups and OffsetDelete on a socket: that row of section "Classic groups" of the table of bad input."""

from __future__ import annotations

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
    """Commits an offset of a new topic without being a member: `committed("group")` gives group and topic."""

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
    """The top-level error, and (topic, partition, error) of each partition."""
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
    """In v2-4 the client sets the retention time of a committed offset."""
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
