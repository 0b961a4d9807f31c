"""aiokafka: asyncio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moldau.idempotent.clients.kafka_python import record_of
from moldau.idempotent.clients.port import Watcher
from moldau.idempotent.records import Headers, Partition, Record


class AioKafkaConsuming:
    """An aiokafka.AIOKafkaConsumer without deserializers."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def subscribe(self, topics: Sequence[str], watcher: Watcher) -> None:
        from aiokafka import ConsumerRebalanceListener, TopicPartition

        consumer = self._consumer

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # its types are not read
            async def on_partitions_assigned(self, assigned: Any) -> None:
                starts = await watcher.on_assigned([tuple(part) for part in assigned])
                for place, offset in starts.items():
                    consumer.seek(TopicPartition(*place), offset)

            async def on_partitions_revoked(self, revoked: Any) -> None:
                await watcher.on_revoked([tuple(part) for part in revoked])

        consumer.subscribe(topics=list(topics), listener=Listener())

    async def poll(self, timeout_s: float, at_most: int) -> list[Record]:
        found = await self._consumer.getmany(timeout_ms=int(timeout_s * 1000), max_records=at_most)
        return [record_of(one) for part in found.values() for one in part]

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        from aiokafka import TopicPartition

        await self._consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})

    async def seek(self, place: Partition, offset: int) -> None:
        from aiokafka import TopicPartition

        self._consumer.seek(TopicPartition(*place), offset)

    async def pause(self, place: Partition) -> None:
        from aiokafka import TopicPartition

        self._consumer.pause(TopicPartition(*place))

    async def resume(self, place: Partition) -> None:
        from aiokafka import TopicPartition

        self._consumer.resume(TopicPartition(*place))


class AioKafkaProducing:
    """An aiokafka.AIOKafkaProducer without serializers."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    async def deliver(self, topic: str, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        await self._producer.send_and_wait(topic, value=value, key=key, headers=list(headers))
