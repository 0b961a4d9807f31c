"""The places of a connector in the topic of offsets."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Count:
    """The number of slots whose places are kept. `earlier`: the number before, whose batches are not ended yet."""

    slots: int
    earlier: int | None = None

    def to_json(self) -> bytes:
        return to_json({"slots": self.slots} | ({} if self.earlier is None else {"earlier": self.earlier}))


def place_key(connector: str, slot: int) -> bytes:
    return to_json([connector, {"slot": slot}])


def count_key(connector: str) -> bytes:
    return to_json([connector, {}])


def to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def read_place(task: Task, is_stopping: Callable[[], bool]) -> dict[str, Any] | None:
    """The last committed place of the slot; None if it has none. Raises as `Places.look`."""
    places = Places(task, is_stopping)
    try:
        places.look()
        return places.of_slot(task.slot)
    finally:
        places.close()


class Places:
    """The last committed places of a connector's slots, as of the last `look`."""

    def __init__(self, task: Task, is_stopping: Callable[[], bool]) -> None:
        self._task = task
        self._is_stopping = is_stopping
        self._consumer = offsets_consumer(task)
        self._admin = AdminClient(base_settings(task))
        self._prefix = to_json([task.connector, {}]).removesuffix(b"{}]")
        self._next: dict[int, int] = {}
        """The offset after the last record that was read, by partition."""
        self._found: dict[bytes, bytes | None] = {}

    def look(self) -> None:
        """Reads what was committed since the last look.

        Reads to the end of each partition, past transactions that are open now: the record of an earlier task may be
        after the first record of such a transaction. Raises NoTopicError, KafkaException, StoppedError.
        """
        if not self._next:
            partitions = partitions_of(self._consumer, self._task.offsets_topic)
            self._next = {one.partition: 0 for one in partitions}
            self._consumer.assign([TopicPartition(one.topic, one.partition, OFFSET_BEGINNING) for one in partitions])
        ends = self._ends()
        while any(self._next[index] < end for index, end in ends.items()):
            if self._is_stopping():
                raise StoppedError("stopped while the topic of offsets was read")
            for message in self._consumer.consume(MANY, POLL_S):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                key = None if error is not None else message.key()
                # later records of a key are in the same partition
                if key is not None and key.startswith(self._prefix):
                    self._found[key] = message.value()
                # also without an end: in a partition that is written all the time, the client never sees one
                self._next[message.partition()] = message.offset() + (error is None)

    def of_slot(self, slot: int) -> dict[str, Any] | None:
        return self._value(place_key(self._task.connector, slot))

    @property
    def count(self) -> Count | None:
        """None: no task of the connector has written it."""
        found = self._value(count_key(self._task.connector))
        return None if found is None else Count(found["slots"], found.get("earlier"))

    def close(self) -> None:
        self._consumer.close()

    def _value(self, key: bytes) -> dict[str, Any] | None:
        found = self._found.get(key)
        return None if found is None else json.loads(found)

    def _ends(self) -> dict[int, int]:
        asked = self._admin.list_offsets(
            {TopicPartition(self._task.offsets_topic, index): OffsetSpec.latest() for index in self._next},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=REQUEST_S,
        )
        return {one.partition: found.result(REQUEST_S).offset for one, found in asked.items()}


def partitions_of(consumer: Consumer, topic: str) -> list[TopicPartition]:
    found = consumer.list_topics(topic, timeout=REQUEST_S).topics.get(topic)
    if found is None or found.error is not None or not found.partitions:
        raise NoTopicError(f"the topic {topic} does not exist")
    return [TopicPartition(topic, index) for index in sorted(found.partitions)]
