"""kafka-python, which is pure Python as pika, redis-py and nats-py are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from benchmarks.compare.clients import IDLE_S, confluent
from benchmarks.compare.values import Acknowledged

DEADLINE_S = 60


class Kafka(confluent.Kafka):
    """Topics are made as by the other client."""

    def __init__(self, address: str, *, is_flushed: bool) -> None:
        super().__init__(address, is_flushed=is_flushed)
        self._address = address

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        producer = KafkaProducer(bootstrap_servers=self._address, acks="all", linger_ms=0)
        outstanding: deque[Any] = deque()
        done = 0

        def mark_done() -> None:
            nonlocal done
            acknowledged.mark(done, done + 1)
            done += 1

        for value in values:
            while outstanding and (len(outstanding) >= window or outstanding[0].is_done):
                outstanding.popleft().get(timeout=DEADLINE_S)
                mark_done()
            if value is not None:
                outstanding.append(producer.send(name, value))
            elif outstanding:
                outstanding.popleft().get(timeout=DEADLINE_S)
                mark_done()
        while outstanding:
            outstanding.popleft().get(timeout=DEADLINE_S)
            mark_done()
        producer.close(timeout=DEADLINE_S)

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        consumer = KafkaConsumer(bootstrap_servers=self._address, group_id=reader, fetch_max_wait_ms=100)
        partition = TopicPartition(name, 0)
        try:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            while True:
                found = consumer.poll(timeout_ms=int(1000 * IDLE_S), max_records=window)
                yield [record.value for records in found.values() for record in records]
        finally:
            consumer.close()


def connect(address: str, durability: str) -> Kafka:
    return Kafka(address, is_flushed=durability == "disk")
