"""Requests about topics for a RawConnection."""

from __future__ import annotations

from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.support.wire import RawConnection


def create(
    raw: RawConnection, *topics: CreatableTopic, timeout_ms: int = 10_000, validate_only: bool = False
) -> list[int]:
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
    by_name = {topic.name: topic.error_code for topic in raw.ask(request, 7).topics}
    return [by_name[topic.name] for topic in topics]


def topic(name: str, partitions: int = 1, factor: int = 1, **config: str | None) -> CreatableTopic:
    configs = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in config.items())
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=configs)


def assigned(name: str, *replicas: tuple[int, ...], indexes: tuple[int, ...] | None = None) -> CreatableTopic:
    rows = tuple(
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in zip(indexes or range(len(replicas)), replicas, strict=True)
    )
    return CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows)


def exists(raw: RawConnection, name: str) -> bool:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
    return raw.ask(request, 9).topics[0].error_code == 0


def delete(raw: RawConnection, *topics: DeleteTopicState, timeout_ms: int = 10_000) -> list[int]:
    answer = raw.ask(DeleteTopicsRequest(topics=topics, timeout_ms=timeout_ms), 6)
    return [response.error_code for response in answer.responses]
