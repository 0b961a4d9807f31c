"""The place of a task in the topic of offsets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from moldau.connect.running.clients import base_settings, offsets_consumer
from moldau.connect.running.protocol import Task
from moldau.connect.running.transactions import StoppedError
from moldau.errors import MoldauError

POLL_S: Final = 0.2
REQUEST_S: Final = 30.0
MANY: Final = 500


class NoTopicError(MoldauError):
    """A topic that must exist does not."""


def place_key(connector: str, slot: int) -> bytes:
    return to_json([connector, {"slot": slot}])


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def read_place(task: Task, is_stopping: Callable[[], bool]) -> dict[str, Any] | None:
    """The last committed place of the slot; None if it has none.

    Reads to the end of each partition, past transactions that are open now: the record of an earlier task of this slot
    may be after the first record of such a transaction. Raises NoTopicError, KafkaException, StoppedError.
    """
    consumer = offsets_consumer(task)
    try:
        ends = _ends(task, partitions_of(consumer, task.offsets_topic))
        return _last(consumer, ends, task.offsets_topic, place_key(task.connector, task.slot), is_stopping)
    finally:
        consumer.close()


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    found = consumer.list_topics(topic, timeout=REQUEST_S).topics.get(topic)
    if found is None or found.error is not None or not found.partitions:
        raise NoTopicError(f"the topic {topic} does not exist")
    return [TopicPartition(topic, index) for index in sorted(found.partitions)]


def _ends(task: Task, partitions: list[TopicPartition]) -> dict[int, int]:
    """The end of each partition that is not empty, by index."""
    admin = AdminClient(base_settings(task))
    asked = admin.list_offsets(
        {one: OffsetSpec.latest() for one in partitions},
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=REQUEST_S,
    )
    ends = {one.partition: found.result(REQUEST_S).offset for one, found in asked.items()}
    return {index: end for index, end in ends.items() if end > 0}


def _last(
    consumer: Consumer, ends: dict[int, int], topic: str, key: bytes, is_stopping: Callable[[], bool]
) -> dict[str, Any] | None:
    """The last value of the key. Later records of a key are in the same partition."""
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in ends])
    found: bytes | None = None
    while ends:
        if is_stopping():
            raise StoppedError("stopped while the topic of offsets was read")
        for message in consumer.consume(MANY, POLL_S):
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if error is None and message.key() == key:
                found = message.value()
            # also without an end: in a partition that is written all the time, the client never sees one
            if message.offset() + (error is None) >= ends.get(message.partition(), 0):
                ends.pop(message.partition(), None)
    return None if found is None else json.loads(found)
