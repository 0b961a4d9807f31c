"""JoinGroup by examples; every response here was seen from Apache Kafka 4.3.1, unless the test says otherwise."""

from __future__ import annotations

import re

import pytest

from moldau.core.groups.classic.join import MAX_PENDING_MEMBERS
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.groups_classic import JoinGroupResponse, ListGroupsRequest


@pytest.mark.parametrize("version", range(10))
def test_refusals_before_there_is_a_group(shard, version: int) -> None:
    name = None if version >= 7 else ""
    cases = [
        (shard.joining(group_id=""), 24, ""),
        (shard.joining(session_timeout_ms=5_999), 26, ""),
        (shard.joining(session_timeout_ms=1_800_001), 26, ""),
        (shard.joining("nobody"), 25, "nobody"),
        (shard.joining(protocols=()), 23, ""),
        (shard.joining(protocol_type=""), 23, ""),
    ]
    for message, code, member_id in cases:
        expected = JoinGroupResponse(error_code=code, member_id=member_id, protocol_name=name)
        assert shard.ask(message, version) == expected
    # better than Kafka, which keeps an empty group for a rejected member
    assert shard.log == []
    assert shard.ask(ListGroupsRequest()).groups == ()


@pytest.mark.parametrize("version", [3, 4])
def test_a_group_that_cannot_be_recorded_is_not_there(shard, version: int) -> None:
    """With v3 the member is in the group at once, with v4 its id is issued: a rejected client knows neither."""
    shard.is_append_failing = True
    assert isinstance(shard.reply(shard.post(shard.joining(), version)), KafkaError)
    shard.is_append_failing = False
    assert shard.ask(ListGroupsRequest()).groups == ()
    assert shard.memory.used_bytes == 0
    joined = shard.ask(shard.joining(), 3)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)
    assert [member.member_id for member in joined.members] == [joined.member_id]


@pytest.mark.parametrize("version", [0, 3, 4, 9])
@pytest.mark.parametrize("character", ["L", "é"])
def test_a_member_id_that_would_be_too_long_for_a_string_is_refused(shard, version: int, character: str) -> None:
    """Kafka adds the member, and then can encode neither the response to the leader nor that to DescribeGroups."""
    honest = shard.ask(shard.joining(), 3)
    log = list(shard.log)
    size = len(character.encode())
    longest = character * (32_730 // size)
    refused = shard.ask(shard.joining(), version, longest + character)
    assert (refused.error_code, refused.member_id) == (42, "")
    refused = shard.ask(shard.joining(instance_id=longest + character), 9)
    assert (refused.error_code, refused.member_id) == (42, "")
    assert shard.log == log
    assert shard.ask(shard.beating(honest.member_id, honest.generation_id), 4).error_code in (0, 27)
    taken = shard.ask(shard.joining(), 4, longest)
    assert taken.error_code == 79
    assert len(taken.member_id.encode()) == 32_730 // size * size + 37


def test_a_new_dynamic_member_must_fetch_its_id_since_v4(shard) -> None:
    response = shard.ask(shard.joining(), 4)
    assert response.error_code == 79
    assert re.fullmatch(
        r"client-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", response.member_id
    )
    joined = shard.ask(shard.joining(response.member_id), 4)
    assert (joined.error_code, joined.generation_id, joined.member_id) == (0, 1, response.member_id)


@pytest.mark.parametrize("version", range(4))
def test_older_versions_join_at_once(shard, version: int) -> None:
    response = shard.ask(shard.joining(), version)
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 1, "range")
    assert response.leader == response.member_id
    assert [member.metadata for member in response.members] == [b"topics"]


def test_v0_waits_as_long_as_its_session(shard) -> None:
    shard.ask(shard.joining(session_timeout_ms=7_000, rebalance_timeout_ms=-1), 0)
    (member,) = shard.state.groups["g"].members.values()
    assert member.rebalance_timeout_ms == 7_000


@pytest.mark.parametrize(("client_id", "prefix"), [(None, "-"), ("", "-"), ("a b\n", "a b\n-")])
def test_any_client_id_makes_a_member_id(shard, client_id: str | None, prefix: str) -> None:
    assert shard.ask(shard.joining(), 3, client_id).member_id.startswith(prefix)


def test_a_first_join_records_the_group_before_anybody_is_in_it(shard) -> None:
    shard.ask(shard.joining(), 9)
    recorded = shard.recorded()
    assert (recorded.generation, recorded.protocol_type, recorded.protocol, recorded.leader) == (0, "", None, None)
    assert recorded.members == ()


def test_the_initial_delay_lets_others_in_and_is_prolonged_by_them(shard_class) -> None:
    shard = shard_class(group_initial_rebalance_delay_ms=3_000)
    first = shard.post(shard.joining(rebalance_timeout_ms=7_500), 3)
    shard.wait(2_000)
    second = shard.post(shard.joining(rebalance_timeout_ms=7_500), 3)
    shard.wait(1_500)
    assert shard.reply(first) is None
    third = shard.post(shard.joining(rebalance_timeout_ms=7_500), 3)
    shard.wait(2_500)
    assert shard.reply(first) is None
    # 3,000 + 3,000 + the rest of the rebalance timeout
    shard.wait(1_500)
    assert {shard.joined(waiting).generation_id for waiting in (first, second, third)} == {1}
    assert len(shard.joined(first).members) == 3
    assert shard.joined(second).members == ()


def test_nobody_new_means_one_delay(shard_class) -> None:
    shard = shard_class(group_initial_rebalance_delay_ms=3_000)
    waiting = shard.post(shard.joining(), 3)
    shard.wait(2_999)
    assert shard.reply(waiting) is None
    shard.wait(1)
    assert shard.joined(waiting).error_code == 0


