"""Fetches the first and last offsets of partitions, offsets by timestamp, and committed offsets.

Functions over a ClusterClient. Each retries retriable errors, within the client's times.
"""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.offsets import (
    FIND_ONE_COORDINATOR,
    GROUP_KEY,
    OFFSET_COMMIT_BY_NAME,
    OFFSET_FETCH_ONE_GROUP,
    READ_COMMITTED,
    CommittedOffset,
    Offsets,
    check_commit,
    check_coordinator,
    commit_request,
    coordinator_request,
    list_offsets_request,
    refusal_of,
    take_committed,
    take_offsets,
)
from moldau.errors import KafkaError
from moldau.types import TopicPartition
from moldau.wire.protocol.messages.coordinators import FindCoordinatorResponse
from moldau.wire.protocol.messages.offsets import OffsetFetchRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest


def list_offsets(
    client: ClusterClient, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = READ_COMMITTED
) -> Offsets:
    """Returns for each partition the first offset at or after its timestamp (ms), or one end of the log (LATEST,
    EARLIEST_TIMESTAMP); -1 if no record is that late.

    For READ_COMMITTED the latest offset is the last stable offset, for READ_UNCOMMITTED the high watermark.
    """
    found: Offsets = {}
    backoff = client.backoff()
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
    found: Offsets,
) -> None:
    first_error: KafkaError | None = None
    for leader_id, partitions in client.group_by_leader(timestamps).items():
        epochs = {partition: client.leader_of(partition).leader_epoch for partition in partitions}
        request = list_offsets_request(timestamps, epochs, isolation_level)
        response = client.connection_to(leader_id).request(request)
        error = take_offsets(response, found)
        first_error = first_error or error
    if first_error is not None:
        raise first_error


# --- groups, as a simple consumer: without membership ---


def find_coordinator(client: ClusterClient, key: str, key_type: int = GROUP_KEY) -> ClientConnection:
    """A connection to the coordinator of a group (or of a transactional id, by `key_type`). Raises retriable errors at
    once: for use inside `client.retry`."""
    return client.connection_to(find_coordinator_id(client, key, key_type))


def find_coordinator_id(client: ClusterClient, key: str, key_type: int = GROUP_KEY) -> int:
    """The id of the coordinator. Raises as `find_coordinator`."""
    response = ask_for_coordinator(client, key, key_type)
    check_coordinator(response, key)
    return response.node_id


def ask_for_coordinator(client: ClusterClient, key: str, key_type: int = GROUP_KEY) -> FindCoordinatorResponse:
    """The response about the coordinator from any broker, after which `client.connection_to` can reach it. For callers
    that handle its errors themselves."""
    request = coordinator_request(key, key_type)
    response = client.any_connection().request(request, max_version=FIND_ONE_COORDINATOR)
    if not response.error_code:
        client.remember_address(response.node_id, response.host, response.port)
    return response


def commit_offsets(
    client: ClusterClient,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    metadata: str = "",
    *,
    at_most_ms: int | None = None,
) -> None:
    """Commits offsets of a group without being a member, so that Kafka tools show the lag. `metadata` is stored with
    each offset. `at_most_ms` limits a longer retry time of the client.

    Raises UNKNOWN_MEMBER_ID while the group has live members, which then own the committed offsets.
    """
    request = commit_request(group_id, offsets, metadata)

    def commit() -> None:
        response = find_coordinator(client, group_id).request(request, max_version=OFFSET_COMMIT_BY_NAME)
        check_commit(response, group_id)

    if offsets:
        client.retry(commit, at_most_ms=at_most_ms)


def committed_offsets(
    client: ClusterClient, group_id: str, *, require_stable: bool = False
) -> dict[TopicPartition, CommittedOffset]:
    """All committed offsets of a group. `require_stable`: waits while an open transaction includes offsets of the group
    (KIP-447)."""
    request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=require_stable)

    def fetch() -> dict[TopicPartition, CommittedOffset]:
        response = find_coordinator(client, group_id).request(request, max_version=OFFSET_FETCH_ONE_GROUP)
        return take_committed(response, group_id)

    return client.retry(fetch)


# --- producers ---


def init_producer_id(client: ClusterClient) -> tuple[int, int]:
    """A new (producer id, producer epoch) for idempotence, without a transactional id."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

    def init() -> tuple[int, int]:
        response = client.any_connection().request(request)
        if response.error_code:
            raise refusal_of(response.error_code, "a producer id")
        return response.producer_id, response.producer_epoch

    return client.retry(init)
