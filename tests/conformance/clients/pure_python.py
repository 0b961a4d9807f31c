"""kafka-python."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

from tests.conformance.clients import login
from tests.conformance.clients.interface import OPERATIONS, TIMEOUT_S, Client, ClientError, Position, Received


class KafkaPython(Client):
    name = "kafka-python"
    has_null_headers = False
    operations = OPERATIONS

    @classmethod
    def version(cls) -> str:
        return metadata.version(cls.name)

    def produce(self, topic: str, records: Sequence[Received], *, codec: str = "none", partition: int = 0) -> None:
        from kafka import KafkaProducer

        producer = KafkaProducer(
            **login.kafka_python(),
            bootstrap_servers=self.bootstrap_servers,
            client_id=self.name,
            acks="all",
            compression_type=None if codec == "none" else codec,
            max_request_size=2_000_000,
        )
        futures = [
            producer.send(topic, key=record.key, value=record.value, headers=list(record.headers), partition=partition)
            for record in records
        ]
        producer.flush(TIMEOUT_S)
        for future in futures:
            future.get(TIMEOUT_S)
        producer.close()

    def _consumer(self, group: str | None):
        from kafka import KafkaConsumer

        return KafkaConsumer(
            **login.kafka_python(),
            bootstrap_servers=self.bootstrap_servers,
            client_id=self.name,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )

    def read(self, topic: str, count: int, *, partition: int = 0) -> list[Received]:
        from kafka import TopicPartition

        consumer = self._consumer(None)
        consumer.assign([TopicPartition(topic, partition)])
        consumer.seek_to_beginning()
        try:
            return [Received(r.key, r.value, tuple(r.headers)) for r in self._take(consumer, count)]
        finally:
            consumer.close()

    def read_and_commit(self, topic: str, group: str, count: int) -> list[bytes | None]:
        from kafka import OffsetAndMetadata, TopicPartition

        consumer = self._consumer(group)
        consumer.subscribe([topic])
        try:
            records = self._take(consumer, count)
            ends = {TopicPartition(r.topic, r.partition): OffsetAndMetadata(r.offset + 1, "", -1) for r in records}
            consumer.commit(ends)
            return [record.value for record in records]
        finally:
            consumer.close()

    def _take(self, consumer, count: int) -> list:
        taken: list = []
        while len(taken) < count:
            polled = consumer.poll(timeout_ms=TIMEOUT_S * 1000, max_records=count - len(taken))
            assert polled, f"{len(taken)} of {count} records"
            for records in polled.values():
                taken += records
        return taken

    def _transactional(self, name: str):
        from kafka import KafkaProducer

        producer = KafkaProducer(
            **login.kafka_python(), bootstrap_servers=self.bootstrap_servers, client_id=self.name, transactional_id=name
        )
        producer.init_transactions()
        return producer

    def transact(
        self, name: str, topic: str, values: Sequence[str], *, is_commit: bool, position: Position | None = None
    ) -> None:
        from kafka import OffsetAndMetadata, TopicPartition
        from kafka.structs import ConsumerGroupMetadata

        producer = self._transactional(name)
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value=value.encode(), partition=0).get(TIMEOUT_S)
        if position is not None:
            place = {TopicPartition(position.topic, 0): OffsetAndMetadata(position.offset, "", -1)}
            producer.send_offsets_to_transaction(place, ConsumerGroupMetadata(position.group, -1, "", None))
        if is_commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        producer.close()

    def fence(self, name: str, topic: str) -> None:
        from kafka.errors import KafkaError

        first, second = self._transactional(name), self._transactional(name)
        try:
            first.begin_transaction()
            first.send(topic, value=b"old", partition=0).get(TIMEOUT_S)
            first.commit_transaction()
        except KafkaError as error:
            raise ClientError(repr(error)) from error
        finally:
            second.close()
            first.close(timeout=1)

    def administer(self, operation: str, **values: Any) -> Any:
        from kafka import KafkaAdminClient

        admin = KafkaAdminClient(**login.kafka_python(), bootstrap_servers=self.bootstrap_servers, client_id=self.name)
        try:
            return getattr(self, f"_{operation}")(admin, **values)
        finally:
            admin.close()

    def _add_partitions(self, admin: Any, topic: str, total: int) -> None:
        admin.create_partitions({topic: total})

    def _partition_count(self, admin: Any, topic: str) -> int:
        return len(admin.describe_topics([topic])[0]["partitions"])

    def _set_config(self, admin: Any, topic: str, name: str, value: str) -> None:
        from kafka.admin import ConfigResource, ConfigResourceType

        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: ("SET", value)})])

    def _config(self, admin: Any, topic: str, name: str) -> str:
        from kafka.admin import ConfigResource, ConfigResourceType

        asked = ConfigResource(ConfigResourceType.TOPIC, topic, {name: None})
        described = admin.describe_configs([asked], config_filter="all")
        return described["topic"][topic][name]["value"]

    def _delete_records(self, admin: Any, topic: str, partition: int, offset: int) -> int:
        from kafka import TopicPartition

        asked = TopicPartition(topic, partition)
        return admin.delete_records({asked: offset})[asked]["low_watermark"]

    def _groups(self, admin: Any) -> list[str]:
        return [group["group_id"] for group in admin.list_groups()]

    def _delete_group(self, admin: Any, group: str) -> None:
        answers = admin.delete_groups([group])
        assert "NoError" in str(answers) or "OK" in str(answers), answers

    def _offset_at(self, admin: Any, topic: str, partition: int, timestamp: int) -> int:
        from kafka import TopicPartition

        asked = TopicPartition(topic, partition)
        return admin.list_partition_offsets({asked: timestamp})[asked].offset

    def _delete_topic(self, admin: Any, topic: str) -> None:
        admin.delete_topics([topic])
