"""A client's knowledge of a cluster, response by response."""

from __future__ import annotations

import pytest

from moldau.client.protocol.metadata import ClusterMetadata, PartitionLeader
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BOOTSTRAP = [("a", 1), ("b", 2)]
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, AUTHORIZATION_FAILED = 3, 5, 29


def topic(name: str, error_code: int = 0, leaders: tuple[int, ...] = ()) -> MetadataResponseTopic:
    rows = tuple(
        MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=7)
        for index, leader in reversed(list(enumerate(leaders)))
    )
    return MetadataResponseTopic(error_code=error_code, name=name, partitions=rows)


def take(metadata: ClusterMetadata, *topics: MetadataResponseTopic) -> list[str]:
    return list(metadata.take_topics(MetadataResponse(topics=topics)))


def test_before_any_contact_all_bootstrap_servers_share_its_time():
    metadata = ClusterMetadata(BOOTSTRAP)
    assert not metadata.has_contact
    assert metadata.connect_timeout_ms(10_000, 3_000) == 1_500
    assert metadata.connect_timeout_ms(10_000, 1) == 1
    metadata.note_contact(("a", 1))
    assert metadata.connect_timeout_ms(10_000, 3_000) == 10_000
    assert metadata.has_reached(("a", 1))
    assert not metadata.has_reached(("b", 2))


def test_brokers_are_asked_after_the_bootstrap_servers_and_a_changed_address_is_said():
    metadata = ClusterMetadata(BOOTSTRAP)
    with pytest.raises(KafkaError, match="broker 4 is not known"):
        metadata.address_of(4)
    assert [metadata.note_address(4, ("c", 3)) for _ in range(2)] == [False, False]
    assert metadata.note_address(4, ("d", 4))
    assert metadata.address_of(4) == ("d", 4)
    assert metadata.candidates() == [*BOOTSTRAP, ("d", 4)]


def test_topics_are_remembered_until_an_answer_says_that_they_are_gone():
    metadata = ClusterMetadata(BOOTSTRAP)
    assert take(metadata, topic("t", leaders=(1, 2)), topic("absent", UNKNOWN_TOPIC)) == ["t"]
    known = metadata.topic("t")
    assert known is not None
    assert known.partitions == {0: PartitionLeader(1, 7), 1: PartitionLeader(2, 7)}
    assert list(known.partitions) == [0, 1]
    assert take(metadata, topic("t", UNKNOWN_TOPIC)) == []
    assert metadata.topic("t") is None


def test_another_error_of_a_topic_is_raised_unless_partitions_came():
    metadata = ClusterMetadata(BOOTSTRAP)
    with pytest.raises(KafkaError, match="topic 't'"):
        take(metadata, topic("t", AUTHORIZATION_FAILED))
    assert take(metadata, topic("t", LEADER_NOT_AVAILABLE, leaders=(-1,))) == ["t"]


def test_a_partition_without_a_leader_makes_its_topic_unknown():
    metadata = ClusterMetadata(BOOTSTRAP)
    for partition, name in ((1, "LEADER_NOT_AVAILABLE"), (2, "UNKNOWN_TOPIC_OR_PARTITION")):
        take(metadata, topic("t", leaders=(5, -1)))
        known = metadata.topic("t")
        assert known is not None
        assert metadata.leader_of(known, TopicPartition("t", 0)).leader_id == 5
        with pytest.raises(KafkaError) as raised:
            metadata.leader_of(known, TopicPartition("t", partition))
        assert raised.value.name == name
        assert raised.value.is_retriable
        assert metadata.topic("t") is None
