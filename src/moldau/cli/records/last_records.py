"""The last records of a topic over all its partitions."""

from __future__ import annotations

from collections import deque
from typing import Any

from moldau.cli.cluster import TIMEOUT_S
from moldau.cli.output import CommandError

_MAX_SILENCE_POLLS = 60
_POLL_S = 0.5


def last_records(consumer: Any, topic: str, partitions: list[int], count: int) -> list[Any]:
    """The last `count` records by their timestamps; the records of each partition stay in the order of their
    offsets."""
    tails = {number: _tail(consumer, topic, number, count) for number in partitions}
    found: list[Any] = []
    while len(found) < count:
        latest = max((tail for tail in tails.values() if tail), key=lambda tail: tail[-1].timestamp()[1], default=None)
        if latest is None:
            break
        found.append(latest.pop())
    return found[::-1]


def _tail(consumer: Any, topic: str, partition: int, count: int) -> deque[Any]:
    """The last records of one partition. If compaction left gaps, reads again from further back."""
    from confluent_kafka import TopicPartition

    first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
    distance = count
    while True:
        start = max(first, end - distance)
        found = _read(consumer, TopicPartition(topic, partition, start), end, count)
        if len(found) >= count or start <= first:
            return found
        distance *= 4


def _read(consumer: Any, start: Any, end: int, count: int) -> deque[Any]:
    """The last `count` records from the offset of `start` to `end`, exclusive."""
    from confluent_kafka import KafkaError, KafkaException

    found: deque[Any] = deque(maxlen=count)
    silent = 0
    position = start.offset
    consumer.assign([start])
    while position < end:
        message = consumer.poll(_POLL_S)
        if message is None:
            silent += 1
            if silent >= _MAX_SILENCE_POLLS:
                raise CommandError(f"partition {start.partition} sends no records")
            continue
        silent = 0
        error = message.error()
        if error is None:
            position = message.offset() + 1
            if message.offset() < end:
                found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            position = message.offset()
        else:
            raise KafkaException(error)
    return found
