"""Creating and deleting topics: the responses of Apache Kafka 4.3.1 on a raw socket."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.core.controller.topics import create_topics, delete_topics
from moldau.core.metadata.features import FORMATTED_LEVELS
from moldau.core.metadata.fold import MetadataFold, MetadataRecord
from moldau.shell.io.simulated.random import SeededRandom
from moldau.types import ZERO_UUID, Uuid, whole
from moldau.wire.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from moldau.wire.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)

SETTINGS = parse_broker_settings({})
DIRECTORY = Uuid(b"\xdd" * 16)
UNKNOWN_ID = Uuid(b"\x09" * 16)


class Cluster:
    """One unfenced broker, and the records of requests, applied."""

    def __init__(self, settings: BrokerSettings = SETTINGS) -> None:
        self.settings = settings
        self.random = SeededRandom(3)
        self.fold = MetadataFold("cluster")
        self.apply(
            *(FeatureLevelRecord(name, level) for name, level in FORMATTED_LEVELS),
            ConfigRecord(4, "", "min.insync.replicas", "1"),
            RegisterBrokerRecord(broker_id=1, broker_epoch=5, log_dirs=(DIRECTORY,)),
            BrokerRegistrationChangeRecord(1, 5, fenced=-1),
        )

    def apply(self, *records: MetadataRecord) -> None:
        for record in records:
            self.fold.apply(record)

    def create(
        self, *topics: CreatableTopic, timeout_ms: int = 1000, validate_only: bool = False
    ) -> tuple[CreatableTopicResult, ...]:
        request = CreateTopicsRequest(topics, timeout_ms, validate_only)
        self.records, response = whole(create_topics(self.fold, self.settings, self.random, request))
        self.apply(*self.records)
        return response.topics

    def delete(
        self, *states: DeleteTopicState, timeout_ms: int = 1000, names: tuple[str, ...] = ()
    ) -> tuple[DeletableTopicResult, ...]:
        request = DeleteTopicsRequest(states, names, timeout_ms)
        self.records, response = whole(delete_topics(self.fold.image, self.settings, request))
        self.apply(*self.records)
        return response.responses


def topic(
    name: str = "t",
    partitions: int = 1,
    factor: int = 1,
    assignments: Sequence[tuple[int, Sequence[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        factor,
        tuple(CreatableReplicaAssignment(index, tuple(brokers)) for index, brokers in assignments),
        tuple(CreatableTopicConfig(key, value) for key, value in configs),
    )


def assigned(*assignments: tuple[int, Sequence[int]]) -> CreatableTopic:
    return topic("t", -1, -1, assignments)


def outcome(results: Sequence[CreatableTopicResult | DeletableTopicResult]) -> list[tuple[str | None, int, str | None]]:
    return [(result.name, result.error_code, result.error_message) for result in results]


def test_a_topic_is_created_as_kafkas_records() -> None:
    cluster = Cluster()
    [result] = cluster.create(topic("orders", 2, 1, configs=[("retention.ms", "77")]))
    assert (result.error_code, result.error_message, result.num_partitions, result.replication_factor) == (
        0,
        None,
        2,
        1,
    )
    partition = PartitionRecord(
        partition_id=0,
        topic_id=result.topic_id,
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(DIRECTORY,),
    )
    assert cluster.records[:3] == [
        TopicRecord("orders", result.topic_id),
        ConfigRecord(2, "orders", "retention.ms", "77"),
        partition,
    ]
    assert len(cluster.records) == 4
    described = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert len(described) == 37
    assert described["retention.ms"] == ("77", 1)
    assert described["min.insync.replicas"] == ("1", 3)
    assert described["segment.bytes"] == ("1073741824", 5)


def test_counts_of_minus_one_are_the_defaults() -> None:
    cluster = Cluster(parse_broker_settings({"num.partitions": "3"}))
    [result] = cluster.create(topic("t", -1, -1))
    assert (result.num_partitions, result.replication_factor) == (3, 1)


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (topic(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (topic("."), 17, "Topic name is invalid: '.' is not allowed"),
        (topic(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (
            topic("sp ace"),
            17,
            "Topic name is invalid: 'sp ace' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'",
        ),
        (topic("taken"), 36, "Topic 'taken' already exists."),
        (topic("a_b"), 17, "Topic 'a_b' collides with existing topic: a.b"),
        (topic("t", 0), 37, "Number of partitions was set to an invalid non-positive value."),
        (topic("t", -2), 37, "Number of partitions was set to an invalid non-positive value."),
        (topic("t", 1, 0), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (topic("t", 1, -2), 38, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            topic("t", 1, 2),
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            topic("t", 1, -1, [(0, [1])]),
            42,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            topic("t", -1, 1, [(0, [1])]),
            42,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (assigned((0, [1, 1])), 39, "The manual partition assignment includes the broker 1 more than once."),
        (
            assigned((0, [2])),
            39,
            "The manual partition assignment includes broker 2, but no such broker is registered.",
        ),
        (
            assigned((0, [-1])),
            39,
            "The manual partition assignment includes broker -1, but no such broker is registered.",
        ),
        (assigned((1, [1])), 39, "partitions should be a consecutive 0-based integer sequence"),
        (assigned((0, [1]), (2, [1])), 39, "partitions should be a consecutive 0-based integer sequence"),
        (assigned((-1, [1])), 39, "partitions should be a consecutive 0-based integer sequence"),
        (assigned((0, [])), 39, "The manual partition assignment includes an empty replica list."),
        (assigned((0, [1]), (0, [1])), 39, "Found multiple manual partition assignments for partition 0"),
        (topic(configs=[("foo", "1")]), 40, "Unknown topic config name: foo"),
        (
            topic(configs=[("retention.ms", "-2")]),
            40,
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (topic(configs=[("retention.ms", None)]), 40, "Null value not supported for topic configs: retention.ms"),
        (topic("t", 1, 5, configs=[("foo", "3")]), 40, "Unknown topic config name: foo"),
        (topic("__cluster_metadata"), 42, "Creation of internal topic __cluster_metadata is prohibited."),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_topic_is_refused_in_kafkas_words_and_leaves_nothing(asked: CreatableTopic, code: int, message: str) -> None:
    cluster = Cluster()
    cluster.create(topic("taken"), topic("a.b"))
    before = list(cluster.fold.image.topics_by_name)
    results = cluster.create(asked, topic("beside"))
    assert outcome(results) == [(asked.name, code, message), ("beside", 0, None)]
    assert results[0].topic_id == ZERO_UUID
    assert (results[0].num_partitions, results[0].replication_factor, results[0].configs) == (-1, -1, ())
    assert list(cluster.fold.image.topics_by_name) == [*before, "beside"]


def test_a_name_of_249_characters_is_taken_and_one_of_250_is_not() -> None:
    results = Cluster().create(topic("x" * 249), topic("y" * 250))
    assert [result.error_code for result in results] == [0, 17]


def test_two_topics_that_collide_in_one_request_are_both_created_as_in_kafka() -> None:
    assert [result.error_code for result in Cluster().create(topic("c.d"), topic("c_d"))] == [0, 0]


def test_a_name_that_comes_twice_is_refused_once_and_the_others_are_created() -> None:
    cluster = Cluster()
    assert outcome(cluster.create(topic("d"), topic("n"), topic("d", 5))) == [
        ("n", 0, None),
        ("d", 42, "Duplicate topic name."),
    ]
    assert list(cluster.fold.image.topics_by_name) == ["n"]


def test_validating_answers_as_creating_would_and_writes_nothing() -> None:
    cluster = Cluster()
    cluster.create(topic("taken"))
    results = cluster.create(topic("new", -1, -1), topic("taken"), validate_only=True)
    assert outcome(results) == [("new", 0, None), ("taken", 36, "Topic 'taken' already exists.")]
    assert (results[0].num_partitions, len(results[0].configs or ())) == (1, 37)
    assert cluster.records == []


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_deadline_that_has_passed_changes_nothing(timeout_ms: int) -> None:
    cluster = Cluster()
    assert outcome(cluster.create(topic("a"), topic("b"), timeout_ms=timeout_ms)) == [("a", 7, None), ("b", 7, None)]
    assert cluster.records == []
    cluster.create(topic("a"))
    assert outcome(cluster.delete(DeleteTopicState("a"), timeout_ms=timeout_ms)) == [("a", 7, None)]
    assert cluster.records == []


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([topic("a", 10_001)], "Excessively large number of partitions per request."),
        ([topic("a", 5_001), topic("b", 5_000), topic("taken")], "Excessively large number of partitions per request."),
        ([topic("a", 2**31 - 1), topic("b", 0)], "Excessively large number of partitions per request."),
        ([topic("a", 10_000)], "Unable to perform excessively large batch operation."),
    ],
)
def test_more_than_ten_thousand_partitions_or_records_refuse_the_request(
    asked: list[CreatableTopic], message: str
) -> None:
    cluster = Cluster()
    cluster.create(topic("taken"))
    assert outcome(cluster.create(*asked)) == [(one.name, 44, message) for one in asked]
    assert cluster.records == []


def test_one_topic_may_have_9999_partitions() -> None:
    [result] = Cluster().create(topic("a", 9_999))
    assert (result.error_code, result.num_partitions) == (0, 9_999)


def test_of_a_setting_given_twice_the_last_counts() -> None:
    cluster = Cluster()
    cluster.create(topic("t", configs=[("retention.ms", "7"), ("retention.ms", "8")]))
    assert cluster.fold.image.topic_configs("t") == {"retention.ms": "8"}


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_an_internal_topic_has_the_shape_that_its_creator_names(name: str) -> None:
    texts = {"offsets.topic.num.partitions": "7", "transaction.state.log.num.partitions": "7", "num.partitions": "2"}
    for count, expected in ((-1, 2), (3, 3)):
        cluster = Cluster(parse_broker_settings(texts))
        [created] = cluster.create(topic(name, count, -1, configs=[("segment.bytes", "2000000")]))
        assert (created.error_code, created.num_partitions, created.replication_factor) == (0, expected, 1)
        assert cluster.fold.image.topic_configs(name)["segment.bytes"] == "2000000"
    [created] = Cluster().create(topic(name, -1, -1, [(0, [1])]))
    assert (created.error_code, created.num_partitions) == (0, 1)


def test_committed_offsets_do_not_expire_as_records_do_unless_a_client_says_so() -> None:
    cluster = Cluster()
    cluster.create(topic("__consumer_offsets", 1))
    assert cluster.fold.image.topic_configs("__consumer_offsets") == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
    }
    cluster.create(topic("__transaction_state", 1, configs=[("cleanup.policy", "delete")]))
    assert cluster.fold.image.topic_configs("__transaction_state")["cleanup.policy"] == "delete"


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (BrokerRegistrationChangeRecord(1, 5, fenced=1), "fenced"),
        (BrokerRegistrationChangeRecord(1, 5, in_controlled_shutdown=1), "fenced or in controlled shutdown"),
    ],
)
def test_without_an_active_broker_nothing_can_be_placed(change: BrokerRegistrationChangeRecord, state: str) -> None:
    cluster = Cluster()
    cluster.apply(change)
    [placed, assigned_one] = cluster.create(topic("a", 3), topic("b", -1, -1, [(0, [1])]))
    assert (placed.error_code, assigned_one.error_code) == (38, 39)
    assert (placed.error_message or "").endswith(f"All brokers are currently {state}.")
    assert "are fenced or in controlled shutdown" in (assigned_one.error_message or "")


def test_topics_are_deleted_by_name_and_by_id() -> None:
    cluster = Cluster()
    [first, second] = cluster.create(topic("a"), topic("b"))
    results = cluster.delete(DeleteTopicState("a"), DeleteTopicState(None, second.topic_id))
    assert results == (DeletableTopicResult("a", first.topic_id), DeletableTopicResult("b", second.topic_id))
    assert cluster.records == [RemoveTopicRecord(first.topic_id), RemoveTopicRecord(second.topic_id)]
    assert cluster.fold.image.topics_by_id == {}


def test_old_versions_delete_by_a_list_of_names() -> None:
    cluster = Cluster()
    cluster.create(topic("a"))
    assert [result.error_code for result in cluster.delete(names=("a", "b"))] == [0, 3]


def test_deletions_are_refused_in_kafkas_words() -> None:
    cluster = Cluster()
    [created] = cluster.create(topic("a"))
    both = DeleteTopicState("a", UNKNOWN_ID)
    results = cluster.delete(
        DeleteTopicState("nope"),
        DeleteTopicState("sp ace"),
        DeleteTopicState(None, UNKNOWN_ID),
        DeleteTopicState(None),
        both,
        DeleteTopicState("__cluster_metadata"),
    )
    assert outcome(results) == [
        ("nope", 3, "This server does not host this topic-partition."),
        ("sp ace", 3, "This server does not host this topic-partition."),
        (None, 100, "This server does not host this topic ID."),
        (None, 42, "Neither topic name nor id were specified."),
        ("a", 42, "You may not specify both topic name and topic id."),
        ("__cluster_metadata", 3, "This server does not host this topic-partition."),
    ]
    assert cluster.fold.image.topic_id("a") == created.topic_id


def test_a_topic_named_twice_is_not_deleted() -> None:
    cluster = Cluster()
    [created, _] = cluster.create(topic("a"), topic("b"))
    unknown = DeleteTopicState(None, UNKNOWN_ID)
    results = cluster.delete(DeleteTopicState("a"), DeleteTopicState("b"), DeleteTopicState("a"), unknown, unknown)
    assert outcome(results) == [
        ("b", 0, None),
        ("a", 42, "Duplicate topic name."),
        (None, 42, "Duplicate topic id."),
    ]
    by_both = cluster.delete(DeleteTopicState(None, created.topic_id), DeleteTopicState("a"))
    assert [(result.name, result.topic_id, result.error_code) for result in by_both] == [("a", created.topic_id, 42)]
    assert cluster.fold.image.topic_id("a") == created.topic_id


def test_deletion_may_be_switched_off() -> None:
    cluster = Cluster(parse_broker_settings({"delete.topic.enable": "false"}))
    cluster.create(topic("a"))
    assert [result.error_code for result in cluster.delete(DeleteTopicState("a"))] == [73]
    assert cluster.records == []


def test_topics_that_ask_for_the_same_are_described_once() -> None:
    """A request may name thousands, and each has 37 settings."""
    own = (("retention.ms", "5"),)
    first, second, third, fourth = Cluster().create(
        topic("a"), topic("b"), topic("c", configs=own), topic("d", configs=own)
    )
    assert first.configs is second.configs
    assert third.configs is fourth.configs
    assert [row.value for row in third.configs or () if row.name == "retention.ms"] == ["5"]
