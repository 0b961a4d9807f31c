"""The committed records of a topic at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

PATIENCE_S = 60.0


def read_committed(bootstrap_servers: str, topic: str, partitions: int) -> Iterator[Message]:
    """Every committed record of the topic, in offset order within a partition, up to an open transaction."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    left = set(range(partitions))
    end_s = time.monotonic() + PATIENCE_S
    while left:
        # it waits for that many, or for the whole time
        messages = consumer.consume(10_000, timeout=0.5)
        if messages:
            end_s = time.monotonic() + PATIENCE_S
        assert time.monotonic() < end_s, f"{topic} cannot be read to its end"
        for message in messages:
            if message.error() is None:
                yield message
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
    consumer.close()
