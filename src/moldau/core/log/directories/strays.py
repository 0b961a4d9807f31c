"""Partition directories that the metadata does not assign to this broker, and their fate at a start.

One is removed only if the metadata log has the record that removed its topic, because a crash came between the two. All
others are strays: renamed to `topic-0.<32 hex>-stray` as in Apache Kafka, listed at each start, and never removed by a
start. An unknown topic, another topic id, or replicas on other brokers alone do not prove a deletion: a file may be
damaged, or the replicas on those brokers may be incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator

import msgspec

from moldau.core.log.directories.directories import LogDirectories
from moldau.core.log.directories.directory import LogDirectory, is_stray_name
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.random_uuid import random_uuid
from moldau.errors import StorageFailedError, StorageFullError
from moldau.ports import Random
from moldau.types import ZERO_UUID, BrokerId, TopicPartition, Uuid, uuid_to_text

MAX_DAMAGED_BITS = 16
"""Two random ids differ in about 61 bits; an id whose text has one wrong character, in at most 6."""


class Settled(msgspec.Struct, frozen=True):
    """One change, as a sentence for the log."""

    path: str
    sentence: str


def settle_strays(
    logs: LogDirectories,
    image: MetadataImage,
    broker_id: BrokerId,
    removed_topics: Callable[[], Container[Uuid]],
    random: Random,
    now_ms: int,
) -> Iterator[Settled]:
    """Checks every partition before its log is opened, so that a damaged stray does not stop the start.

    `removed_topics` is called at most once, and only for a stray: the ids in the metadata log's RemoveTopicRecords.
    Waits. Another directory that fails or is full goes offline. Raises StorageFullError, StorageFailedError.
    """
    removed: Container[Uuid] | None = None
    for directory in logs:
        try:
            for topic_partition in directory.partitions():
                found_id, partition = directory.find_topic_id(topic_partition), image.partition(topic_partition)
                topic_id = ZERO_UUID if partition is None else image.topic_id(topic_partition.topic)
                replicas = () if partition is None else partition.replicas
                if broker_id in replicas and found_id in (topic_id, ZERO_UUID):
                    continue
                if broker_id in replicas and _is_same_but_damaged(found_id, topic_id):
                    yield _mend(directory, topic_partition, topic_id)
                    continue
                if removed is None:
                    removed = removed_topics()
                mark_id = random_uuid(random)
                if found_id in removed:
                    yield _remove(directory, topic_partition, "belongs to a deleted topic", mark_id, now_ms)
                elif not directory.has_records(str(topic_partition)):
                    yield _remove(directory, topic_partition, "holds no records", mark_id, now_ms)
                else:
                    reason = _reason(found_id, topic_id, replicas)
                    name = directory.set_stray_aside(topic_partition, stray_id=mark_id)
                    path = f"{directory.path}/{topic_partition}"
                    yield Settled(path, f"{path} is {reason}: renamed to {name}")
        except (StorageFailedError, StorageFullError) as error:
            logs.leave_out(directory, error)


def _mend(directory: LogDirectory, topic_partition: TopicPartition, topic_id: Uuid) -> Settled:
    found, right = uuid_to_text(directory.find_topic_id(topic_partition)), uuid_to_text(topic_id)
    directory.mend_topic_id(topic_partition, topic_id)
    path = f"{directory.path}/{topic_partition}"
    return Settled(path, f"{path}/partition.metadata was damaged: its topic id was {found}, and is {right} again")


def _remove(directory: LogDirectory, topic_partition: TopicPartition, why: str, mark_id: Uuid, now_ms: int) -> Settled:
    directory.set_deleted_aside(topic_partition, delete_id=mark_id, now_ms=now_ms)
    path = f"{directory.path}/{topic_partition}"
    return Settled(path, f"{path} {why} and is removed")


def strays_of(directory: LogDirectory) -> list[str]:
    """The names of the strays in a log directory, also Apache Kafka's."""
    return [name for name in directory.disk.list_directory("") if is_stray_name(name)]


def _is_same_but_damaged(found: Uuid, topic_id: Uuid) -> bool:
    differing = int.from_bytes(found, "big") ^ int.from_bytes(topic_id, "big")
    return differing.bit_count() <= MAX_DAMAGED_BITS


def _reason(found_id: Uuid, topic_id: Uuid, replicas: Collection[int]) -> str:
    found = "without a topic id" if found_id == ZERO_UUID else f"of topic id {uuid_to_text(found_id)}"
    if topic_id == ZERO_UUID:
        return f"{found}, and the metadata log neither knows that partition nor says that its topic was deleted"
    if found_id not in (topic_id, ZERO_UUID):
        return f"{found}, but the topic of that name has id {uuid_to_text(topic_id)}"
    return f"{found}, but the replicas of that partition are on brokers {', '.join(map(str, replicas))}"
