"""kafka-python: blocking."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.idempotent.blocking import run
from moldau.idempotent.clients.port import Watcher
from moldau.idempotent.records import Headers, Partition, Record

RETRY_S = 0.2
"""The pause after an error that passes."""


class KafkaPythonConsuming:
    """A kafka.KafkaConsumer without deserializers."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def subscribe(self, topics: Sequence[str], watcher: Watcher) -> None:
        from kafka import ConsumerRebalanceListener, TopicPartition

        consumer = self._consumer

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
            def on_partitions_assigned(self, assigned: Any) -> None:
                starts = run(watcher.on_assigned([tuple(part) for part in assigned]))
                for place, offset in starts.items():
                    consumer.seek(TopicPartition(*place), offset)

            def on_partitions_revoked(self, revoked: Any) -> None:
                run(watcher.on_revoked([tuple(part) for part in revoked]))

            def on_partitions_lost(self, lost: Any) -> None:
                run(watcher.on_lost([tuple(part) for part in lost]))

        for topic in topics:
            consumer.partitions_for_topic(topic)  # a leader that does not know the topic's partitions assigns none
        consumer.subscribe(topics=list(topics), listener=Listener())

    async def poll(self, timeout_s: float, at_most: int) -> list[Record]:
        from kafka.errors import KafkaError

        try:
            found = self._consumer.poll(timeout_ms=int(timeout_s * 1000), max_records=at_most)
        except KafkaError as error:
            if not error.retriable:
                raise
            # it gives up some requests while a broker is down, before it takes records; the next poll connects again
            time.sleep(min(timeout_s, RETRY_S))  # noqa: ASYNC251 - a blocking client's method suspends nobody
            return []
        return [record_of(one) for part in found.values() for one in part]

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        self._consumer.commit(
            {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        )

    async def seek(self, place: Partition, offset: int) -> None:
        from kafka import TopicPartition

        self._consumer.seek(TopicPartition(*place), offset)

    async def pause(self, place: Partition) -> None:
        from kafka import TopicPartition

        self._consumer.pause(TopicPartition(*place))

    async def resume(self, place: Partition) -> None:
        from kafka import TopicPartition

        self._consumer.resume(TopicPartition(*place))


def record_of(one: Any) -> Record:
    """The record of a ConsumerRecord of kafka-python or aiokafka."""
    return Record(one.topic, one.partition, one.offset, one.key, one.value, tuple(one.headers or ()), one.timestamp)


class KafkaPythonProducing:
    """A kafka.KafkaProducer without serializers."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    async def deliver(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        future = self._producer.send(topic, value=value, key=key, headers=list(headers))
        future.get()  # bounded by the producer's delivery_timeout_ms
