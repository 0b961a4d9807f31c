"""Transactional producers that send a batch of an outbox and commit its number in the same transaction.

The number is the committed offset of partition 0 of the topic, in a group that has no members."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from moldau.idempotent.errors import DeliveryError
from moldau.idempotent.outbox import Row

BROKER_S = 30.0


class Sending(Protocol):
    """One transactional producer. After an error it is closed, and the next `open` says what was committed."""

    async def open(self, name: str, topic: str) -> int | None:
        """Fences the producers of this name, ends their transaction, and gives the number of the last batch that is
        committed; None if the group knows none."""

    async def send(self, rows: Sequence[Row], batch: int) -> None:
        """Commits the rows with the number of their batch."""

    async def close(self) -> None:
        """Forgets the producer. Raises nothing."""


class ConfluentSending:
    """confluent-kafka. `settings`: of its Producer and Consumer."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        self._producer: Any = None
        self._members: Any = None
        self._topic = ""

    async def open(self, name: str, topic: str) -> int | None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        producer = Producer({**self._settings, "transactional.id": name})
        producer.init_transactions(BROKER_S)
        reader = Consumer({**self._settings, "group.id": name, "enable.auto.commit": False})
        try:
            (found,) = reader.committed([TopicPartition(topic, 0)], timeout=BROKER_S)
            if found.error is not None:
                raise DeliveryError(f"topic {topic}: {found.error}")
            self._producer, self._members, self._topic = producer, reader.consumer_group_metadata(), topic
        finally:
            reader.close()
        return found.offset if found.offset >= 0 else None

    async def send(self, rows: Sequence[Row], batch: int) -> None:
        from confluent_kafka import TopicPartition

        self._producer.begin_transaction()
        for row in rows:
            while True:
                try:
                    self._producer.produce(self._topic, row.value, row.key, headers=list(row.headers))
                    break
                except BufferError:
                    self._producer.poll(0.1)
        position = [TopicPartition(self._topic, 0, batch)]
        self._producer.send_offsets_to_transaction(position, self._members, BROKER_S)
        self._producer.commit_transaction(BROKER_S)

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):  # a producer that was fenced raises its fatal error again
                producer.purge()
                producer.flush(0)


class AioKafkaSending:
    """aiokafka. `settings`: those that its producer and its consumer share, such as bootstrap_servers."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = dict(settings)
        self._producer: Any = None
        self._name = self._topic = ""

    async def open(self, name: str, topic: str) -> int | None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

        self._name, self._topic = name, topic
        self._producer = AIOKafkaProducer(**self._settings, transactional_id=name)
        await self._producer.start()
        reader = AIOKafkaConsumer(
            **self._settings, group_id=name, enable_auto_commit=False, isolation_level="read_committed"
        )
        try:
            await reader.start()
            found: int | None = await reader.committed(TopicPartition(topic, 0))
        finally:
            await reader.stop()
        return found

    async def send(self, rows: Sequence[Row], batch: int) -> None:
        from aiokafka import TopicPartition

        producer = self._producer
        async with producer.transaction():
            sent = [await producer.send(self._topic, row.value, row.key, headers=list(row.headers)) for row in rows]
            for one in sent:
                await one
            await producer.send_offsets_to_transaction({TopicPartition(self._topic, 0): batch}, self._name)

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(Exception):
                await producer.stop()