def test_the_protocol_is_what_all_list_and_most_prefer(shard) -> None:
    first = shard.begin(protocols=shard.protocols("a", "b", "c"))
    waiting = [
        shard.post(shard.joining(protocols=shard.protocols("b", "c")), 3),
        shard.post(shard.joining(protocols=shard.protocols("c", "b")), 3),
    ]
    assert shard.code(shard.joining(protocols=shard.protocols("a")), 3) == 23
    assert shard.code(shard.joining(protocols=shard.protocols("b"), protocol_type="connect"), 3) == 23
    leader = shard.ask(shard.joining(first, protocols=shard.protocols("a", "b", "c")), 3)
    assert leader.protocol_name == "b"
    assert {shard.joined(request_id).protocol_name for request_id in waiting} == {"b"}


def test_a_member_that_joins_again_unchanged_gets_the_present_generation(shard) -> None:
    _, second = shard.begin_two()
    response = shard.ask(shard.joining(second), 3)
    assert (response.error_code, response.generation_id, response.members) == (0, 2, ())


def test_a_leader_that_joins_again_begins_a_rebalance(shard) -> None:
    first = shard.begin()
    assert shard.ask(shard.joining(first), 3).generation_id == 2


def test_a_join_in_the_sync_phase_rebalances_only_if_the_member_changed(shard) -> None:
    first, second = shard.begin_two()
    waiting = shard.post(shard.joining(second, protocols=shard.protocols("range", metadata=b"new")), 3)
    shard.ask(shard.joining(first), 3)
    assert shard.joined(waiting).generation_id == 3
    assert len(shard.ask(shard.joining(first), 3).members) == 2
    shard.post(shard.joining(second, protocols=shard.protocols("range", metadata=b"newer")), 3)
    assert shard.code(shard.beating(first, 3)) == 27


def test_members_that_do_not_come_back_in_time_are_out(shard) -> None:
    first = shard.begin(rebalance_timeout_ms=2_000, session_timeout_ms=30_000)
    waiting = shard.post(shard.joining(rebalance_timeout_ms=1_500, session_timeout_ms=30_000), 3)
    shard.wait(1_999)
    assert shard.reply(waiting) is None
    shard.wait(1)
    response = shard.joined(waiting)
    assert (response.generation_id, response.leader, len(response.members)) == (2, response.member_id, 1)
    assert shard.code(shard.beating(first, 2)) == 25


def test_groups_are_bounded(shard_class) -> None:
    shard = shard_class(moldau_groups=1)
    shard.begin()
    assert shard.code(shard.joining(group_id="other"), 3) == 81
    assert shard.code(shard.committing(group_id="other")) == 81


def test_groups_that_only_commit_are_bounded_too(shard_class) -> None:
    shard = shard_class(moldau_groups=2)
    assert [shard.code(shard.committing(group_id=group_id)) for group_id in ("a", "b", "c")] == [0, 0, 81]
    assert shard.code(shard.committing(group_id="a")) == 0


def test_a_full_group_takes_nobody_in(shard_class) -> None:
    shard = shard_class(group_max_size=1)
    first = shard.begin()
    assert shard.code(shard.joining(), 3) == 81
    assert shard.code(shard.joining(), 9) == 81
    assert shard.ask(shard.joining(first), 3).generation_id == 2


def test_while_a_group_gathers_the_waiting_members_are_counted(shard_class) -> None:
    shard = shard_class(group_max_size=2, group_initial_rebalance_delay_ms=3_000)
    shard.post(shard.joining(), 3)
    shard.post(shard.joining(), 3)
    assert shard.code(shard.joining(), 3) == 81


def test_groups_and_unclaimed_member_ids_are_bounded(shard_class) -> None:
    shard = shard_class(moldau_groups=1)
    shard.begin()
    assert shard.code(shard.joining(group_id="other"), 3) == 81
    assert shard.code(shard.committing(group_id="other")) == 81
    codes = [shard.code(shard.joining(), 9) for _ in range(MAX_PENDING_MEMBERS + 1)]
    assert codes == [79] * MAX_PENDING_MEMBERS + [81]


def test_a_second_join_of_the_same_member_takes_the_place_of_the_first(shard) -> None:
    """Kafka never answers the first; Moldau answers 27."""
    first, second = shard.begin_two()
    changed = shard.protocols("range", metadata=b"new")
    earlier = shard.post(shard.joining(second, protocols=changed), 3)
    later = shard.post(shard.joining(second, protocols=changed), 3)
    assert shard.joined(earlier).error_code == 27
    assert shard.reply(later) is None
    shard.ask(shard.joining(first), 3)
    assert shard.joined(later).generation_id == 3


def test_a_group_of_another_kind_is_not_joined(shard) -> None:
    shard.state.other_kinds["g"] = "share"
    assert shard.code(shard.joining(), 3) == 23


def test_a_new_members_parked_join_fails_after_five_minutes(shard) -> None:
    """Otherwise a lost client would not be noticed."""
    first = shard.begin(session_timeout_ms=600_000, rebalance_timeout_ms=900_000)
    waiting = shard.post(shard.joining(rebalance_timeout_ms=900_000), 3)
    shard.wait(299_999)
    assert shard.reply(waiting) is None
    shard.wait(1)
    assert shard.joined(waiting).error_code == 25
    assert list(shard.state.groups["g"].members) == [first]


def test_a_pending_id_with_an_instance_is_a_contradiction(shard) -> None:
    member_id = shard.ask(shard.joining(), 9).member_id
    assert shard.code(shard.joining(member_id, instance_id="i"), 9) == -1
