"""confluent-kafka, a C library: a rate shows the library as much as the broker."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.compare.clients import IDLE_S
from benchmarks.compare.values import Acknowledged
from benchmarks.peers import PeerError

DEADLINE_S = 60


class Kafka:
    """One partition; with `is_flushed` the broker flushes each batch before it answers."""

    def __init__(self, address: str, *, is_flushed: bool) -> None:
        self._settings: dict[str, object] = {"bootstrap.servers": address, "log_level": 0}
        self._config = {"file.delete.delay.ms": "1000"} | ({"flush.messages": "1"} if is_flushed else {})

    def create(self, name: str) -> None:
        admin = AdminClient(self._settings)
        for future in admin.create_topics([NewTopic(name, 1, 1, config=self._config)]).values():
            future.result(timeout=DEADLINE_S)

    def delete(self, name: str) -> None:
        admin = AdminClient(self._settings)
        for future in admin.delete_topics([name]).values():
            future.result(timeout=DEADLINE_S)

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        done = 0

        def delivered(error: object, _: object) -> None:
            nonlocal done
            if error is not None:
                raise PeerError(f"a record was not acknowledged: {error}")
            acknowledged.mark(done, done + 1)  # one partition and idempotence: the answers come in order
            done += 1

        producer = Producer({**self._settings, "acks": "all", "enable.idempotence": True, "linger.ms": 0})
        sent = 0
        for value in values:
            if value is None:
                producer.poll(0.0005)
                continue
            while sent - done >= window:
                producer.poll(0.1)
            producer.produce(name, value, on_delivery=delivered)
            sent += 1
        producer.flush(DEADLINE_S)

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        consumer = Consumer({**self._settings, "group.id": reader, "fetch.wait.max.ms": 100})
        try:
            consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
            while True:
                first = consumer.poll(IDLE_S)  # `consume` waits until its list is full
                messages = [first, *consumer.consume(window - 1, 0)] if first is not None else []
                yield [value for one in messages if not one.error() and (value := one.value()) is not None]
        finally:
            consumer.close()


def connect(address: str, durability: str) -> Kafka:
    return Kafka(address, is_flushed=durability == "disk")
