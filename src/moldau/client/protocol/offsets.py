"""Requests and responses about offsets: first and last offsets of partitions, committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from moldau.errors import ERROR_NAMES, KafkaError, kafka_error
from moldau.types import TopicPartition
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
    OffsetFetchResponse,
)

if TYPE_CHECKING:
    from moldau.wire.protocol.messages.transactions import TxnOffsetCommitResponse

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
EARLIEST_LOCAL_TIMESTAMP: Final = -4
EARLIEST_LOCAL_FROM: Final = 8
"""The first offset that is not only in tiered storage (KIP-405), and the first version of ListOffsets that supports
it."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
# the last versions before topic ids, and before several groups in one request; all brokers from 2.8 on serve them
OFFSET_COMMIT_BY_NAME: Final = 8
OFFSET_FETCH_ONE_GROUP: Final = 7
FIND_ONE_COORDINATOR: Final = 3
GROUP_KEY: Final = 0
"""FindCoordinator's key type for groups."""


Offsets = dict[TopicPartition, int]


class CommittedOffset(msgspec.Struct, frozen=True):
    """A committed offset of a group on a partition, with its commit metadata."""

    offset: int
    leader_epoch: int
    metadata: str = ""


def refusal_of(error_code: int, of_what: str) -> KafkaError:
    """The error of a response without a message from the broker: `of_what`, and the name of the error, because a log
    does not show the class."""
    return kafka_error(error_code, f"{of_what}: {ERROR_NAMES[error_code]}")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """The partitions by topic, in the given order."""
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def list_offsets_request(
    timestamps: Mapping[TopicPartition, int], leader_epochs: Mapping[TopicPartition, int], isolation_level: int
) -> ListOffsetsRequest:
    """Asks the leader of all these partitions for the first offset at or after each timestamp (ms), or for one end of
    the log."""
    topics = tuple(
        ListOffsetsTopic(
            name=topic,
            partitions=tuple(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    current_leader_epoch=leader_epochs[partition],
                    timestamp=timestamps[partition],
                )
                for partition in rows
            ),
        )
        for topic, rows in by_topic(leader_epochs).items()
    )
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=30_000)


def take_offsets(response: ListOffsetsResponse, found: Offsets) -> KafkaError | None:
    """Adds the offsets of a response to `found`, and returns the first error in it."""
    first_error: KafkaError | None = None
    for topic in response.topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            if row.error_code:
                first_error = first_error or refusal_of(row.error_code, f"offsets of {partition}")
            else:
                found[partition] = row.offset
    return first_error


def coordinator_request(key: str, key_type: int = GROUP_KEY) -> FindCoordinatorRequest:
    """Asks for one coordinator, in a version up to FIND_ONE_COORDINATOR. `key_type`: the kind of id that `key` is."""
    return FindCoordinatorRequest(key=key, key_type=key_type)


def check_coordinator(response: FindCoordinatorResponse, key: str) -> None:
    """Raises KafkaError if the response names no coordinator."""
    if response.error_code:
        if response.error_message:
            raise kafka_error(response.error_code, response.error_message)
        raise refusal_of(response.error_code, f"the coordinator of {key!r}")


def commit_request(group_id: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> OffsetCommitRequest:
    """Commits offsets of a group without being a member, in a version up to OFFSET_COMMIT_BY_NAME. `metadata` is stored
    with each offset."""
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
    return OffsetCommitRequest(group_id=group_id, topics=topics)


def check_commit(response: OffsetCommitResponse | TxnOffsetCommitResponse, group_id: str) -> None:
    """Raises the first KafkaError of a partition in the response."""
    for topic in response.topics:
        for row in topic.partitions:
            if row.error_code:
                raise refusal_of(row.error_code, f"group {group_id!r}, {topic.name}-{row.partition_index}")


def take_committed(response: OffsetFetchResponse, group_id: str) -> dict[TopicPartition, CommittedOffset]:
    """A group's committed offsets, without partitions that have none. Raises KafkaError."""
    if response.error_code:
        raise refusal_of(response.error_code, f"offsets of group {group_id!r}")
    found: dict[TopicPartition, CommittedOffset] = {}
    for topic in response.topics:
        for row in topic.partitions:
            if row.error_code:
                raise refusal_of(row.error_code, f"group {group_id!r}, {topic.name}-{row.partition_index}")
            if row.committed_offset >= 0:
                found[TopicPartition(topic.name, row.partition_index)] = CommittedOffset(
                    row.committed_offset, row.committed_leader_epoch, row.metadata or ""
                )
    return found
