"""Topics: their names, their partitions, creation, growth, deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from moldau.client.admin.client import ClusterAdmin
from moldau.client.admin.error_texts import error_of
from moldau.errors import KafkaError
from moldau.types import Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from moldau.wire.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

BY_DEFAULT = -1
_DELETE_BY_STATE_VERSION = 6

ReplicaAssignment = Sequence[Sequence[int]]
"""The brokers of the replicas of each partition, from partition 0, with the preferred leader first."""


class PartitionDescription(msgspec.Struct, frozen=True):
    """A partition. `elr` and `last_known_elr` are None if they were not requested from the broker (KIP-966)."""

    index: int
    leader_id: int
    """-1 without a leader."""
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline: tuple[int, ...] = ()
    """Replicas that cannot lead, because the broker does not serve or its log directory is offline."""

    @property
    def is_whole(self) -> bool:
        """Whether the partition has a leader, and every replica is in sync."""
        return self.leader_id >= 0 and set(self.isr) == set(self.replicas)


class TopicDescription(msgspec.Struct, frozen=True):
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    """In the order of their indexes."""

    @property
    def replication_factor(self) -> int:
        """The number of replicas of partition 0; 0 without partitions. While replicas move, other partitions may have
        more."""
        return len(self.partitions[0].replicas) if self.partitions else 0


def list_topics(admin: ClusterAdmin) -> dict[str, TopicDescription]:
    """All topics by name, sorted."""
    response = admin.ask(MetadataRequest(topics=None))
    rows = sorted(response.topics, key=lambda row: row.name or "")
    return {row.name or "": _described(row) for row in rows if not row.error_code or row.partitions}


def _described(row: MetadataResponseTopic) -> TopicDescription:
    partitions = [
        PartitionDescription(
            part.partition_index, part.leader_id, part.replica_nodes, part.isr_nodes, offline=part.offline_replicas
        )
        for part in sorted(row.partitions, key=lambda part: part.partition_index)
    ]
    return TopicDescription(row.name or "", row.topic_id, row.is_internal, tuple(partitions))


def describe_topics(
    admin: ClusterAdmin, names: Sequence[str], *, page_size: int = 2_000
) -> dict[str, TopicDescription]:
    """Describes the named topics by DescribeTopicPartitions, or by Metadata if the broker does not serve that.

    Raises UNKNOWN_TOPIC_OR_PARTITION for a missing topic.
    """
    if not names:
        return {}
    try:
        return _describe_in_pages(admin, names, page_size)
    except KafkaError as error:
        if error.name != "UNSUPPORTED_VERSION":
            raise
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
    )
    response = admin.ask(request)
    for row in response.topics:
        if row.error_code and not row.partitions:
            raise error_of(row.error_code)
    return {row.name or "": _described(row) for row in sorted(response.topics, key=lambda row: row.name or "")}


def _describe_in_pages(admin: ClusterAdmin, names: Sequence[str], page_size: int) -> dict[str, TopicDescription]:
    from moldau.wire.protocol.messages.partitions import (
        DescribeTopicPartitionsCursor,
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsTopicRequest,
    )

    topics = tuple(DescribeTopicPartitionsTopicRequest(name=name) for name in sorted(names))
    found: dict[str, TopicDescription] = {}
    cursor: DescribeTopicPartitionsCursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=page_size, cursor=cursor)
        response = admin.ask(request)
        for row in response.topics:
            if row.error_code:
                raise error_of(row.error_code)
            name = row.name or ""
            partitions = [
                PartitionDescription(
                    part.partition_index,
                    part.leader_id,
                    part.replica_nodes,
                    part.isr_nodes,
                    part.eligible_leader_replicas or (),
                    part.last_known_elr or (),
                    part.offline_replicas,
                )
                for part in row.partitions
            ]
            known = found[name].partitions if name in found else ()
            found[name] = TopicDescription(name, row.topic_id, row.is_internal, (*known, *partitions))
        # an empty page would repeat for ever
        if response.next_cursor is None or not response.topics:
            return found
        cursor = response.next_cursor


def create_topic(
    admin: ClusterAdmin,
    name: str,
    *,
    partitions: int = BY_DEFAULT,
    replication_factor: int = BY_DEFAULT,
    assignment: ReplicaAssignment = (),
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Raises the controller's error, such as TOPIC_ALREADY_EXISTS or INVALID_CONFIG."""
    topic = CreatableTopic(
        name=name,
        num_partitions=BY_DEFAULT if assignment else partitions,
        replication_factor=BY_DEFAULT if assignment else replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
            for index, brokers in enumerate(assignment)
        ),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()),
    )
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=admin.request_timeout_ms, validate_only=validate_only)
    for row in admin.ask(request).topics:
        if row.error_code:
            raise error_of(row.error_code, row.error_message)


def create_partitions(
    admin: ClusterAdmin, name: str, count: int, assignment: ReplicaAssignment = (), *, validate_only: bool = False
) -> None:
    """Grows a topic to a total of `count` partitions. `assignment` is for the new ones."""
    from moldau.wire.protocol.messages.partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    assignments = tuple(CreatePartitionsAssignment(broker_ids=tuple(brokers)) for brokers in assignment) or None
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=name, count=count, assignments=assignments),),
        timeout_ms=admin.request_timeout_ms,
        validate_only=validate_only,
    )
    for row in admin.ask(request).results:
        if row.error_code:
            raise error_of(row.error_code, row.error_message)


def delete_topic(admin: ClusterAdmin, name: str) -> None:
    """Raises UNKNOWN_TOPIC_OR_PARTITION for a missing topic."""
    connection = admin.client.any_connection()
    if connection.version_of(ApiKey.DELETE_TOPICS) >= _DELETE_BY_STATE_VERSION:
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=admin.request_timeout_ms)
    else:
        request = DeleteTopicsRequest(topic_names=(name,), timeout_ms=admin.request_timeout_ms)
    for row in connection.request(request).responses:
        if row.error_code:
            raise error_of(row.error_code, row.error_message)
