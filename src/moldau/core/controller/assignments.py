"""Checks of replica assignments, shared by topics and partitions, and the first record of a partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from moldau.core.metadata.fold import UNASSIGNED_DIRECTORY, MetadataRecord
from moldau.core.metadata.image import MetadataImage
from moldau.errors import KafkaError, kafka_error
from moldau.types import Pausing, Uuid
from moldau.wire.protocol.messages.metadata_records import PartitionRecord

Item = TypeVar("Item")
Charge = Callable[[int], None]
"""Takes a number of partitions from the quota of a client for creations and deletions. Raises
THROTTLING_QUOTA_EXCEEDED."""


MAX_PARTITIONS_PER_REQUEST = 10_000


def check_request(partitions: int, timeout_ms: int) -> None:
    """Raises REQUEST_TIMED_OUT or POLICY_VIOLATION for a request that creates `partitions` partitions."""
    if timeout_ms <= 0:
        raise kafka_error("REQUEST_TIMED_OUT")
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise kafka_error("POLICY_VIOLATION", "Excessively large number of partitions per request.")


def free_of_charge(partitions: int) -> None:
    """The charge of a request without a quota: does nothing."""


def split_repeated(items: Sequence[Item], key: Callable[[Item], object]) -> Pausing[tuple[list[Item], list[Item]]]:
    """(items with a unique key, one item for each repeated key), in order."""
    counts: dict[object, int] = {}
    for item in items:
        counts[key(item)] = counts.get(key(item), 0) + 1
        yield
    single: list[Item] = []
    repeated: dict[object, Item] = {}
    for item in items:
        if counts[key(item)] == 1:
            single.append(item)
        else:
            repeated[key(item)] = item
        yield
    return single, list(repeated.values())


def bad_assignment(message: str) -> KafkaError:
    """INVALID_REPLICA_ASSIGNMENT, for an assignment in the request."""
    return kafka_error("INVALID_REPLICA_ASSIGNMENT", message)


def check_assignment(image: MetadataImage, broker_ids: tuple[int, ...], expected: int | None) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT unless all brokers are registered and different. `expected`: the number of
    replicas of earlier partitions."""
    if not broker_ids:
        raise bad_assignment("The manual partition assignment includes an empty replica list.")
    in_order = sorted(broker_ids)
    for position, broker_id in enumerate(in_order):
        if broker_id not in image.brokers:
            raise bad_assignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
        if position and in_order[position - 1] == broker_id:
            raise bad_assignment(f"The manual partition assignment includes the broker {broker_id} more than once.")
    if expected is not None and len(broker_ids) != expected:
        raise bad_assignment(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is not "
            f"consistent with previous partitions, which have {expected} replica(s)."
        )


def check_active(image: MetadataImage, broker_ids: tuple[int, ...], partition_id: int) -> None:
    """Raises INVALID_REPLICA_ASSIGNMENT if none of the brokers may lead the partition."""
    if not any(image.brokers[broker_id].is_active for broker_id in broker_ids):
        raise bad_assignment(
            "All brokers specified in the manual partition assignment for partition "
            f"{partition_id} are fenced or in controlled shutdown."
        )


def new_partition(
    image: MetadataImage, topic_id: Uuid, partition_id: int, replicas: tuple[int, ...]
) -> PartitionRecord:
    """The first record of a partition. The first active replica leads; all active replicas are in sync."""
    isr = tuple(replica for replica in replicas if image.brokers[replica].is_active)
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(default_directory(image, replica) for replica in replicas),
    )


def add_partitions(
    image: MetadataImage,
    topic_id: Uuid,
    first: int,
    placements: Sequence[tuple[int, ...]],
    records: list[MetadataRecord],
) -> Pausing[None]:
    """Appends the records of the partitions from `first` on to `records`, with pauses."""
    for index, replicas in enumerate(placements):
        records.append(new_partition(image, topic_id, first + index, replicas))
        yield


def default_directory(image: MetadataImage, broker_id: int) -> Uuid:
    """The only log directory of a broker. A broker with several chooses later and reports it (KIP-858)."""
    directories = image.brokers[broker_id].log_directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY
