"""aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from typing import Any

from tests.conformance.clients import login
from tests.conformance.clients.interface import OPERATIONS, TIMEOUT_S, Client, ClientError, Position, Received


class AioKafka(Client):
    name = "aiokafka"
    operations = OPERATIONS - {"delete_group"}

    @classmethod
    def version(cls) -> str:
        return metadata.version(cls.name)

    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        async def run() -> None:
            from aiokafka import AIOKafkaProducer

            producer = AIOKafkaProducer(
                **login.aiokafka(),
                bootstrap_servers=self.bootstrap_servers,
                client_id=self.name,
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

            consumer = AIOKafkaConsumer(
                **login.aiokafka(),
                bootstrap_servers=self.bootstrap_servers,
                client_id=self.name,
                enable_auto_commit=False,
            )
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
                **login.aiokafka(),
                bootstrap_servers=self.bootstrap_servers,
                client_id=self.name,
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

    async def _transactional(self, name: str):
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            **login.aiokafka(), bootstrap_servers=self.bootstrap_servers, client_id=self.name, transactional_id=name
        )
        await producer.start()
        return producer

    def transact(
        self, name: str, topic: str, values: Sequence[str], *, is_commit: bool, position: Position | None = None
    ) -> None:
        async def run() -> None:
            from aiokafka import TopicPartition

            producer = await self._transactional(name)
            try:
                await producer.begin_transaction()
                for value in values:
                    await producer.send_and_wait(topic, value.encode(), partition=0)
                if position is not None:
                    place = TopicPartition(position.topic, 0)
                    await producer.send_offsets_to_transaction({place: position.offset}, position.group)
                if is_commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
            finally:
                await producer.stop()

        asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))

    def fence(self, name: str, topic: str) -> None:
        async def run() -> None:
            from aiokafka.errors import KafkaError

            first = await self._transactional(name)
            second = await self._transactional(name)
            try:
                await first.begin_transaction()
                await first.send_and_wait(topic, b"old", partition=0)
                await first.commit_transaction()
            except KafkaError as error:
                raise ClientError(repr(error)) from error
            finally:
                for producer in (second, first):
                    with suppress(KafkaError):
                        await producer.stop()

        asyncio.run(asyncio.wait_for(run(), TIMEOUT_S))

    def administer(self, operation: str, **values: Any) -> Any:
        async def run() -> Any:
            from aiokafka.admin import AIOKafkaAdminClient

            admin = AIOKafkaAdminClient(
                **login.aiokafka(), bootstrap_servers=self.bootstrap_servers, client_id=self.name
            )
            await admin.start()
            try:
                return await getattr(self, f"_{operation}")(admin, **values)
            finally:
                await admin.close()

        return asyncio.run(run())

    async def _add_partitions(self, admin: Any, topic: str, total: int) -> None:
        from aiokafka.admin import NewPartitions

        answer = await admin.create_partitions({topic: NewPartitions(total)})
        assert [error[1] for error in answer.topic_errors] == [0], answer

    async def _partition_count(self, admin: Any, topic: str) -> int:
        return len((await admin.describe_topics([topic]))[0]["partitions"])

    async def _set_config(self, admin: Any, topic: str, name: str, value: str) -> None:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        (answer,) = await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])
        assert answer.resources[0][0] == 0, answer

    async def _config(self, admin: Any, topic: str, name: str) -> str:
        from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})])
        return answer.resources[0][4][0][1]

    async def _delete_records(self, admin: Any, topic: str, partition: int, offset: int) -> int:
        from aiokafka import TopicPartition
        from aiokafka.admin import RecordsToDelete

        asked = TopicPartition(topic, partition)
        return (await admin.delete_records({asked: RecordsToDelete(before_offset=offset)}))[asked]

    async def _groups(self, admin: Any) -> list[str]:
        return [group[0] for group in await admin.list_consumer_groups()]

    async def _offset_at(self, admin: Any, topic: str, partition: int, timestamp: int) -> int:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(**login.aiokafka(), bootstrap_servers=self.bootstrap_servers, client_id=self.name)
        await consumer.start()
        try:
            asked = TopicPartition(topic, partition)
            return (await consumer.offsets_for_times({asked: timestamp}))[asked].offset
        finally:
            await consumer.stop()

    async def _delete_topic(self, admin: Any, topic: str) -> None:
        await admin.delete_topics([topic])
