"""What a reader of committed records finds in a topic once all is done."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition


def read_committed(bootstrap_servers: str, topic: str, partitions: int) -> Iterator[Message]:
    """Every committed record of the topic, in the order of offsets within a partition."""
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
    while left:
        messages = consumer.consume(10_000, timeout=30)
        assert messages, f"{topic} cannot be read to its end"
        for message in messages:
            if message.error() is None:
                yield message
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                left.discard(message.partition())
    consumer.close()
