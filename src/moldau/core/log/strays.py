"""Directories of partitions that the metadata does not name: which of them may go, at a start.

One goes only if the metadata log holds the record that removed its topic: a crash came between the two. All others are
strays: renamed to `topic-0.<32 hex>-stray` as Apache Kafka does, named at each start, and never removed by a start. For
that the metadata does not know a topic, or knows it by another id, proves no deletion: a file may be damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import msgspec

from moldau.core.log.directories import LogDirectories
from moldau.core.log.directory import LogDirectory, is_stray_name
from moldau.core.metadata.random_uuid import random_uuid
from moldau.errors import StorageFailedError
from moldau.ports import Random
from moldau.types import ZERO_UUID, TopicPartition, Uuid, uuid_to_text

MAX_DAMAGED_BITS = 16
"""Two random ids differ in about 61 of their bits, one whose text lost a character in at most 6."""


class Settled(msgspec.Struct, frozen=True):
    """One thing that was done, as a sentence for the log."""

    path: str
    sentence: str


def settle_strays(
    logs: LogDirectories,
    topic_id_of: Callable[[TopicPartition], Uuid],
    removed_topics: Callable[[], Container[Uuid]],
    random: Random,
    now_ms: int,
) -> Iterator[Settled]:
    """Looks at every partition before its log is opened: damage inside a stray refuses no start.

    `topic_id_of`: what the metadata says, ZERO_UUID for a partition that it does not name. `removed_topics` is asked at
    most once, only if there is a stray: ids in the metadata log's RemoveTopicRecords. Waits. A further directory that
    fails is offline then. Raises StorageFullError, StorageFailedError.
    """
    removed: Container[Uuid] | None = None
    for directory in logs:
        try:
            for topic_partition in directory.partitions():
                topic_id, found_id = topic_id_of(topic_partition), directory.find_topic_id(topic_partition)
                if topic_id != ZERO_UUID and found_id in (topic_id, ZERO_UUID):
                    continue
                if removed is None and not _is_same_but_damaged(found_id, topic_id):
                    removed = removed_topics()
                yield _settle(directory, topic_partition, topic_id, removed or (), random_uuid(random), now_ms)
        except StorageFailedError as error:
            if directory is logs.first:
                raise
            directory.health.fail(error)


def _settle(
    directory: LogDirectory,
    topic_partition: TopicPartition,
    topic_id: Uuid,
    removed: Container[Uuid],
    mark_id: Uuid,
    now_ms: int,
) -> Settled:
    path, found_id = f"{directory.path}/{topic_partition}", directory.find_topic_id(topic_partition)
    if _is_same_but_damaged(found_id, topic_id):
        directory.mend_topic_id(topic_partition, topic_id)
        found, right = uuid_to_text(found_id), uuid_to_text(topic_id)
        return Settled(path, f"{path}/partition.metadata was damaged: its topic id was {found}, and is {right} again")
    if found_id in removed or not directory.has_records(str(topic_partition)):
        directory.set_deleted_aside(topic_partition, delete_id=mark_id, now_ms=now_ms)
        return Settled(path, f"{path} belongs to a deleted topic and is removed")
    name = directory.set_stray_aside(topic_partition, stray_id=mark_id)
    return Settled(path, f"{path} is {_reason(found_id, topic_id)}: renamed to {name}")


def strays_of(directory: LogDirectory) -> list[str]:
    """The names of what was set aside in a log directory, also by Apache Kafka."""
    return [name for name in directory.disk.list_directory("") if is_stray_name(name)]


def _is_same_but_damaged(found: Uuid, topic_id: Uuid) -> bool:
    differing = int.from_bytes(found, "big") ^ int.from_bytes(topic_id, "big")
    return topic_id != ZERO_UUID and differing.bit_count() <= MAX_DAMAGED_BITS


def _reason(found_id: Uuid, topic_id: Uuid) -> str:
    found = "without a topic id" if found_id == ZERO_UUID else f"of topic id {uuid_to_text(found_id)}"
    if topic_id != ZERO_UUID:
        return f"{found}, but the topic of that name has id {uuid_to_text(topic_id)}"
    return f"{found}, and the metadata log neither knows that partition nor says that its topic was deleted"
