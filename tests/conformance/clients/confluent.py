"""confluent-kafka: librdkafka from Python."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

from tests.conformance.clients import login
from tests.conformance.clients.interface import OPERATIONS, TIMEOUT_S, Client, ClientError, Position, Received


class ConfluentKafka(Client):
    name = "confluent-kafka"
    operations = OPERATIONS

    @classmethod
    def version(cls) -> str:
        return metadata.version(cls.name)

    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        from confluent_kafka import Producer

        errors: list[object] = []
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                **login.librdkafka(),
                "client.id": self.name,
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
        # a KafkaError cannot be compared with None
        refused = [str(error) for error in errors if error is not None]
        if refused:
            raise ClientError(refused[0])
        assert len(errors) == len(records)

    def _consumer(self, group: str):
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                **login.librdkafka(),
                "client.id": self.name,
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

    def _transactional(self, name: str):
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                **login.librdkafka(),
                "client.id": self.name,
                "transactional.id": name,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        return producer

    def transact(
        self, name: str, topic: str, values: Sequence[str], *, is_commit: bool, position: Position | None = None
    ) -> None:
        from confluent_kafka import TopicPartition

        producer = self._transactional(name)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        if position is not None:
            consumer = self._consumer(position.group)
            place = TopicPartition(position.topic, 0, position.offset)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), TIMEOUT_S)
            consumer.close()
        if is_commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)

    def fence(self, name: str, topic: str) -> None:
        from confluent_kafka import KafkaException

        first = self._transactional(name)
        self._transactional(name)
        try:
            first.begin_transaction()
            first.produce(topic, value="old", partition=0)
            first.commit_transaction(TIMEOUT_S)
        except KafkaException as error:
            raise ClientError(str(error)) from error

    def administer(self, operation: str, **values: Any) -> Any:
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "client.id": self.name, **login.librdkafka()})
        return getattr(self, f"_{operation}")(admin, **values)

    def _add_partitions(self, admin: Any, topic: str, total: int) -> None:
        from confluent_kafka.admin import NewPartitions

        admin.create_partitions([NewPartitions(topic, total)])[topic].result(TIMEOUT_S)

    def _partition_count(self, admin: Any, topic: str) -> int:
        return len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)

    def _set_config(self, admin: Any, topic: str, name: str, value: str) -> None:
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource("topic", topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    def _config(self, admin: Any, topic: str, name: str) -> str:
        from confluent_kafka.admin import ConfigResource

        resource = ConfigResource("topic", topic)
        return admin.describe_configs([resource])[resource].result(TIMEOUT_S)[name].value

    def _delete_records(self, admin: Any, topic: str, partition: int, offset: int) -> int:
        from confluent_kafka import TopicPartition

        asked = TopicPartition(topic, partition, offset)
        return admin.delete_records([asked])[asked].result(TIMEOUT_S).low_watermark

    def _groups(self, admin: Any) -> list[str]:
        return [group.group_id for group in admin.list_consumer_groups().result(TIMEOUT_S).valid]

    def _delete_group(self, admin: Any, group: str) -> None:
        admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)

    def _offset_at(self, admin: Any, topic: str, partition: int, timestamp: int) -> int:
        from confluent_kafka import TopicPartition
        from confluent_kafka.admin import OffsetSpec

        asked = TopicPartition(topic, partition)
        return admin.list_offsets({asked: OffsetSpec.for_timestamp(timestamp)})[asked].result(TIMEOUT_S).offset

    def _delete_topic(self, admin: Any, topic: str) -> None:
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)
