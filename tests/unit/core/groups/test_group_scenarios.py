"""Whole lives of groups, as clients live them."""

from __future__ import annotations

import msgspec
import pytest

from moldau.core.groups.requests import DescribeGroup
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequestProtocol


def test_two_members_join_sync_and_one_leaves(shard_class) -> None:
    shard = shard_class(group_initial_rebalance_delay_ms=3_000)
    waiting = [shard.post(shard.joining(rebalance_timeout_ms=10_000), 3) for _ in range(2)]
    shard.wait(6_000)
    first, second = (shard.joined(request_id).member_id for request_id in waiting)
    follower = shard.post(shard.syncing(second, 1), 5)
    assert shard.ask(shard.syncing(first, 1, {first: b"0", second: b"1"}), 5).assignment == b"0"
    assert shard.synced(follower).assignment == b"1"
    assert shard.code(shard.committing(11, member_id=second, generation=1, partition=1)) == 0
    shard.ask(shard.leaving((second, None)), 5)
    assert shard.code(shard.beating(first, 1)) == 27
    assert shard.ask(shard.joining(first), 3).generation_id == 2
    assert shard.ask(shard.syncing(first, 2, {first: b"0,1"}), 5).assignment == b"0,1"


def test_a_killed_member_is_replaced_after_its_session(shard) -> None:
    first = shard.begin(session_timeout_ms=30_000)
    second = shard.second(first)
    # the killed member's successor joins at once, and waits until the killed one is removed
    successor = shard.post(shard.joining(), 3)
    waiting = shard.post(shard.joining(first, session_timeout_ms=30_000), 3)
    shard.wait(9_999)
    assert shard.reply(successor) is None
    shard.wait(1)
    response = shard.joined(waiting)
    assert response.generation_id == shard.joined(successor).generation_id == 3
    assert second not in [member.member_id for member in response.members]


def test_a_cooperative_rebalance_passes_metadata_and_assignments_through(shard) -> None:
    """Clients implement KIP-429: the broker passes their owned partitions on, and lets them join twice."""

    def owning(partitions: bytes) -> tuple[JoinGroupRequestProtocol, ...]:
        return (JoinGroupRequestProtocol("cooperative-sticky", b"owned:" + partitions),)

    def sync(member_id: str, generation: int, assignments: dict[str, bytes] | None = None) -> int:
        message = shard.syncing(member_id, generation, assignments, protocol_name="cooperative-sticky")
        return shard.post(message, 5)

    first = shard.begin(protocols=owning(b""))
    waiting = shard.post(shard.joining(protocols=owning(b"")), 3)
    response = shard.ask(shard.joining(first, protocols=owning(b"0,1")), 3)
    second = shard.joined(waiting).member_id
    assert {member.member_id: member.metadata for member in response.members} == {
        first: b"owned:0,1",
        second: b"owned:",
    }
    # first round: the old owner gives up 1, which has no new owner yet
    follower = sync(second, 2)
    leader = sync(first, 2, {first: b"0", second: b""})
    assert (shard.synced(leader).assignment, shard.synced(follower).assignment) == (b"0", b"")
    # it revokes, and rejoins: second round
    again = shard.post(shard.joining(first, protocols=owning(b"0")), 3)
    assert shard.code(shard.beating(second, 2)) == 27
    shard.ask(shard.joining(second, protocols=owning(b"")), 3)
    assert shard.joined(again).generation_id == 3
    follower = sync(second, 3)
    sync(first, 3, {first: b"0", second: b"1"})
    assert shard.synced(follower).assignment == b"1"


def test_a_reload_keeps_generation_members_assignments_and_offsets(shard) -> None:
    first, second = shard.begin_two()
    shard.ask(shard.committing(42, member_id=first, generation=2))
    before = shard.ask(DescribeGroup("g"), 6)
    shard.reload()
    assert shard.ask(DescribeGroup("g"), 6) == before
    assert shard.code(shard.beating(first, 2)) == 0
    assert shard.ask(shard.syncing(second, 2), 5).assignment == second.encode()
    assert shard.state.offsets["g"]["t"][0].offset == 42


def test_after_a_reload_silent_members_are_out_after_their_session(shard) -> None:
    first, second = shard.begin_two()
    shard.reload()
    shard.wait(5_000)
    shard.code(shard.beating(first, 2))
    shard.wait(5_000)
    assert shard.code(shard.beating(second, 2)) == 25
    assert shard.code(shard.beating(first, 2)) == 27


def test_a_reload_in_the_middle_of_a_rebalance_falls_back_to_the_recorded_generation(shard) -> None:
    first = shard.begin()
    shard.post(shard.joining(), 3)
    shard.ask(shard.joining(first), 3)
    shard.reload()
    described = shard.ask(DescribeGroup("g"), 6)
    assert (described.group_state, [member.member_id for member in described.members]) == ("Stable", [first])
    assert shard.code(shard.beating(first, 2)) == 22
    assert shard.code(shard.beating(first, 1)) == 0


def test_a_reloaded_group_over_a_lowered_bound_begins_anew(shard) -> None:
    first = shard.begin()
    shard.second(first)
    shard.settings = msgspec.structs.replace(shard.settings, group_max_size=1)
    shard.reload()
    assert shard.code(shard.beating(first, 2)) == 27
    waiting = shard.post(shard.joining(first), 3)
    shard.wait(60_000)
    assert [member.member_id for member in shard.joined(waiting).members] == [first]


@pytest.mark.parametrize("version", [3, 9])
def test_a_member_that_finds_no_room_is_waited_for_no_longer(shard, version: int) -> None:
    """Apache Kafka lets the joined members wait for it until the rebalance timeout is over."""
    first, second = shard.begin_two()
    shard.settings = msgspec.structs.replace(shard.settings, group_max_size=1)
    shard.reload()
    waiting = shard.post(shard.joining(first), version)
    assert shard.reply(waiting) is None
    assert shard.code(shard.joining(second), version) == 81
    assert [member.member_id for member in shard.joined(waiting).members] == [first]


def test_thousand_members_come_and_settle(shard_class) -> None:
    shard = shard_class(group_initial_rebalance_delay_ms=3_000)
    waiting = [shard.post(shard.joining(rebalance_timeout_ms=10_000), 3) for _ in range(1_000)]
    shard.wait(10_000)
    members = [shard.joined(request_id).member_id for request_id in waiting]
    followers = [shard.post(shard.syncing(member_id, 1), 5) for member_id in members[1:]]
    shard.post(shard.syncing(members[0], 1, {member_id: member_id.encode() for member_id in members}), 5)
    assert [shard.synced(request_id).assignment.decode() for request_id in followers] == members[1:]
