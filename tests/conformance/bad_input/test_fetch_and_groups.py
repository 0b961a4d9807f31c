"""Sections "Fetch, offsets" and "Classic groups" of the table of bad input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.groups_classic import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from tests.support.wire import RawConnection
from tests.support.wire_groups import commit, fetch, join, joined, list_offset
from tests.support.wire_produce import batch, produce

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


@pytest.fixture
def filled(raw: RawConnection, new_topic: NewTopic) -> str:
    topic = new_topic()
    assert produce(raw, topic, batch(b"a", b"b", b"c"))[0] == 0
    return topic


@pytest.mark.parametrize(("offset", "code"), [(-1, 1), (-5, 1), (4, 1), (3, 0), (0, 0)])
def test_fetch_offsets_out_of_range(raw: RawConnection, filled: str, offset: int, code: int) -> None:
    assert fetch(raw, filled, offset).error_code == code


def test_fetch_targets_that_are_not_there(raw: RawConnection, filled: str) -> None:
    assert fetch(raw, "no-such-topic").error_code == 3
    assert fetch(raw, filled, partition=5).error_code == 3
    assert fetch(raw, filled, partition=-1).error_code == 3
    row = FetchTopic(topic_id=b"absent topic id.", partitions=(FetchPartition(partition_max_bytes=1000),))
    assert raw.ask(FetchRequest(topics=(row,)), 13).responses[0].partitions[0].error_code == 100


def test_fetch_with_another_leader_epoch(raw: RawConnection, filled: str) -> None:
    assert fetch(raw, filled, epoch=99).error_code == 75
    assert fetch(raw, filled, epoch=-2).error_code == 0
    assert fetch(raw, filled, epoch=0).error_code == 0


@pytest.mark.parametrize("size", [0, 1, 2**31 - 1])
def test_the_first_batch_comes_whole(raw: RawConnection, filled: str, size: int) -> None:
    assert b"abc" not in bytes(fetch(raw, filled, size=size, max_bytes=size).records)
    assert len(bytes(fetch(raw, filled, size=size).records)) > 61


def test_negative_sizes(raw: RawConnection, filled: str, is_moldau: bool) -> None:
    if is_moldau:
        assert fetch(raw, filled, size=-1).error_code in (0, 42)
        assert fetch(raw, filled, max_bytes=-1).error_code in (0, 42)
    raw.assert_alive()


def test_a_fetch_that_need_not_wait_does_not(raw: RawConnection, filled: str) -> None:
    assert fetch(raw, filled, 3, min_bytes=0, wait_ms=2**31 - 1).error_code == 0
    assert fetch(raw, filled, 3, min_bytes=1, wait_ms=-1).error_code == 0
    assert raw.ask(FetchRequest(max_wait_ms=2**31 - 1, min_bytes=1), 12).responses == ()


@pytest.mark.parametrize("level", [2, -1])
def test_isolation_levels_that_do_not_exist(raw: RawConnection, filled: str, is_moldau: bool, level: int) -> None:
    if is_moldau:
        assert fetch(raw, filled, isolation_level=level).error_code == 42
    raw.assert_alive()


def test_a_fetch_session_that_does_not_exist(raw: RawConnection) -> None:
    assert raw.ask(FetchRequest(session_id=12345, session_epoch=1), 12).error_code == 70
    assert raw.ask(FetchRequest(session_id=0, session_epoch=5), 12).error_code == 70


@pytest.mark.parametrize(("timestamp", "version"), [(-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)])
def test_special_timestamps_newer_than_the_version(
    raw: RawConnection, filled: str, timestamp: int, version: int
) -> None:
    assert list_offset(raw, filled, timestamp, version).error_code == 35


def test_list_offsets_finds_what_is_there(raw: RawConnection, filled: str) -> None:
    assert list_offset(raw, filled, -1, 7).offset == 3
    assert list_offset(raw, filled, -2, 7).offset == 0
    assert list_offset(raw, filled, 2**62, 7).offset == -1
    assert list_offset(raw, filled, 0, 7).offset == 0
    assert list_offset(raw, "no-such-topic", -1, 7).error_code == 3
    assert list_offset(raw, filled, -1, 7, partition=9).error_code == 3


def test_list_offsets_of_the_same_partition_twice(raw: RawConnection, filled: str) -> None:
    row = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(topics=(ListOffsetsTopic(name=filled, partitions=(row, row)),))
    assert {p.error_code for p in raw.ask(request, 7).topics[0].partitions} == {42}


def test_join_refusals(raw: RawConnection, new_name: NewName) -> None:
    group = new_name("group")
    assert join(raw, group, protocols=()).error_code == 23
    assert join(raw, group, protocol_type="").error_code == 23
    assert join(raw, group, session_timeout_ms=5_999).error_code == 26
    assert join(raw, group, session_timeout_ms=1_800_001).error_code == 26
    assert join(raw, "").error_code == 24
    assert join(raw, group, "nobody").error_code == 25


def test_join_with_another_protocol(raw: RawConnection, connect, new_name: NewName) -> None:
    group = new_name("group")
    joined(raw, group)
    other = connect()
    assert join(other, group, protocol_type="connect").error_code == 23
    assert join(other, group, protocols=(JoinGroupRequestProtocol(name="other", metadata=b""),)).error_code == 23


def test_members_generations_and_groups_that_are_unknown(raw: RawConnection, new_name: NewName) -> None:
    group = new_name("group")
    me = joined(raw, group)

    def heartbeat(group_id: str, member_id: str, generation: int) -> int:
        request = HeartbeatRequest(group_id=group_id, member_id=member_id, generation_id=generation)
        return raw.ask(request, 4).error_code

    assert heartbeat(group, me.member_id, me.generation_id) == 0
    assert heartbeat(group, "nobody", me.generation_id) == 25
    assert heartbeat(new_name("absent"), "nobody", 1) == 25
    assert heartbeat(group, me.member_id, me.generation_id + 1) == 22
    assert heartbeat("", me.member_id, 1) == 24

    def sync(member_id: str, generation: int, **options: str) -> int:
        request = SyncGroupRequest(group_id=group, member_id=member_id, generation_id=generation, **options)
        return raw.ask(request, 5).error_code

    good = {"protocol_type": "consumer", "protocol_name": "range"}
    assert sync("nobody", me.generation_id, **good) == 25
    assert sync(me.member_id, me.generation_id + 1, **good) == 22
    assert sync(me.member_id, me.generation_id, protocol_type="connect", protocol_name="range") == 23
    assert sync(me.member_id, me.generation_id, protocol_type="consumer", protocol_name="other") == 23
    assert sync(me.member_id, me.generation_id, **good) == 0


def test_a_static_member_that_joins_again_fences_the_first(raw: RawConnection, connect, new_name: NewName) -> None:
    group = new_name("group")
    first = join(raw, group, group_instance_id="one")
    assert first.error_code == 0
    sync = SyncGroupRequest(
        group_id=group, generation_id=first.generation_id, member_id=first.member_id, group_instance_id="one"
    )
    assert raw.ask(sync, 3).error_code == 0
    second = join(connect(), group, group_instance_id="one")
    assert second.error_code == 0
    beat = HeartbeatRequest(
        group_id=group, generation_id=first.generation_id, member_id=first.member_id, group_instance_id="one"
    )
    assert raw.ask(beat, 3).error_code == 82


def test_leaving_what_one_is_not_in(raw: RawConnection, new_name: NewName) -> None:
    group = new_name("group")
    joined(raw, group)
    answer = raw.ask(LeaveGroupRequest(group_id=group, members=(MemberIdentity(member_id="nobody"),)), 4)
    assert answer.error_code == 0
    assert [member.error_code for member in answer.members] == [25]
    assert raw.ask(LeaveGroupRequest(group_id=group, member_id="nobody"), 2).error_code == 25


def test_commits(raw: RawConnection, filled: str, new_name: NewName, is_moldau: bool) -> None:
    group = new_name("group")
    assert commit(raw, group, filled) == 0
    assert commit(raw, group, filled, offset=-1) == 0
    assert commit(raw, group, filled, offset=10**9) == 0
    assert commit(raw, group, filled, metadata="x" * 4096) == 0
    assert commit(raw, group, filled, metadata="x" * 4097) == 12
    assert commit(raw, group, "no-such-topic") == 3
    assert commit(raw, new_name("absent"), filled, generation_id_or_member_epoch=3, member_id="m") == 22
    assert commit(raw, "", filled) == (24 if is_moldau else 0)


def test_commits_into_a_living_group(raw: RawConnection, filled: str, new_name: NewName) -> None:
    group = new_name("group")
    me = joined(raw, group)
    assert commit(raw, group, filled) == 25
    who = {"member_id": me.member_id, "generation_id_or_member_epoch": me.generation_id}
    assert commit(raw, group, filled, **who) == 0
    assert commit(raw, group, filled, **{**who, "generation_id_or_member_epoch": me.generation_id + 1}) == 22
    assert commit(raw, group, filled, **{**who, "member_id": "nobody"}) == 25


def test_offsets_of_what_is_unknown(raw: RawConnection, filled: str, new_name: NewName) -> None:
    topics = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0, 7)) for name in (filled, "no-such-topic"))
    groups = (OffsetFetchRequestGroup(group_id=new_name("absent"), topics=topics),)
    answer = raw.ask(OffsetFetchRequest(groups=groups), 8).groups[0]
    assert answer.error_code == 0
    rows = [row for topic in answer.topics for row in topic.partitions]
    assert len(rows) == 4
    assert {(row.error_code, row.committed_offset) for row in rows} == {(0, -1)}


@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, 69)])
def test_describing_an_unknown_group(raw: RawConnection, new_name: NewName, version: int, code: int) -> None:
    group = raw.ask(DescribeGroupsRequest(groups=(new_name("absent"),)), version).groups[0]
    assert (group.error_code, group.group_state) == (code, "Dead")


def test_coordinators_of_an_unknown_kind(raw: RawConnection) -> None:
    answer = raw.ask(FindCoordinatorRequest(key_type=7, coordinator_keys=("k",)), 4)
    assert {row.error_code for row in answer.coordinators} == {42}


def test_each_idempotent_producer_has_an_id_of_its_own(raw: RawConnection) -> None:
    one, two = (raw.ask(InitProducerIdRequest(transactional_id=None), 4) for _ in range(2))
    assert one.error_code == two.error_code == 0
    assert one.producer_id != two.producer_id
