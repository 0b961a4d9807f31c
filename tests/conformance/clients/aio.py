"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.conformance.clients.interface import TIMEOUT_S, Client, Received


class AioKafka(Client):
    name = "aiokafka"

    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        async def run() -> None:
            from aiokafka import AIOKafkaProducer

            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap_servers,
                enable_idempotence=True,
                compression_type=None if codec == "none" else codec,
                max_request_size=2_000_000,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic, key=record.key, value=record.value, headers=list(record.headers), partition=partition
                    )
                    for record in records
                ]
                await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_S)
            finally:
                await producer.stop()

        asyncio.run(run())

    def read(self, topic: str, count: int, *, partition: int = 0) -> list[Received]:
        async def run() -> list[Received]:
            from aiokafka import AIOKafkaConsumer, TopicPartition

            consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap_servers, enable_auto_commit=False)
            await consumer.start()
            try:
                consumer.assign([TopicPartition(topic, partition)])
                await consumer.seek_to_beginning()
                return [Received(r.key, r.value, tuple(r.headers)) for r in await self._take(consumer, count)]
            finally:
                await consumer.stop()

        return asyncio.run(run())

    def read_and_commit(self, topic: str, group: str, count: int) -> list[bytes | None]:
        async def run() -> list[bytes | None]:
            from aiokafka import AIOKafkaConsumer, TopicPartition

            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=self.bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            try:
                records = await self._take(consumer, count)
                await consumer.commit({TopicPartition(r.topic, r.partition): r.offset + 1 for r in records})
                return [record.value for record in records]
            finally:
                await consumer.stop()

        return asyncio.run(run())

    async def _take(self, consumer, count: int) -> list:
        return [await asyncio.wait_for(consumer.getone(), TIMEOUT_S) for _ in range(count)]
