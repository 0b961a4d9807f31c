"""DescribeGroups and ListGroups."""

from __future__ import annotations

import pytest

from moldau.core.groups.describe import shortened
from moldau.core.groups.requests import DescribeGroup
from moldau.types import whole
from moldau.wire.protocol.messages.groups_classic import (
    DescribedGroup,
    DescribedGroupMember,
    ListedGroup,
    ListGroupsRequest,
)


def listed(shard, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[str]:
    return [group.group_id for group in shard.ask(ListGroupsRequest(states, types), 5).groups]


@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead(shard, version: int) -> None:
    expected = DescribedGroup(group_id="x", group_state="Dead")
    if version == 6:
        expected = DescribedGroup(group_id="x", group_state="Dead", error_code=69, error_message="Group x not found.")
    assert shard.ask(DescribeGroup("x"), version) == expected


def test_a_stable_group_shows_everything(shard) -> None:
    member_id = shard.begin(version=9, instance_id="i")
    assert shard.ask(DescribeGroup("g"), 6) == DescribedGroup(
        group_id="g",
        group_state="Stable",
        protocol_type="consumer",
        protocol_data="range",
        members=(DescribedGroupMember(member_id, "i", "client", "/127.0.0.1", b"topics", b"all"),),
    )


def test_a_rebalancing_group_shows_members_without_their_metadata(shard) -> None:
    first = shard.begin()
    shard.post(shard.joining(), 3)
    described = shard.ask(DescribeGroup("g"), 6)
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in described.members] == [b"", b""]
    shard.ask(shard.joining(first), 3)
    assert shard.ask(DescribeGroup("g"), 6).group_state == "CompletingRebalance"


def test_groups_are_listed_by_state_and_type(shard) -> None:
    shard.begin(group_id="stable")
    shard.ask(shard.committing(group_id="empty"))
    assert shard.ask(ListGroupsRequest(), 5).groups == (
        ListedGroup("stable", "consumer", "Stable", "classic"),
        ListedGroup("empty", "", "Empty", "classic"),
    )
    assert listed(shard, states=("Empty",)) == ["empty"]
    assert listed(shard, states=(" EMPTY ", "stable")) == ["stable", "empty"]
    assert listed(shard, states=("bogus",)) == []
    assert listed(shard, types=("Classic",)) == ["stable", "empty"]
    assert listed(shard, types=("consumer", "bogus")) == []


@pytest.mark.parametrize(("state", "kept"), [("EMPTY", "empty"), ("stable", "stable"), ("none", "bogus")])
def test_groups_are_compared_with_few_words_however_long_the_filter(state: str, kept: str) -> None:
    long = ListGroupsRequest(("bogus", *[state] * 1_000), ("consumer", *["Classic"] * 1_000))
    assert whole(shortened(long)) == ListGroupsRequest((kept,), ("classic",))


def test_no_filter_stays_none() -> None:
    assert whole(shortened(ListGroupsRequest())) == ListGroupsRequest()


def test_a_classic_group_takes_the_place_of_one_of_another_kind(shard) -> None:
    shard.state.other_kinds["g"] = "consumer"
    shard.begin()
    assert listed(shard) == ["g"]


def test_a_group_of_another_kind_is_not_shown(shard) -> None:
    shard.ask(shard.committing())
    shard.state.other_kinds["g"] = "consumer"
    assert listed(shard) == []
    assert shard.ask(DescribeGroup("g"), 6).error_code == 69
