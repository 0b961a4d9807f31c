"""The memory limits of a member, a group, and all groups of a node."""

from __future__ import annotations

from moldau.core.groups.classic.group import GroupState
from moldau.core.groups.classic.memory import MEMBER_BYTES
from moldau.errors import ERROR_CODES, KafkaError
from moldau.wire.protocol.messages.groups_classic import JoinGroupRequestProtocol

INVALID_REQUEST = ERROR_CODES["INVALID_REQUEST"]
MEMBER_ID_REQUIRED = ERROR_CODES["MEMBER_ID_REQUIRED"]
REBALANCE_IN_PROGRESS = ERROR_CODES["REBALANCE_IN_PROGRESS"]
GROUP_MAX_SIZE_REACHED = ERROR_CODES["GROUP_MAX_SIZE_REACHED"]
KIB = 1 << 10


def say(size: int, name: str = "range") -> tuple[JoinGroupRequestProtocol, ...]:
    return (JoinGroupRequestProtocol(name, bytes(size)),)


def test_a_member_that_says_more_than_its_bound_gets_42_and_leaves_nothing_behind(shard_class) -> None:
    shard = shard_class(moldau_group_member_bytes=64 * KIB)
    for version in (0, 3, 4, 9):
        assert shard.code(shard.joining(protocols=say(64 * KIB)), version) == INVALID_REQUEST
    assert shard.state.groups == {}
    assert shard.memory.used_bytes == 0
    assert shard.bounds_reached == ["moldau.group.member.bytes"] * 4


def test_many_empty_protocols_count_for_what_they_take(shard_class) -> None:
    shard = shard_class(moldau_group_member_bytes=64 * KIB)
    protocols = shard.protocols(*(f"p{number}" for number in range(1000)), metadata=b"")
    assert shard.code(shard.joining(protocols=protocols), 3) == INVALID_REQUEST


def test_a_group_takes_no_member_more_than_its_bound_holds(shard_class) -> None:
    shard = shard_class(moldau_group_bytes=64 * KIB)
    first = shard.begin(protocols=say(40 * KIB))
    assert shard.code(shard.joining(protocols=say(40 * KIB)), 3) == GROUP_MAX_SIZE_REACHED
    assert shard.bounds_reached == ["moldau.group.bytes"]
    assert list(shard.state.groups["g"].members) == [first]
    assert shard.state.groups["g"].state is GroupState.STABLE
    # other groups have separate limits
    shard.begin(group_id="h", protocols=say(40 * KIB))


def test_all_groups_together_hold_no_more_than_the_bound_of_the_node(shard_class) -> None:
    shard = shard_class()
    shard.memory.limit_bytes = 100 * KIB
    first = shard.begin(protocols=say(60 * KIB))
    assert shard.code(shard.joining(group_id="h", protocols=say(60 * KIB)), 3) == GROUP_MAX_SIZE_REACHED
    assert shard.bounds_reached == ["moldau.group.memory.bytes"]
    assert list(shard.state.groups) == ["g"]
    shard.ask(shard.leaving((first, None)), 5)
    assert shard.memory.used_bytes == 0
    shard.begin(group_id="h", protocols=say(60 * KIB))


def test_a_member_that_comes_again_unchanged_is_never_refused(shard_class) -> None:
    shard = shard_class(moldau_group_bytes=64 * KIB)
    dynamic = shard.begin(protocols=say(40 * KIB))
    assert shard.code(shard.joining(dynamic, protocols=say(40 * KIB)), 3) == 0
    static = shard.begin(group_id="h", instance_id="i", protocols=say(40 * KIB), version=9)
    again = shard.ask(shard.joining(group_id="h", instance_id="i", protocols=say(40 * KIB)), 9)
    assert (again.error_code, again.member_id != static) == (0, True)
    assert shard.state.groups["h"].former_bytes == 0


def test_a_subscription_counts_until_the_generation_that_it_belongs_to_is_over(shard_class) -> None:
    shard = shard_class(moldau_group_bytes=128 * KIB)
    first = shard.begin(protocols=say(40 * KIB))
    second = shard.post(shard.joining(protocols=say(40 * KIB)), 3)
    # the first member sends new metadata, while its old metadata is still the generation's subscription
    changed = shard.joining(first, protocols=say(41 * KIB))
    assert shard.code(changed, 3) == 0
    assert shard.joined(second).error_code == 0
    assert shard.state.groups["g"].former_bytes == 0
    waiting = shard.post(shard.joining(first, protocols=say(20 * KIB)), 3)
    assert shard.state.groups["g"].former_bytes == 41 * KIB
    third = shard.joining(protocols=say(40 * KIB))
    assert shard.code(third, 3) == GROUP_MAX_SIZE_REACHED
    shard.post(shard.joining(shard.joined(second).member_id, protocols=say(40 * KIB)), 3)
    assert shard.joined(waiting).generation_id == 3
    assert shard.state.groups["g"].former_bytes == 0


