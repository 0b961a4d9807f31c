"""Directories of partitions that the metadata does not name: which of them may go, at a start.

One goes only if the metadata log holds the record that removed its topic: a crash came between the two. All others are
strays: renamed to `topic-0.<32 hex>-stray` as Apache Kafka does, told at each start, and never removed by a start. For
that the metadata does not know a topic, or knows it by another id, proves no deletion: a file may be damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import msgspec

from moldau.core.log.directories import LogDirectories
from moldau.core.log.directory import LogDirectory, is_stray_name
from moldau.core.log.log import Log
from moldau.core.metadata.random_uuid import random_uuid
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
    """Looks at every log once all are open. `topic_id_of`: what the metadata says, ZERO_UUID for a partition that it
    does not name. `removed_topics` is asked at most once, only if there is a stray: ids in the metadata log's
    RemoveTopicRecords. Waits. Raises StorageFullError, StorageFailedError."""
    removed: Container[Uuid] | None = None
    for directory in logs:
        if directory.health.is_offline:
            continue
        for topic_partition, log in list(directory.logs.items()):
            path = f"{directory.path}/{topic_partition}"
            topic_id = topic_id_of(topic_partition)
            if topic_id != ZERO_UUID and log.topic_id in (topic_id, ZERO_UUID):
                continue
            if topic_id != ZERO_UUID and _is_same_but_damaged(log.topic_id, topic_id):
                found, right = uuid_to_text(log.topic_id), uuid_to_text(topic_id)
                directory.write_topic_id(topic_partition, topic_id)
                log.topic_id = topic_id
                yield Settled(path, f"{path}/partition.metadata was damaged: its topic id {found} is {right} again")
                continue
            if removed is None:
                removed = removed_topics()
            if log.topic_id in removed or not directory.has_records(str(topic_partition)):
                directory.delete_log(topic_partition, delete_id=random_uuid(random), now_ms=now_ms)
                yield Settled(path, f"{path} is of a topic that was deleted: it is removed")
            else:
                name = directory.set_stray_aside(topic_partition, stray_id=random_uuid(random))
                yield Settled(path, f"{path} is {_reason(log, topic_id)}: it is set aside as {name}")


def strays_of(directory: LogDirectory) -> list[str]:
    """The names of what was set aside in a log directory, also by Apache Kafka."""
    return [name for name in directory.disk.list_directory("") if is_stray_name(name)]


def _is_same_but_damaged(found: Uuid, topic_id: Uuid) -> bool:
    differing = int.from_bytes(found, "big") ^ int.from_bytes(topic_id, "big")
    return differing.bit_count() <= MAX_DAMAGED_BITS


def _reason(log: Log, topic_id: Uuid) -> str:
    found = "of no topic id" if log.topic_id == ZERO_UUID else f"of topic id {uuid_to_text(log.topic_id)}"
    if topic_id != ZERO_UUID:
        return f"{found}, but the topic of that name has id {uuid_to_text(topic_id)}"
    return f"{found}, and the metadata log neither knows that partition nor says that its topic was deleted"
