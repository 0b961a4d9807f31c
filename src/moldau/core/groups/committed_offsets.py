"""The committed offsets of groups, and those of open transactions (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import msgspec

from moldau.types import Offset, ProducerId
from moldau.wire.protocol.messages.group_records import OffsetCommitKey, OffsetCommitValue

Value = TypeVar("Value")


class CommittedOffset(OffsetCommitValue, frozen=True):
    """One committed offset. `expire_timestamp`: -1 unless the client sent a retention time (before v5)."""

    record_offset: Offset = Offset(-1)
    """The offset of the record in `__consumer_offsets`."""


OffsetsByPartition = dict[str, dict[int, CommittedOffset]]
"""Topic name, then partition index."""


class PendingOffsets(msgspec.Struct):
    """Transactional commits without a marker yet. Both dictionaries have the same offsets."""

    by_producer: dict[ProducerId, dict[str, OffsetsByPartition]] = msgspec.field(default_factory=dict)
    """What each producer has committed, by group."""
    producers: dict[str, dict[str, dict[int, dict[ProducerId, None]]]] = msgspec.field(default_factory=dict)
    """By group, topic and partition: the producers whose open transactions commit the offset."""

    def put(self, producer_id: ProducerId, key: OffsetCommitKey, offset: CommittedOffset) -> None:
        """The producer's open transaction commits this offset. The last commit of a partition counts."""
        groups = self.by_producer.setdefault(producer_id, {})
        groups.setdefault(key.group, {}).setdefault(key.topic, {})[key.partition] = offset
        topics = self.producers.setdefault(key.group, {})
        topics.setdefault(key.topic, {}).setdefault(key.partition, {})[producer_id] = None

    def forget(self, key: OffsetCommitKey) -> None:
        """The offset was deleted, also from open transactions."""
        for producer_id in self.producers.get(key.group, {}).get(key.topic, {}).get(key.partition, ()):
            remove_position(self.by_producer[producer_id], key)
            if not self.by_producer[producer_id]:
                del self.by_producer[producer_id]
        remove_position(self.producers, key)

    def end(self, producer_id: ProducerId) -> Iterator[tuple[OffsetCommitKey, CommittedOffset]]:
        """The producer's transaction ends. Returns its commits, each partition once."""
        for group_id, topics in self.by_producer.pop(producer_id, {}).items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
                    others = self.producers[group_id][topic][partition]
                    del others[producer_id]
                    if not others:
                        remove_position(self.producers, key)
                    yield key, offset

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has a commit of this partition."""
        return partition in self.producers.get(group_id, {}).get(topic, {})

    def offsets_at(self, key: OffsetCommitKey) -> Iterator[CommittedOffset]:
        """The commits of open transactions for the partition."""
        for producer_id in self.producers.get(key.group, {}).get(key.topic, {}).get(key.partition, ()):
            yield self.by_producer[producer_id][key.group][key.topic][key.partition]

    def positions_of(self, group_id: str) -> Iterator[OffsetCommitKey]:
        """The commits of open transactions for the group."""
        for topic, partitions in self.producers.get(group_id, {}).items():
            for partition in partitions:
                yield OffsetCommitKey(group=group_id, topic=topic, partition=partition)


def remove_position(positions: dict[str, dict[str, dict[int, Value]]], key: OffsetCommitKey) -> None:
    """Removes the offset from a dictionary by group, topic and partition. Leaves no empty dictionaries."""
    topics = positions.get(key.group, {})
    partitions = topics.get(key.topic, {})
    partitions.pop(key.partition, None)
    if not partitions:
        topics.pop(key.topic, None)
    if not topics:
        positions.pop(key.group, None)
