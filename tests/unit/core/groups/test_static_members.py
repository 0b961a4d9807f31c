"""Members with an instance id (KIP-345, 814): they return under a new member id without a rebalance."""

from __future__ import annotations

import pytest

from moldau.core.groups.counters import REBALANCES
from moldau.core.groups.requests import DescribeGroup
from moldau.errors import KafkaError


@pytest.fixture
def pair(shard) -> tuple[str, str]:
    """A stable group of i1 (leader) and i2 at generation 2, assignments 1 and 2."""
    first = shard.begin(version=9, instance_id="i1")
    waiting = shard.post(shard.joining(instance_id="i2"), 9)
    shard.ask(shard.joining(first, instance_id="i1"), 9)
    second = shard.joined(waiting).member_id
    syncing = shard.post(shard.syncing(second, 2, instance_id="i2"), 5)
    shard.ask(shard.syncing(first, 2, {first: b"1", second: b"2"}, instance_id="i1"), 5)
    assert shard.synced(syncing).assignment == b"2"
    return first, second


def test_a_static_member_gets_its_id_at_once(shard) -> None:
    member_id = shard.begin(version=9, instance_id="i1")
    assert member_id.startswith("i1-")


def test_a_restarted_follower_takes_over_its_assignment(shard, pair: tuple[str, str]) -> None:
    first, second = pair
    response = shard.ask(shard.joining(instance_id="i2"), 9, "new client")
    assert (response.error_code, response.generation_id, response.leader) == (0, 2, first)
    assert response.member_id != second
    assert (response.skip_assignment, response.members) == (False, ())
    assert shard.ask(shard.syncing(response.member_id, 2, instance_id="i2"), 5).assignment == b"2"
    recorded = {member.group_instance_id: member for member in shard.recorded().members}
    assert (recorded["i2"].member_id, recorded["i2"].assignment) == (response.member_id, b"2")
    assert recorded["i2"].client_id == "client"
    assert shard.code(shard.beating(first, 2, instance_id="i1")) == 0
    # of the first member alone, and of both: the log's record of the returned member is no rebalance
    assert shard.counts == {REBALANCES: 2}


def test_the_member_that_was_replaced_is_fenced(shard, pair: tuple[str, str]) -> None:
    _, second = pair
    shard.ask(shard.joining(instance_id="i2"), 9)
    assert shard.code(shard.beating(second, 2, instance_id="i2")) == 82
    assert shard.code(shard.beating(second, 2)) == 25
    assert shard.code(shard.committing(member_id=second, generation=2, instance_id="i2")) == 82
    assert shard.code(shard.joining(second, instance_id="i2"), 9) == 82
    assert shard.code(shard.syncing(second, 2, instance_id="i2"), 5) == 82
    assert shard.code(shard.leaving((second, "i2")), 5) == 82


def test_a_restarted_leader_may_skip_its_assignment_since_v9(shard, pair: tuple[str, str]) -> None:
    response = shard.ask(shard.joining(instance_id="i1"), 9)
    assert response.leader == response.member_id
    assert response.skip_assignment is True
    assert len(response.members) == 2
    assert shard.ask(shard.syncing(response.member_id, 2, instance_id="i1"), 5).assignment == b"1"


def test_before_v9_a_restarted_leader_is_told_its_old_name(shard, pair: tuple[str, str]) -> None:
    first, _ = pair
    response = shard.ask(shard.joining(instance_id="i1", protocols=shard.protocols("range", metadata=b"new")), 5)
    assert (response.leader, response.skip_assignment, response.members) == (first, False, ())
    assert shard.recorded().leader == response.member_id
    assert {member.group_instance_id: member.subscription for member in shard.recorded().members}["i1"] == b"new"


def test_a_replacement_that_cannot_be_recorded_changes_nothing(shard, pair: tuple[str, str]) -> None:
    _, second = pair
    shard.is_append_failing = True
    assert isinstance(shard.reply(shard.post(shard.joining(instance_id="i2"), 9)), KafkaError)
    shard.is_append_failing = False
    assert shard.code(shard.beating(second, 2, instance_id="i2")) == 0
    shard.wait(5_000)
    assert shard.code(shard.beating(second, 2, instance_id="i2")) == 0


