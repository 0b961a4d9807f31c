"""Section "Topics" of the table of bad input."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    DeleteTopicState,
)
from tests.support.wire import RawConnection
from tests.support.wire_topics import assigned, create, delete, exists, topic

NewName = Callable[[str], str]


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a/b", "../x", "a b", "ä", "a\nb", "a\0b"])
def test_an_illegal_name_is_refused(raw: RawConnection, name: str) -> None:
    assert create(raw, topic(name)) == [17]


def test_249_characters_are_accepted(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("long").ljust(249, "x")
    assert create(raw, topic(name)) == [0]
    assert exists(raw, name)


def test_names_that_collide_in_metrics(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("a")
    assert create(raw, topic(name + ".b")) == [0]
    assert create(raw, topic(name + "_b")) == [17]


def test_what_exists(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("topic")
    assert create(raw, topic(name)) == [0]
    assert create(raw, topic(name)) == [36]
    assert create(raw, topic(name), validate_only=True) == [36]


def test_the_same_name_twice(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("topic")
    assert create(raw, topic(name), topic(name, 2)) == [42, 42]
    assert not exists(raw, name)


@pytest.mark.parametrize(
    ("partitions", "factor", "code"), [(0, 1, 37), (-2, 1, 37), (1, 0, 38), (1, -2, 38), (1, 2, 38)]
)
def test_impossible_counts(raw: RawConnection, new_name: NewName, partitions: int, factor: int, code: int) -> None:
    name = new_name("topic")
    assert create(raw, topic(name, partitions, factor)) == [code]
    assert not exists(raw, name)


def test_counts_of_minus_one_are_the_defaults(raw: RawConnection, new_name: NewName) -> None:
    assert create(raw, topic(new_name("topic"), -1, -1)) == [0]


def test_a_good_topic_beside_a_bad_one_is_created(raw: RawConnection, new_name: NewName) -> None:
    good = new_name("topic")
    assert create(raw, topic(good), topic("a/b")) == [0, 17]
    assert exists(raw, good)


@pytest.mark.parametrize("replicas", [[(1, 1)], [(99,)], [(-1,)], [()], [(1,), (99,)]])
def test_impossible_assignments(raw: RawConnection, new_name: NewName, replicas: list[tuple[int, ...]]) -> None:
    name = new_name("topic")
    assert create(raw, assigned(name, *replicas)) == [39]
    assert not exists(raw, name)


def test_a_gap_in_assigned_partitions(raw: RawConnection, new_name: NewName) -> None:
    assert create(raw, assigned(new_name("topic"), (1,), (1,), indexes=(0, 2))) == [39]


def test_an_assignment_with_counts(raw: RawConnection, new_name: NewName) -> None:
    rows = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)
    bad = CreatableTopic(name=new_name("topic"), num_partitions=1, replication_factor=1, assignments=rows)
    assert create(raw, bad) == [42]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("no.such.setting", "1"),
        ("retention.ms", "-2"),
        ("retention.ms", "soon"),
        ("segment.bytes", "0"),
        ("retention.ms", None),
    ],
)
def test_impossible_configs(raw: RawConnection, new_name: NewName, name: str, value: str | None) -> None:
    configs = (CreatableTopicConfig(name=name, value=value),)
    bad = CreatableTopic(name=new_name("topic"), num_partitions=1, replication_factor=1, configs=configs)
    assert create(raw, bad) == [40]
    assert not exists(raw, bad.name)


@pytest.mark.parametrize("partitions", [10_001, 2**31 - 1])
def test_too_many_partitions_in_one_request(raw: RawConnection, new_name: NewName, partitions: int) -> None:
    assert create(raw, topic(new_name("topic"), partitions)) == [44]


def test_the_metadata_log_is_no_topic_to_create(raw: RawConnection) -> None:
    assert create(raw, topic("__cluster_metadata")) == [42]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_to_create_or_delete(raw: RawConnection, new_name: NewName, timeout_ms: int) -> None:
    name = new_name("topic")
    assert create(raw, topic(name), timeout_ms=timeout_ms) == [7]
    assert not exists(raw, name)
    assert create(raw, topic(name)) == [0]
    assert delete(raw, DeleteTopicState(name=name), timeout_ms=timeout_ms) == [7]
    assert exists(raw, name)


def test_deletes_that_name_nothing(raw: RawConnection, new_name: NewName) -> None:
    assert delete(raw, DeleteTopicState(name=new_name("absent"))) == [3]
    assert delete(raw, DeleteTopicState(name="a/b")) == [3]
    assert delete(raw, DeleteTopicState(name=None, topic_id=b"absent topic id.")) == [100]
    assert delete(raw, DeleteTopicState(name=None)) == [42]


def test_deletes_that_name_a_topic_twice(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("topic")
    assert create(raw, topic(name)) == [0]
    assert set(delete(raw, DeleteTopicState(name=name), DeleteTopicState(name=name))) == {42}
    assert exists(raw, name)
    assert delete(raw, DeleteTopicState(name=name)) == [0]
    assert not exists(raw, name)


def test_metadata_creates_a_topic_and_says_so_the_second_time(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("topic")
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=True)
    assert raw.ask(request, 9).topics[0].error_code == 3
    for _ in range(200):
        if raw.ask(request, 9).topics[0].error_code == 0:
            return
    raise AssertionError("the topic did not come into being")


def test_metadata_does_not_create_where_it_may_not(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("topic")
    assert not exists(raw, name)
    assert not exists(raw, name)


def test_an_auto_created_name_that_collides_never_comes(raw: RawConnection, new_name: NewName) -> None:
    name = new_name("a")
    assert create(raw, topic(name + ".b")) == [0]
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name + "_b"),), allow_auto_topic_creation=True)
    assert {raw.ask(request, 9).topics[0].error_code for _ in range(20)} == {3}


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_metadata_without_a_name_and_an_id(raw: RawConnection, is_moldau: bool, version: int) -> None:
    if is_moldau:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=None),))
        assert [row.error_code for row in raw.ask(request, version).topics] == [42]
    raw.assert_alive()