def test_member_ids_that_were_handed_out_count(shard_class) -> None:
    shard = shard_class(moldau_group_bytes=64 * KIB)
    client_id = "c" * 10_000
    codes = [shard.ask(shard.joining(), 9, client_id).error_code for _ in range(6)]
    assert codes == [MEMBER_ID_REQUIRED] * 5 + [GROUP_MAX_SIZE_REACHED]
    shard.wait(10_000)
    assert shard.memory.used_bytes == 0


def test_assignments_count(shard_class) -> None:
    shard = shard_class(moldau_group_member_bytes=64 * KIB, moldau_group_bytes=96 * KIB)
    joined = shard.ask(shard.joining(), 3)
    before = shard.memory.used_bytes
    too_much = shard.syncing(joined.member_id, 1, {joined.member_id: bytes(64 * KIB)})
    assert shard.code(too_much, 5) == INVALID_REQUEST
    # as after assignments that Kafka cannot write: the generation starts again
    assert shard.code(shard.beating(joined.member_id, 1)) == REBALANCE_IN_PROGRESS
    assert shard.memory.used_bytes == before
    joined = shard.ask(shard.joining(joined.member_id), 3)
    fits = shard.syncing(joined.member_id, 2, {joined.member_id: bytes(60 * KIB), "nobody": bytes(KIB)})
    assert shard.code(fits, 5) == 0
    assert shard.memory.used_bytes == before + 60 * KIB
    assert shard.code(shard.joining(protocols=say(40 * KIB)), 3) == GROUP_MAX_SIZE_REACHED


def test_a_group_is_told_that_it_is_full_when_its_leader_assigns_too_much(shard_class) -> None:
    shard = shard_class(moldau_group_bytes=64 * KIB)
    first = shard.begin()
    second = shard.post(shard.joining(), 3)
    shard.post(shard.joining(first), 3)
    member_id = shard.joined(second).member_id
    follower = shard.post(shard.syncing(member_id, 2), 5)
    assignments = {first: bytes(40 * KIB), member_id: bytes(40 * KIB)}
    assert shard.code(shard.syncing(first, 2, assignments), 5) == GROUP_MAX_SIZE_REACHED
    assert shard.synced(follower).error_code == GROUP_MAX_SIZE_REACHED
    assert shard.settle(first, member_id) == 3


def test_a_generation_with_too_large_a_record_is_rejected_and_rebalances_again(shard) -> None:
    first, second = shard.begin_two()
    generation = shard.state.groups["g"].generation
    joins = [shard.post(shard.joining(one, protocols=say(100)), 3) for one in (first, second)]
    generation = shard.joined(joins[0]).generation_id
    shard.max_message_bytes = 10 * KIB
    follower = shard.post(shard.syncing(second, generation), 5)
    leader = shard.post(shard.syncing(first, generation, {first: bytes(11 * KIB)}), 5)
    for request_id in (leader, follower):
        assert isinstance(shard.reply(request_id), KafkaError)
    assert shard.state.groups["g"].state is GroupState.PREPARING_REBALANCE
    assert shard.settle(first, second) == generation + 1


def test_a_static_successor_with_too_large_a_record_does_not_replace_the_member(shard) -> None:
    old = shard.begin(instance_id="i", version=9)
    used = shard.memory.used_bytes
    shard.max_message_bytes = 10 * KIB
    refused = shard.post(shard.joining(instance_id="i", protocols=say(11 * KIB)), 9)
    assert isinstance(shard.reply(refused), KafkaError)
    assert shard.code(shard.beating(old, 1, instance_id="i")) == 0
    assert shard.memory.used_bytes == used
    shard.wait(10_000)
    # the predecessor's session ends
    assert shard.state.groups["g"].members == {}


def test_what_the_log_holds_is_taken_in_and_counted_after_a_start(shard_class) -> None:
    shard = shard_class()
    shard.begin(protocols=say(40 * KIB))
    used = shard.memory.used_bytes
    shard.memory_limit_bytes = 10 * KIB
    shard.reload()
    assert used - MEMBER_BYTES < shard.memory.used_bytes <= used
    assert shard.code(shard.joining(group_id="h"), 3) == GROUP_MAX_SIZE_REACHED
