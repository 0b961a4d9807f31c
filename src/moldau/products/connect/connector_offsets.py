"""The offsets of connectors: those of sources in the topic of offsets, those of sinks in the committed offsets of their
groups.

A sink of Moldau has in the topic of offsets, too, which batch it writes next (`moldau.connect.running`): a change of
its committed offsets empties that batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import TIMEOUT_S, UNHEARD
from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import Record
from moldau.products.connect.core.offsets import RANGES, OffsetState, Place, offset_record, without_ranges
from moldau.products.connect.followed_topic import FollowedTopic
from moldau.transport.librdkafka import librdkafka_settings

SLOT = "slot"
"""The partition of a source."""
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
SLOTS = "slots"
OF_ALL: Place = {}
"""The partition of what a connector keeps for all its slots (`moldau.connect.running.slots`)."""
DELETED = -1
"""Of a committed offset that is deleted."""

Answer = dict[str, object]
Change = tuple[Place, Place | None]
"""A partition and its new offset; None deletes the offset."""


def group_of(name: str) -> str:
    """The consumer group of a sink."""
    return f"connect-{name}"


class ConnectorOffsets:
    """Thread-safe."""

    def __init__(self, access: ClusterAccess, topic: str, partitions: int, replicas: int | None) -> None:
        """Creates the topic if it is missing, and returns when the state includes all of it. Raises TopicError."""
        self._state = OffsetState()
        self._topic = FollowedTopic(access, topic, self._state.apply, partitions=partitions, replicas=replicas)
        self._admin = AdminClient({**librdkafka_settings(access), "logger": UNHEARD})

    @property
    def cluster_id(self) -> str:
        return self._topic.cluster_id

    def close(self) -> None:
        self._topic.close()

    def of(self, name: str, kind: str) -> Answer:
        """Kafka Connect's answer. Raises Refusal."""
        found = self._of_sink(name) if kind == "sink" else [one for one in self._kept(name) if one[0] != OF_ALL]
        return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in found]}

    def alter(self, name: str, kind: str, changes: Sequence[Change]) -> None:
        """Raises Refusal."""
        if kind == "sink":
            self._alter_sink([_sink_change(*change) for change in changes], name)
        else:
            self._topic.write([_source_change(name, *change) for change in changes])

    def reset(self, name: str, kind: str) -> None:
        """Deletes all offsets. Raises Refusal."""
        if kind == "sink":
            self._delete_group(name)
        # a sink keeps its number of slots: tasks that are frozen must still be fenced when it changes
        gone = [partition for partition, _ in self._kept(name) if kind != "sink" or partition != OF_ALL]
        self._topic.write([offset_record(name, partition, None) for partition in gone])

    def slots_of(self, name: str) -> int | None:
        """The number of tasks whose places are kept; None if that does not matter. Raises Refusal."""
        return next((found.get(SLOTS) for partition, found in self._kept(name) if partition == OF_ALL), None)

    def _kept(self, name: str) -> list[tuple[Place, Place]]:
        if not self._topic.catch_up():
            raise refusals.Refusal(500, "The offsets could not be read")
        with self._topic.changed:
            return self._state.of(name)

    def _of_sink(self, name: str) -> list[tuple[Place, Place]]:
        [future] = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_of(name))]).values()
        try:
            places = future.result(TIMEOUT_S).topic_partitions
        except KafkaException as error:
            if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            raise refusals.Refusal(500, f"The offsets could not be read: {error.args[0].str()}") from error
        return [
            ({PARTITION: place.partition, TOPIC: place.topic}, {OFFSET: place.offset})
            for place in places
            if place.offset >= 0
        ]

    def _alter_sink(self, places: Sequence[TopicPartition], name: str) -> None:
        group = group_of(name)
        kept = [place for place in places if place.offset != DELETED]
        gone = {(place.topic, place.partition) for place in places if place.offset == DELETED}
        if gone:
            # a group's offsets are deleted together: the others are committed again
            there = [TopicPartition(p[TOPIC], p[PARTITION], o[OFFSET]) for p, o in self._of_sink(name)]
            named = {(place.topic, place.partition) for place in kept}
            kept += [place for place in there if (place.topic, place.partition) not in gone | named]
            self._delete_group(name)
        if kept:
            try:
                [future] = self._admin.alter_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group, list(kept))]
                ).values()
                future.result(TIMEOUT_S)
            except KafkaException as error:
                raise refusals.Refusal(500, f"The offsets could not be changed: {error.args[0].str()}") from error
        self._topic.write(
            [offset_record(name, slot, without_ranges(held)) for slot, held in self._kept(name) if RANGES in held]
        )

    def _delete_group(self, name: str) -> None:
        try:
            self._admin.delete_consumer_groups([group_of(name)])[group_of(name)].result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise refusals.Refusal(500, f"The offsets could not be reset: {error.args[0].str()}") from error


def _source_change(name: str, partition: Place, offset: Place | None) -> Record:
    """Raises Refusal: a task would not find another partition."""
    slot = partition.get(SLOT)
    if set(partition) != {SLOT} or not isinstance(slot, int) or isinstance(slot, bool) or slot < 0:
        raise refusals.bad_request(
            "The partition for a source connector offset is the number of a task, such as "
            f'{{"{SLOT}": 0}}, not {msgspec.json.encode(partition).decode()}'
        )
    return offset_record(name, {SLOT: slot}, offset)


def _sink_change(partition: Place, offset: Place | None) -> TopicPartition:
    """Raises Refusal with Kafka's sentence."""
    if TOPIC not in partition or PARTITION not in partition:
        raise refusals.bad_request(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
        )
    number = _whole(partition[PARTITION])
    if number is None:
        raise refusals.bad_request(
            f"Failed to parse the following Kafka partition value in the provided offsets: '{partition[PARTITION]}'. "
            "Partition values for sink connectors need to be integers."
        )
    if offset is None:
        return TopicPartition(str(partition[TOPIC]), number, DELETED)
    if OFFSET not in offset:
        raise refusals.bad_request(
            f"The offset for a sink connector should either be null or contain the key '{OFFSET}'"
        )
    place = _whole(offset[OFFSET])
    if place is None or place < 0:
        raise refusals.bad_request(
            f"Failed to parse the following Kafka offset value in the provided offsets: '{offset[OFFSET]}'. "
            "Offset values for sink connectors need to be integers."
        )
    return TopicPartition(str(partition[TOPIC]), number, place)


def _whole(value: Any) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
