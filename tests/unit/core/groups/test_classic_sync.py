"""SyncGroup by examples."""

from __future__ import annotations

import pytest

from moldau.core.groups.requests import GroupRequest
from moldau.errors import KafkaError


@pytest.mark.parametrize("version", range(6))
def test_refusals(shard, version: int) -> None:
    member_id = shard.begin()
    assert shard.code(shard.syncing("m", 1, group_id=""), version) == 24
    assert shard.code(shard.syncing("m", 1, group_id="other"), version) == 25
    assert shard.code(shard.syncing("m", 1), version) == 25
    assert shard.code(shard.syncing(member_id, 2), version) == 22
    assert shard.code(shard.syncing(member_id, 1), version) == 0


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "code"),
    [
        ("consumer", "range", 0),
        ("connect", "range", 23),
        ("consumer", "other", 23),
        (None, "range", 23),
        ("consumer", None, 23),
    ],
)
def test_v5_must_name_the_protocol_in_use(
    shard, protocol_type: str | None, protocol_name: str | None, code: int
) -> None:
    member_id = shard.begin()
    message = shard.syncing(member_id, 1, protocol_type=protocol_type, protocol_name=protocol_name)
    assert shard.code(message, 5) == code


def test_followers_wait_for_the_leader_and_missing_assignments_are_empty(shard) -> None:
    first = shard.begin()
    waiting = shard.post(shard.joining(), 3)
    shard.ask(shard.joining(first), 3)
    second = shard.joined(waiting).member_id
    follower = shard.post(shard.syncing(second, 2), 5)
    assert shard.reply(follower) is None
    leader = shard.ask(shard.syncing(first, 2, {first: b"1", "stranger": b"9"}), 5)
    assert (leader.assignment, leader.protocol_type, leader.protocol_name) == (b"1", "consumer", "range")
    assert shard.synced(follower).assignment == b""
    recorded = shard.recorded()
    assert (recorded.generation, recorded.leader, recorded.protocol) == (2, first, "range")
    assert {member.member_id: member.assignment for member in recorded.members} == {first: b"1", second: b""}


def test_a_late_follower_gets_its_assignment_at_once(shard) -> None:
    _, second = shard.begin_two()
    assert shard.ask(shard.syncing(second, 2), 5).assignment == second.encode()


def test_during_a_rebalance_sync_says_27(shard) -> None:
    first = shard.begin()
    shard.post(shard.joining(), 3)
    assert shard.code(shard.syncing(first, 1), 5) == 27


def test_a_new_member_ends_the_sync_phase_of_the_others(shard) -> None:
    first = shard.begin()
    waiting = shard.post(shard.joining(), 3)
    shard.ask(shard.joining(first), 3)
    second = shard.joined(waiting).member_id
    follower = shard.post(shard.syncing(second, 2), 5)
    shard.post(shard.joining(), 3)
    assert shard.synced(follower).error_code == 27


def test_members_that_never_sync_are_out(shard) -> None:
    member_id = shard.ask(shard.joining(rebalance_timeout_ms=2_000, session_timeout_ms=30_000), 3).member_id
    shard.wait(2_000)
    assert shard.code(shard.beating(member_id, 1)) == 25
    assert shard.recorded().generation == 2
    assert shard.recorded().members == ()


def test_a_second_sync_of_the_same_member_takes_the_place_of_the_first(shard) -> None:
    """Kafka never answers the first; Moldau answers 27."""
    first = shard.begin()
    waiting = shard.post(shard.joining(), 3)
    shard.ask(shard.joining(first), 3)
    second = shard.joined(waiting).member_id
    earlier = shard.post(shard.syncing(second, 2), 5)
    later = shard.post(shard.syncing(second, 2), 5)
    assert shard.synced(earlier).error_code == 27
    shard.ask(shard.syncing(first, 2, {second: b"x"}), 5)
    assert shard.synced(later).assignment == b"x"


def test_an_assignment_that_cannot_be_recorded_reaches_nobody(shard) -> None:
    first = shard.begin()
    waiting = shard.post(shard.joining(), 3)
    shard.ask(shard.joining(first), 3)
    second = shard.joined(waiting).member_id
    follower = shard.post(shard.syncing(second, 2), 5)
    shard.is_append_failing = True
    leader = shard.post(shard.syncing(first, 2, {first: b"1"}), 5)
    assert isinstance(shard.reply(leader), KafkaError)
    assert isinstance(shard.reply(follower), KafkaError)
    assert shard.recorded().generation == 1
    shard.is_append_failing = False
    # as in Kafka the generation is over
    assert shard.code(shard.beating(first, 2)) == 27
    assert shard.code(shard.syncing(first, 2, {first: b"2", second: b"3"}), 5) == 27
    assert shard.settle(first, second) == 3


def test_many_assignments_are_gone_through_with_pauses_before_anything_changes(shard) -> None:
    first = shard.begin()
    shard.post(shard.joining(), 3)
    shard.ask(shard.joining(first), 3)
    message = shard.syncing(first, 2, {f"stranger {number}": b"" for number in range(100)})
    work = shard.host.machine.decide(shard.state, 7, GroupRequest(message, 5, "client", "127.0.0.1"), shard.now)
    assert [next(work) for _ in range(100)] == [None] * 100
    assert shard.state.groups["g"].pending_sync.keys() >= {first}
    with pytest.raises(StopIteration) as ended:
        next(work)
    assert first not in shard.state.groups["g"].pending_sync
    assert len(ended.value.value.records) == 1
