"""What is new for a group: the records behind its committed offsets."""

import json
from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


def new_events(group: str, *topics: str) -> Iterator[tuple[str, dict]]:
    """Topic and event of each, up to the end that the topics have now; then commits what was read. A program that fails
    before has committed nothing, and reads the same events again."""
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:9092", "group.id": group, "enable.auto.commit": False})
    partitions = [
        TopicPartition(topic, partition)
        for topic in topics
        for partition in consumer.list_topics(topic, timeout=30).topics[topic].partitions
    ]
    ends = {(one.topic, one.partition): consumer.get_watermark_offsets(one, 30)[1] for one in partitions}
    begins = consumer.committed(partitions, timeout=30)
    for one in begins:
        one.offset = max(one.offset, 0) or OFFSET_BEGINNING
    left = sum(ends[one.topic, one.partition] - max(one.offset, 0) for one in begins)
    consumer.assign(begins)
    while left:
        message = consumer.poll(30)
        if message is None or message.error():
            raise SystemExit(f"no records come: {message and message.error()}")
        if message.offset() < ends[message.topic(), message.partition()]:
            left -= 1
            yield message.topic(), json.loads(message.value())
    consumer.commit(
        offsets=[TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()], asynchronous=False
    )
    consumer.close()
