"""What a client asks about offsets: a partition's ends, the offset of a timestamp, a group's positions.

Functions over a ClusterClient; each retries what is worth retrying, within the client's times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from moldau.errors import KafkaError, kafka_error
from moldau.shell.network.client_cluster import Backoff, ClusterClient
from moldau.shell.network.client_connection import ClientConnection
from moldau.types import TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest, InitProducerIdResponse

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# the last versions before topic ids and before many groups in one request: all brokers from 2.8 on have them
_OFFSET_COMMIT_BY_NAME = 8
_OFFSET_FETCH_ONE_GROUP = 7
_FIND_ONE_COORDINATOR = 3


class FoundOffset(msgspec.Struct, frozen=True):
    """An offset and the timestamp of its record; both -1 where no record is that late."""

    offset: int
    timestamp: int
    leader_epoch: int


class CommittedOffset(msgspec.Struct, frozen=True):
    """A group's position on a partition, as it was committed."""

    offset: int
    leader_epoch: int
    metadata: str


def list_offsets(
    client: ClusterClient, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_COMMITTED
) -> dict[TopicPartition, FoundOffset]:
    """For each partition the first offset at or after its timestamp (ms), or its end (LATEST, EARLIEST_TIMESTAMP).

    The latest offset of READ_COMMITTED is the last stable offset, of READ_UNCOMMITTED the high watermark.
    """
    found: dict[TopicPartition, FoundOffset] = {}
    backoff = Backoff(client)
    while True:
        missing = {partition: timestamps[partition] for partition in timestamps if partition not in found}
        if not missing:
            return {partition: found[partition] for partition in timestamps}
        try:
            _list_offsets_once(client, missing, isolation_level, found)
        except KafkaError as error:
            if not error.is_retriable:
                raise
            for partition in missing:
                client.forget(partition.topic)
            backoff.wait(error)


def _list_offsets_once(
    client: ClusterClient,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int,
    found: dict[TopicPartition, FoundOffset],
) -> None:
    first_error: KafkaError | None = None
    for leader_id, partitions in client.group_by_leader(timestamps).items():
        topics = tuple(
            ListOffsetsTopic(
                name=topic,
                partitions=tuple(
                    ListOffsetsPartition(
                        partition_index=partition.partition,
                        current_leader_epoch=client.leader_of(partition).leader_epoch,
                        timestamp=timestamps[partition],
                    )
                    for partition in rows
                ),
            )
            for topic, rows in by_topic(partitions).items()
        )
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=30_000)
        response = client.connection_to(leader_id).request(ApiKey.LIST_OFFSETS, request, ListOffsetsResponse)
        for topic_row in response.topics:
            for row in topic_row.partitions:
                partition = TopicPartition(topic_row.name, row.partition_index)
                if row.error_code:
                    refusal = kafka_error(row.error_code)
                    first_error = first_error or kafka_error(refusal.code, f"offsets of {partition}: {refusal.name}")
                else:
                    found[partition] = FoundOffset(row.offset, row.timestamp, row.leader_epoch)
    if first_error is not None:
        raise first_error


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions by topic, in the order given."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics


# --- groups, as a simple consumer: without membership ---


def find_coordinator(client: ClusterClient, group_id: str) -> ClientConnection:
    """A connection to the group's coordinator. Raises retriable errors at once: for use inside `client.retry`."""
    request = FindCoordinatorRequest(key=group_id, key_type=0)
    response = client.any_connection().request(
        ApiKey.FIND_COORDINATOR, request, FindCoordinatorResponse, max_version=_FIND_ONE_COORDINATOR
    )
    if response.error_code:
        raise kafka_error(response.error_code, response.error_message or f"coordinator of group {group_id!r}")
    client.remember_address(response.node_id, response.host, response.port)
    return client.connection_to(response.node_id)


def commit_offsets(
    client: ClusterClient, group_id: str, offsets: Mapping[TopicPartition, int], *, metadata: str = ""
) -> None:
    """Stores a group's next offsets without being a member, so that lag shows in any Kafka tool.

    Raises UNKNOWN_MEMBER_ID while the group has living members: then the positions are theirs.
    """
    topics = tuple(
        OffsetCommitRequestTopic(
            name=topic,
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=offsets[partition],
                    committed_metadata=metadata,
                )
                for partition in partitions
            ),
        )
        for topic, partitions in by_topic(offsets).items()
    )
    request = OffsetCommitRequest(group_id=group_id, topics=topics)

    def commit() -> None:
        response = find_coordinator(client, group_id).request(
            ApiKey.OFFSET_COMMIT, request, OffsetCommitResponse, max_version=_OFFSET_COMMIT_BY_NAME
        )
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise kafka_error(row.error_code, f"group {group_id!r}, {topic.name}-{row.partition_index}")

    if offsets:
        client.retry(commit)


def committed_offsets(
    client: ClusterClient, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, CommittedOffset]:
    """A group's positions, of these partitions or (None) of all; those without a position are left out."""
    topics = None
    if partitions is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(row.partition for row in rows))
            for topic, rows in by_topic(partitions).items()
        )
    request = OffsetFetchRequest(group_id=group_id, topics=topics)

    def fetch() -> dict[TopicPartition, CommittedOffset]:
        response = find_coordinator(client, group_id).request(
            ApiKey.OFFSET_FETCH, request, OffsetFetchResponse, max_version=_OFFSET_FETCH_ONE_GROUP
        )
        if response.error_code:
            raise kafka_error(response.error_code, f"offsets of group {group_id!r}")
        found: dict[TopicPartition, CommittedOffset] = {}
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    raise kafka_error(row.error_code, f"group {group_id!r}, {topic.name}-{row.partition_index}")
                if row.committed_offset >= 0:
                    found[TopicPartition(topic.name, row.partition_index)] = CommittedOffset(
                        row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                    )
        return found

    return client.retry(fetch)


# --- producers ---


def init_producer_id(client: ClusterClient) -> tuple[int, int]:
    """A fresh (producer id, producer epoch) for idempotence, without a transactional id."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

    def init() -> tuple[int, int]:
        response = client.any_connection().request(ApiKey.INIT_PRODUCER_ID, request, InitProducerIdResponse)
        if response.error_code:
            raise kafka_error(response.error_code, "a producer id")
        return response.producer_id, response.producer_epoch

    return client.retry(init)