def test_another_protocol_begins_a_rebalance(shard, pair: tuple[str, str]) -> None:
    first, _ = pair
    changed = shard.protocols("sticky", "range")
    assert shard.reply(shard.post(shard.joining(first, instance_id="i1", protocols=changed), 9)) is None
    assert shard.code(shard.beating(first, 2, instance_id="i1")) == 27


def test_in_the_sync_phase_a_restart_begins_anew(shard) -> None:
    first = shard.ask(shard.joining(instance_id="i1"), 9).member_id
    waiting = shard.post(shard.syncing("x", 1), 5)
    assert shard.synced(waiting).error_code == 25
    response = shard.ask(shard.joining(instance_id="i1"), 9)
    assert response.generation_id == 2
    assert shard.code(shard.syncing(first, 1, instance_id="i1"), 5) == 82
    assert shard.code(shard.syncing(response.member_id, 2, {response.member_id: b"x"}, instance_id="i1"), 5) == 0


def test_a_restart_answers_what_the_old_one_waits_for(shard, pair: tuple[str, str]) -> None:
    first, second = pair
    old = shard.post(shard.joining(second, instance_id="i2", protocols=shard.protocols("range", metadata=b"new")), 9)
    new = shard.post(shard.joining(instance_id="i2"), 9)
    assert shard.joined(old).error_code == 82
    shard.ask(shard.joining(first, instance_id="i1"), 9)
    successor = shard.joined(new).member_id
    old_sync = shard.post(shard.syncing(successor, 3, instance_id="i2"), 5)
    last = shard.post(shard.joining(instance_id="i2"), 9)
    assert shard.synced(old_sync).error_code == 82
    shard.ask(shard.joining(first, instance_id="i1"), 9)
    assert shard.joined(last).generation_id == 4


def test_static_members_may_miss_a_rebalance(shard, pair: tuple[str, str]) -> None:
    """They stay in the group until their session or the sync phase ends."""
    first, second = pair
    waiting = shard.post(shard.joining(first, instance_id="i1", session_timeout_ms=1_000_000), 9)
    shard.state.groups["g"].members[second].session_deadline_ms = shard.now_ms + 10_000_000
    shard.wait(60_000)
    response = shard.joined(waiting)
    assert response.generation_id == 3
    assert {member.group_instance_id for member in response.members} == {"i1", "i2"}


def test_who_missed_a_rebalance_and_comes_back_later_begins_none(shard, pair: tuple[str, str]) -> None:
    """A member without a SyncGroup by the end of the sync phase is removed, which starts a rebalance. Here a successor
    has its assignment, so none starts."""
    first, _ = pair
    rejoining = shard.post(shard.joining(first, instance_id="i1"), 9)
    for _ in range(7):
        shard.wait(9_000)
        if shard.reply(rejoining) is not None:
            break
        shard.ask(shard.beating(pair[1], 2, instance_id="i2"))
    assert shard.joined(rejoining).generation_id == 3
    shard.ask(shard.syncing(first, 3, {first: b"1", pair[1]: b"2"}, instance_id="i1"), 5)
    second = shard.ask(shard.joining(instance_id="i2"), 9).member_id
    assert shard.ask(shard.syncing(second, 3, instance_id="i2"), 5).assignment == b"2"
    for _ in range(10):
        shard.wait(9_000)
        assert shard.code(shard.beating(first, 3, instance_id="i1")) == 0
        assert shard.code(shard.beating(second, 3, instance_id="i2")) == 0


def test_an_administrator_removes_by_instance_id(shard, pair: tuple[str, str]) -> None:
    response = shard.ask(shard.leaving(("", "i2"), ("", "nope"), ("", "i1")), 5)
    assert [member.error_code for member in response.members] == [0, 25, 0]
    assert shard.ask(DescribeGroup("g"), 6).group_state == "Empty"


def test_a_reloaded_group_knows_its_static_members(shard, pair: tuple[str, str]) -> None:
    _, second = pair
    shard.reload()
    response = shard.ask(shard.joining(instance_id="i2"), 9)
    assert (response.error_code, response.generation_id) == (0, 2)
    assert shard.code(shard.beating(second, 2, instance_id="i2")) == 82
