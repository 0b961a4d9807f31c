"""Sections "Topics" (CreatePartitions) and "Configs and admin" of the table of bad input: the rows on partitions,
elections, reassignments, quotas, features and membership."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moldau.wire.protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterQuotaEntity,
    AlterQuotaEntry,
    AlterQuotaOperation,
    DescribeClientQuotasRequest,
    QuotaFilterComponent,
)
from moldau.wire.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
    FeatureUpdateKey,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from moldau.wire.protocol.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DescribeTopicPartitionsCursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsTopicRequest,
    ElectionTopicPartitions,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.wire import RawConnection, row_of

NewTopic = Callable[..., str]
NewName = Callable[[str], str]


def partitions_of(raw: RawConnection, name: str) -> int:
    answer = raw.ask(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 9)
    return len(answer.topics[0].partitions)


def grow(raw: RawConnection, *topics: CreatePartitionsTopic, timeout_ms: int = 10_000) -> list[tuple[int, str | None]]:
    answer = raw.ask(CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms), 3)
    return [(row.error_code, row.error_message) for row in answer.results]


def to(name: str, count: int, *assignments: tuple[int, ...] | None) -> CreatePartitionsTopic:
    rows = tuple(CreatePartitionsAssignment(row) for row in assignments if row is not None)
    return CreatePartitionsTopic(name, count, rows if assignments else None)


@pytest.mark.parametrize("count", [2, 1, 0, -1])
def test_partitions_do_not_become_fewer(raw: RawConnection, new_topic: NewTopic, count: int) -> None:
    name = new_topic(partitions=2)
    message = f"The topic {name} currently has 2 partition(s); {count} would not be an increase."
    if count == 2:
        message = "Topic already has 2 partition(s)."
    assert grow(raw, to(name, count)) == [(37, message)]
    assert partitions_of(raw, name) == 2


def test_partitions_of_what_does_not_exist(raw: RawConnection) -> None:
    assert [code for code, _ in grow(raw, to("absent", 2), to("a/b", 2))] == [3, 3]


def test_a_topic_that_stands_twice_grows_not_at_all(raw: RawConnection, new_topic: NewTopic) -> None:
    name, other = new_topic(), new_topic()
    assert sorted(code for code, _ in grow(raw, to(name, 2), to(other, 2), to(name, 3))) == [0, 42]
    assert partitions_of(raw, name) == 1


@pytest.mark.parametrize(
    ("count", "assignments", "message"),
    [
        (3, [(1,)], "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (2, [(1, 1)], "The manual partition assignment includes the broker 1 more than once."),
        (2, [(99,)], "The manual partition assignment includes broker 99, but no such broker is registered."),
        (2, [(-1,)], "The manual partition assignment includes broker -1, but no such broker is registered."),
        (2, [()], "The manual partition assignment includes an empty replica list."),
    ],
)
def test_impossible_assignments_of_new_partitions(
    raw: RawConnection, new_topic: NewTopic, count: int, assignments: list[tuple[int, ...]], message: str
) -> None:
    name = new_topic()
    assert grow(raw, to(name, count, *assignments)) == [(39, message)]
    assert partitions_of(raw, name) == 1


@pytest.mark.parametrize("count", [10_002, 2**31 - 1])
def test_too_many_new_partitions_are_refused_before_any_is_added(
    raw: RawConnection, new_topic: NewTopic, is_moldau: bool, count: int
) -> None:
    if not is_moldau:
        return  # Apache Kafka answers -1 and has added 10,000
    name = new_topic()
    assert grow(raw, to(name, count)) == [(44, "Excessively large number of partitions per request.")]
    assert partitions_of(raw, name) == 1


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_no_time_for_new_partitions(raw: RawConnection, new_topic: NewTopic, timeout_ms: int) -> None:
    name = new_topic()
    assert grow(raw, to(name, 2), timeout_ms=timeout_ms) == [(7, None)]
    assert partitions_of(raw, name) == 1


def test_a_look_at_new_partitions_adds_none(raw: RawConnection, new_topic: NewTopic) -> None:
    name = new_topic()
    request = CreatePartitionsRequest(topics=(to(name, 5),), timeout_ms=10_000, validate_only=True)
    assert raw.ask(request, 3).results[0].error_code == 0
    assert partitions_of(raw, name) == 1
    assert grow(raw, to(name, 3, (1,), (1,))) == [(0, None)]


def page(raw: RawConnection, names: list[str], limit: int, cursor: tuple[str, int] | None = None):
    return raw.ask(
        DescribeTopicPartitionsRequest(
            tuple(DescribeTopicPartitionsTopicRequest(name) for name in names),
            limit,
            None if cursor is None else DescribeTopicPartitionsCursor(*cursor),
        ),
        0,
    )


def test_pages_of_partitions(raw: RawConnection, new_topic: NewTopic) -> None:
    names = sorted([new_topic(partitions=3), new_topic(partitions=2)])
    counts = [partitions_of(raw, name) for name in names]
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    while True:
        answer = page(raw, names, 2, cursor)
        seen += [(topic.name, row.partition_index) for topic in answer.topics for row in topic.partitions]
        assert all(row.eligible_leader_replicas == () for topic in answer.topics for row in topic.partitions)
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert seen == [(name, index) for name, count in zip(names, counts, strict=True) for index in range(count)]


@pytest.mark.parametrize("cursor", [("a name that was not asked for", 0), ("", 0), (None, -1)])
def test_a_cursor_that_is_nowhere(raw: RawConnection, new_topic: NewTopic, cursor: tuple[str | None, int]) -> None:
    name = new_topic()
    answer = page(raw, [name], 10, (name if cursor[0] is None else cursor[0], cursor[1]))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(name, 42)]


@pytest.mark.parametrize(("name", "code"), [("absent", 3), ("a/b", 17), ("x" * 250, 17)])
def test_topics_that_are_not_there_to_describe(raw: RawConnection, is_moldau: bool, name: str, code: int) -> None:
    answer = page(raw, [name], 10)
    assert answer.topics[0].error_code in ((code,) if is_moldau else (code, -1))


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_a_page_has_at_least_one_partition(raw: RawConnection, new_topic: NewTopic, limit: int) -> None:
    assert len(page(raw, [new_topic(partitions=2)], limit).topics[0].partitions) == 1


@pytest.mark.parametrize(("endpoint_type", "code"), [(1, 0), (2, 114), (0, 115), (3, 115), (-1, 115)])
def test_endpoint_types(raw: RawConnection, endpoint_type: int, code: int) -> None:
    answer = raw.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 2)
    assert answer.error_code == code
    assert bool(answer.brokers) is (code == 0)


def elect(raw: RawConnection, election_type: int, *topics: ElectionTopicPartitions, timeout_ms: int = 10_000):
    request = ElectLeadersRequest(election_type, topics, timeout_ms)
    answer = raw.ask(request, 2)
    rows = [row for topic in answer.replica_election_results for row in topic.partition_result]
    return answer.error_code, [row.error_code for row in rows]


def test_elections_that_are_not_needed_or_not_possible(raw: RawConnection, new_topic: NewTopic) -> None:
    here = ElectionTopicPartitions(new_topic(), (0,))
    assert elect(raw, 0, here) == (0, [84])
    assert elect(raw, 1, here) == (0, [84])
    assert elect(raw, 2, here) == (42, [42])
    assert elect(raw, -1, here) == (42, [42])
    assert elect(raw, 0, here, timeout_ms=0) == (7, [7])
    unknown = (ElectionTopicPartitions("absent", (0,)), ElectionTopicPartitions(here.topic, (77, -1)))
    assert elect(raw, 0, *unknown) == (0, [3, 3, 3])
    late = raw.ask(ElectLeadersRequest(0, (here,), 0), 0)
    assert [row.error_code for topic in late.replica_election_results for row in topic.partition_result] == [7]
    answer = raw.ask(ElectLeadersRequest(0, None, 10_000), 2)
    assert not any(row.partition_result for row in answer.replica_election_results)


@pytest.mark.parametrize(
    ("index", "replicas", "code"),
    [(0, (1,), 0), (0, (99,), 39), (0, (), 39), (0, (1, 1), 39), (0, None, 85), (77, (1,), 3), (77, None, 3)],
)
def test_reassignments(
    raw: RawConnection, new_topic: NewTopic, index: int, replicas: tuple[int, ...] | None, code: int
) -> None:
    name = new_topic()
    moved = ReassignableTopic(name, (ReassignablePartition(index, replicas),))
    absent = ReassignableTopic("absent", (ReassignablePartition(0, (1,)),))
    answer = raw.ask(AlterPartitionReassignmentsRequest(10_000, True, (moved, absent)), 1)
    assert [row.error_code for topic in answer.responses for row in topic.partitions] == [code, 3]
    late = raw.ask(AlterPartitionReassignmentsRequest(0, True, (moved,)), 1)
    assert (late.error_code, late.responses[0].partitions[0].error_code) == (7, 7)
    assert raw.ask(ListPartitionReassignmentsRequest(), 0).topics == ()


@pytest.mark.parametrize(
    "asked", [[("absent", (0,))], [("__cluster_metadata", (1,))], [("__cluster_metadata", (0, 1))]]
)
def test_quorums_that_are_not_there(raw: RawConnection, asked: list[tuple[str, tuple[int, ...]]]) -> None:
    topics = tuple(DescribeQuorumTopic(name, tuple(map(DescribeQuorumPartition, rows))) for name, rows in asked)
    answer = raw.ask(DescribeQuorumRequest(topics), 2)
    assert answer.error_code == 0
    assert {row.error_code for topic in answer.topics for row in topic.partitions} == {3}


@pytest.mark.parametrize(
    ("feature", "level", "upgrade_type", "sentence"),
    [
        ("no.such.feature", 1, 1, "Local controller 1 does not support this feature."),
        ("no.such.feature", 0, 2, "Feature no.such.feature not found."),
        ("metadata.version", 99, 1, "Local controller 1 only supports versions 7-33"),
        ("group.version", 0, 1, "Can't downgrade the version of this feature without setting the upgrade type"),
        ("group.version", 0, 0, "The controller does not support the given upgrade type."),
        ("group.version", -1, 2, "A feature version cannot be less than 0."),
        ("metadata.version", 25, 2, "Refusing to perform the requested downgrade because it might delete metadata"),
        ("metadata.version", 25, 3, "Unsafe metadata downgrade is not supported in this version."),
        ("kraft.version", 0, 2, "Can't downgrade the version of this feature."),
    ],
)
def test_features_that_cannot_be(
    raw: RawConnection, feature: str, level: int, upgrade_type: int, sentence: str
) -> None:
    good = FeatureUpdateKey("streams.version", 1, upgrade_type=1)
    request = UpdateFeaturesRequest(10_000, (good, FeatureUpdateKey(feature, level, upgrade_type=upgrade_type)))
    answer = raw.ask(request, 2)
    assert answer.error_code == 95
    assert sentence in (answer.error_message or "")


def test_a_broker_that_is_not_registered(raw: RawConnection) -> None:
    answer = raw.ask(UnregisterBrokerRequest(99), 0)
    assert (answer.error_code, answer.error_message) == (102, "Broker ID 99 is not currently registered")


def test_the_broker_that_serves_is_not_forgotten(raw: RawConnection, is_moldau: bool) -> None:
    if is_moldau:  # Apache Kafka forgets its only broker, and the cluster serves nobody any more
        assert raw.ask(UnregisterBrokerRequest(1), 0).error_code == 42
    raw.assert_alive()


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "request_message",
    [
        CreateDelegationTokenRequest(renewers=(CreatableRenewers("Group", "g"),), max_lifetime_ms=-(2**63)),
        RenewDelegationTokenRequest(b"x" * 100_000, 2**63 - 1),
        ExpireDelegationTokenRequest(b"", -1),
        DescribeDelegationTokenRequest((DescribeDelegationTokenOwner("", ""),) * 1_000),
    ],
    ids=["create", "renew", "expire", "describe"],
)
def test_no_delegation_token_is_given_to_a_stranger(raw: RawConnection, request_message: Any, version: int) -> None:
    if version <= row_of(request_message)[1].max_version:
        assert raw.ask(request_message, version).error_code == 64
    raw.assert_alive()


Entity = list[tuple[str, str | None]]


def alter(raw: RawConnection, entity: Entity, *operations: tuple[str, float]) -> int:
    entry = AlterQuotaEntry(
        tuple(AlterQuotaEntity(*part) for part in entity), tuple(AlterQuotaOperation(*row) for row in operations)
    )
    return raw.ask(AlterClientQuotasRequest((entry,)), 1).entries[0].error_code


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ([], "producer_byte_rate", 1.0),
        ([("group", "x")], "producer_byte_rate", 1.0),
        ([("user", "")], "producer_byte_rate", 1.0),
        ([("user", "a"), ("ip", "127.0.0.1")], "producer_byte_rate", 1.0),
        ([("ip", "not an address")], "connection_creation_rate", 1.0),
        ([("ip", "127.0.0.1")], "producer_byte_rate", 1.0),
        ([("user", "a")], "connection_creation_rate", 1.0),
        ([("user", "a")], "no.such.key", 1.0),
        ([("user", "a")], "producer_byte_rate", 0.0),
        ([("user", "a")], "producer_byte_rate", -1.0),
        ([("user", "a")], "producer_byte_rate", 1.5),
        ([("user", "a")], "producer_byte_rate", 1e300),
        ([("user", "a")], "request_percentage", 0.0),
    ],
)
def test_impossible_quotas(raw: RawConnection, entity: Entity, key: str, value: float) -> None:
    assert alter(raw, entity, (key, value)) == 42


@pytest.mark.parametrize("key", ["producer_byte_rate", "request_percentage", "controller_mutation_rate"])
def test_no_number_is_no_quota(raw: RawConnection, is_moldau: bool, key: str) -> None:
    if is_moldau:  # Apache Kafka takes it
        assert alter(raw, [("user", "nobody")], (key, float("nan"))) == 42


def test_a_quota_that_stands_twice(raw: RawConnection) -> None:
    assert alter(raw, [("user", "nobody")], ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)) == 42


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("group", 2, None)], 35),
        ([("", 2, None)], 42),
        ([("user", 3, None)], 42),
        ([("user", 0, None)], 42),
        ([("user", 1, "x")], 42),
        ([("user", 2, None), ("user", 0, "x")], 42),
        ([("ip", 2, None), ("user", 2, None)], 42),
        ([("user", 0, "nobody at all")], 0),
    ],
)
def test_filters_of_quotas(raw: RawConnection, components: list[tuple[str, int, str | None]], code: int) -> None:
    answer = raw.ask(DescribeClientQuotasRequest(tuple(QuotaFilterComponent(*row) for row in components)), 1)
    assert answer.error_code == code
    assert (answer.entries is None) is (code != 0)
