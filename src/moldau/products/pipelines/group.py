"""A pipeline's progress as a consumer group's offsets, so that every Kafka tool shows its lag.

The group has no members: offsets are committed to it from outside, as an administrator would. They are for looking at;
the pipeline itself starts from Spark's checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as ClientTopicPartition

from moldau.errors import MoldauError
from moldau.types import TopicPartition

TIMEOUT_SECONDS = 10.0

_LOGGER = logging.getLogger("moldau.pipelines")


class GroupError(MoldauError):
    """The cluster did not take the offsets, or did not tell its own, in TIMEOUT_SECONDS."""


class GroupOffsets:
    """Commits offsets to one group and reads end offsets. Blocking; for one thread. Close it."""

    def __init__(self, bootstrap_servers: str, group: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "client.id": "moldau-pipeline",
                "allow.auto.create.topics": False,
            },
            logger=_LOGGER,
        )

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises GroupError."""
        if not offsets:
            return
        wanted = [ClientTopicPartition(one.topic, one.partition, offset) for one, offset in offsets.items()]
        try:
            done = self._consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            raise GroupError(f"the group's offsets were not taken: {error.args[0]}") from error
        failed = [one for one in done or () if one.error is not None]
        if failed:
            raise GroupError(f"the group's offset of {failed[0].topic}-{failed[0].partition}: {failed[0].error}")

    def bounds(self, topic: str) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset and the end offset of every partition. Empty for an absent topic. Raises GroupError."""
        try:
            found = self._consumer.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
            return {
                TopicPartition(topic, number): self._consumer.get_watermark_offsets(
                    ClientTopicPartition(topic, number), timeout=TIMEOUT_SECONDS
                )
                for number in (sorted(found.partitions) if found.error is None else ())
            }
        except KafkaException as error:
            raise GroupError(f"the offsets of topic {topic} could not be read: {error.args[0]}") from error

    def close(self) -> None:
        self._consumer.close()


def lag(bounds: Mapping[TopicPartition, tuple[int, int]], done: Mapping[TopicPartition, int]) -> int:
    """Offsets between what is done and the ends; of a partition of which nothing is done, all that it holds."""
    return sum(max(0, end - max(done.get(partition, first), first)) for partition, (first, end) in bounds.items())
