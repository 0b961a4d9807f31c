"""confluent-kafka: librdkafka from Python."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.clients.interface import TIMEOUT_S, Client, Received


class ConfluentKafka(Client):
    name = "confluent-kafka"

    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        from confluent_kafka import Producer

        errors: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "enable.idempotence": True,
                "compression.type": codec,
                "message.max.bytes": 2_000_000,
            }
        )
        for record in records:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=partition,
                on_delivery=lambda error, _: errors.append(error),
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert errors == [None] * len(records)

    def _consumer(self, group: str):
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )

    def read(self, topic: str, count: int, *, partition: int = 0) -> list[Received]:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        consumer = self._consumer("unused")
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        try:
            return [
                Received(message.key(), message.value(), tuple(message.headers() or ()))
                for message in self._take(consumer, count)
            ]
        finally:
            consumer.close()

    def read_and_commit(self, topic: str, group: str, count: int) -> list[bytes | None]:
        consumer = self._consumer(group)
        consumer.subscribe([topic])
        try:
            messages = self._take(consumer, count)
            consumer.commit(asynchronous=False)
            return [message.value() for message in messages]
        finally:
            consumer.close()

    def _take(self, consumer, count: int) -> list:
        messages: list = []
        while len(messages) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{len(messages)} of {count} records"
            assert message.error() is None, message.error()
            messages.append(message)
        return messages
