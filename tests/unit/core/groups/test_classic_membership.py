"""Heartbeat, LeaveGroup and sessions by examples."""

from __future__ import annotations

import pytest

from moldau.core.groups.requests import DescribeGroup, JoinPhaseOver, SessionExpired, SyncPhaseOver
from moldau.wire.protocol.messages.groups_classic import LeaveGroupRequest


@pytest.mark.parametrize("version", range(5))
def test_heartbeat(shard, version: int) -> None:
    member_id = shard.begin()
    assert shard.code(shard.beating("m", 1, group_id=""), version) == 24
    assert shard.code(shard.beating("m", 1, group_id="other"), version) == 25
    assert shard.code(shard.beating("m", 1), version) == 25
    assert shard.code(shard.beating(member_id, 1, instance_id="i"), version) == 25
    assert shard.code(shard.beating(member_id, 0), version) == 22
    assert shard.code(shard.beating(member_id, 1), version) == 0
    shard.post(shard.joining(), 3)
    assert shard.code(shard.beating(member_id, 1), version) == 27


def test_heartbeat_in_the_sync_phase_is_welcome(shard) -> None:
    member_id = shard.ask(shard.joining(), 3).member_id
    assert shard.code(shard.beating(member_id, 1)) == 0


@pytest.mark.parametrize("version", range(3))
def test_leaving_alone_has_its_error_on_top(shard, version: int) -> None:
    member_id = shard.begin()

    def leave(group_id: str, member: str) -> int:
        return shard.ask(LeaveGroupRequest(group_id=group_id, member_id=member), version).error_code

    assert (leave("", "m"), leave("other", "m"), leave("g", "m")) == (24, 25, 25)
    assert leave("g", member_id) == 0
    assert shard.recorded().members == ()


@pytest.mark.parametrize("version", range(3, 6))
def test_many_leave_with_an_error_each(shard, version: int) -> None:
    first, second = shard.begin_two()
    unknown = shard.ask(shard.leaving(("m", None), ("", "i"), group_id="other"), version)
    assert (unknown.error_code, [member.error_code for member in unknown.members]) == (0, [25, 25])
    assert shard.ask(shard.leaving(("m", None), group_id=""), version).error_code == 24
    response = shard.ask(
        shard.leaving((first, None), (first, None), ("m", None), ("", None), ("", "i"), (second, "i")), version
    )
    assert response.error_code == 0
    assert [member.error_code for member in response.members] == [0, 25, 25, 25, 25, 25]
    assert [member.member_id for member in response.members] == [first, first, "m", "", "", second]


def test_the_last_to_leave_empties_the_group_with_a_new_generation(shard) -> None:
    member_id = shard.begin()
    shard.ask(shard.leaving((member_id, None)), 5)
    recorded = shard.recorded()
    assert (recorded.generation, recorded.protocol_type, recorded.protocol, recorded.leader) == (
        2,
        "consumer",
        None,
        None,
    )
    described = shard.ask(DescribeGroup("g"), 6)
    assert (described.group_state, described.protocol_type) == ("Empty", "consumer")


def test_when_one_leaves_the_other_is_asked_to_join_again(shard) -> None:
    first, second = shard.begin_two()
    shard.ask(shard.leaving((first, None)), 5)
    assert shard.code(shard.beating(second, 2)) == 27
    response = shard.ask(shard.joining(second), 3)
    assert (response.generation_id, response.leader) == (3, second)


def test_a_leaving_member_that_waits_is_answered(shard) -> None:
    first = shard.begin()
    waiting = shard.post(shard.joining(), 3)
    (second,) = [member_id for member_id in shard.state.groups["g"].members if member_id != first]
    shard.ask(shard.leaving((second, None)), 5)
    assert shard.joined(waiting).error_code == 25


def test_a_leaving_member_that_waits_for_its_assignment_is_answered(shard) -> None:
    """Kafka does not answer its SyncGroup."""
    first = shard.begin()
    waiting = shard.post(shard.joining(), 3)
    shard.ask(shard.joining(first), 3)
    second = shard.joined(waiting).member_id
    syncing = shard.post(shard.syncing(second, 2), 5)
    shard.ask(shard.leaving((second, None)), 5)
    assert shard.synced(syncing).error_code == 25


def test_a_pending_member_may_leave(shard) -> None:
    first = shard.begin()
    pending = shard.ask(shard.joining(), 9).member_id
    waiting = shard.post(shard.joining(first), 3)
    assert shard.reply(waiting) is None
    assert shard.code(shard.leaving((pending, None)), 5) == 0
    assert shard.joined(waiting).generation_id == 2


def test_a_silent_member_is_out_and_the_others_join_again(shard) -> None:
    first, second = shard.begin_two()
    shard.wait(6_000)
    assert shard.code(shard.beating(first, 2)) == 0
    shard.wait(4_000)
    assert shard.code(shard.beating(first, 2)) == 27
    assert shard.code(shard.beating(second, 2)) == 25
    assert len(shard.ask(shard.joining(first), 3).members) == 1


@pytest.mark.parametrize("renewal", ["heartbeat", "commit"])
def test_heartbeats_and_commits_keep_a_session(shard, renewal: str) -> None:
    member_id = shard.begin()
    for _ in range(10):
        shard.wait(9_000)
        if renewal == "heartbeat":
            assert shard.code(shard.beating(member_id, 1)) == 0
        else:
            assert shard.code(shard.committing(member_id=member_id, generation=1)) == 0


def test_a_member_that_waits_for_others_does_not_expire(shard) -> None:
    first = shard.begin(session_timeout_ms=40_000)
    second = shard.second(first)
    waiting = shard.post(
        shard.joining(second, protocols=shard.protocols("range", metadata=b"new"), session_timeout_ms=6_000), 3
    )
    shard.wait(9_000)
    assert shard.reply(waiting) is None
    assert shard.ask(shard.joining(first), 3).error_code == 0
    assert shard.joined(waiting).error_code == 0


def test_a_pending_id_expires_and_then_holds_up_nobody(shard) -> None:
    first = shard.begin(session_timeout_ms=60_000)
    pending = shard.ask(shard.joining(session_timeout_ms=6_000), 9).member_id
    waiting = shard.post(shard.joining(first), 3)
    shard.wait(5_999)
    assert shard.reply(waiting) is None
    shard.wait(1)
    assert shard.joined(waiting).generation_id == 2
    assert shard.code(shard.joining(pending), 9) == 25


def test_a_timer_that_nobody_asks_for_any_more_is_taken_in_silence(shard) -> None:
    member_id = shard.begin()
    before = len(shard.log)
    for firing in (
        SessionExpired("other", "m"),
        SessionExpired("g", "m"),
        SessionExpired("g", member_id),
        JoinPhaseOver("other", 1),
        JoinPhaseOver("g", 1),
        SyncPhaseOver("other", 1),
        SyncPhaseOver("g", 1),
    ):
        shard.tell(firing)
    assert len(shard.log) == before
    assert shard.code(shard.beating(member_id, 1)) == 0
