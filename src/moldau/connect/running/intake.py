"""Reads the records of a sink's partitions, in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import compress
from typing import Any, Final

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, TopicPartition

from moldau.connect.running.incoming import Decoder, Incoming, Shape, positions_of
from moldau.connect.running.notes import Ranges
from moldau.connect.running.partitions import Partition, chosen_topics, is_of_slot
from moldau.connect.running.protocol import Task
from moldau.connect.running.transactions import StoppedError

LOOK_FOR_PARTITIONS_S: Final = 30.0
REQUEST_S: Final = 30.0
AT_ONCE: Final = 1_000
"""Messages that are taken from the client at once, at most."""
GATHER_S: Final = 0.02
"""A batch waits this long for more records."""


class Intake:
    def __init__(self, task: Task, settings: Mapping[str, Any], decoder: Decoder, rows: int, size: int) -> None:
        self._task = task
        self._consumer = Consumer(settings)
        self._decoder = decoder
        self._rows, self._size = rows, size
        self._next: dict[Partition, int] = {}
        """The offset after the last batch, by partition."""
        self._read: dict[Partition, int] = {}
        """The offset that the client gives next, where it is known. It may be after a marker of a transaction."""
        self._carried = Incoming()
        self._looked_s = -LOOK_FOR_PARTITIONS_S
        self._mean = 1_000

    def group_metadata(self) -> object:
        return self._consumer.consumer_group_metadata()

    def committed(self, partitions: list[Partition]) -> dict[Partition, int]:
        """The committed offsets of the group; partitions without one are left out."""
        return committed_offsets(self._consumer, partitions)

    def look_for_partitions(self) -> None:
        """Takes up partitions of the slot that are new, now and then."""
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_FOR_PARTITIONS_S:
            return
        self._looked_s = now_s
        topics = self._consumer.list_topics(timeout=REQUEST_S).topics
        task = self._task
        wanted = [
            (topic, index)
            for topic in chosen_topics(task.config, topics)
            for index in topics[topic].partitions
            if is_of_slot(topic, index, task.slot, task.slots)
        ]
        added = [one for one in wanted if one not in self._next]
        gone = [one for one in self._next if one not in wanted]
        if not added and not gone:
            return
        committed = self.committed(added)
        for one in gone:
            del self._next[one]
        self._next |= {one: committed.get(one, OFFSET_INVALID) for one in added}
        self._assign(self._next)

    def next_batch(self, wait_s: float) -> Incoming:
        """Records of one shape, by partition, at most `rows` and about `size` bytes. Empty: nothing came."""
        batch = Incoming()
        shape, size = Shape(), 0
        carried, self._carried = self._carried, Incoming()
        found = carried if len(carried) else self._take(wait_s, self._rows)
        while len(found):
            rows = 0
            for one_size, one_shape in zip(found.sizes, found.shapes, strict=True):
                joined = shape if one_shape is shape else shape.joined(one_shape)
                is_first = not rows and not len(batch)
                if joined is None or len(batch) + rows >= self._rows or (not is_first and size + one_size > self._size):
                    fitting, self._carried = found.cut(rows)
                    batch.add(fitting)
                    return batch.ordered()
                shape, size, rows = joined, size + one_size, rows + 1
            batch.add(found)
            most = min(self._rows - len(batch), (self._size - size) // self._mean)
            found = self._take(GATHER_S, most) if most > 0 else Incoming()
        return batch.ordered()

    def read_again(self, ranges: Ranges, is_stopping: Callable[[], bool]) -> Incoming:
        """The records of a batch that was noted before, in the same order. Those that are deleted since are missing."""
        self._assign({one: start for one, (start, _) in ranges.items()})
        left = {one: end for one, (_, end) in ranges.items()}
        messages: list[Message] = []
        while left:
            if is_stopping():
                raise StoppedError("stopped while a batch was read again")
            for message in self._consumer.consume(AT_ONCE, GATHER_S):
                place, offset = (message.topic(), message.partition()), message.offset()
                is_end = _is_end(message)
                if place in left and not is_end and offset < left[place]:
                    messages.append(message)
                if place in left and offset >= left[place] - (not is_end):
                    del left[place]
        self.done(ranges)
        self._assign(self._next)
        return self._decoder.decode(messages).ordered()

    def close(self) -> None:
        self._consumer.close()

    def lag(self) -> int | None:
        """Records after the last batch. None: the end of a partition is not known yet."""
        if len(self._read) < len(self._next):
            return None
        unread = 0
        for (topic, index), offset in self._read.items():
            _, end = self._consumer.get_watermark_offsets(TopicPartition(topic, index), cached=True)
            unread += max(end - offset, 0)
        return unread + len(self._carried)

    def done(self, ranges: Ranges) -> None:
        self._next |= {one: end for one, (_, end) in ranges.items()}

    def _take(self, wait_s: float, most: int) -> Incoming:
        count = max(1, min(most, AT_ONCE, self._size // self._mean))
        first = self._consumer.poll(wait_s)
        if first is None:
            return Incoming()
        messages = [first, *(self._consumer.consume(count - 1, 0) if count > 1 else ())]
        if any(one.error() is not None for one in messages):
            ends = [_is_end(one) for one in messages]
            for one in compress(messages, ends):
                self._read[one.topic(), one.partition()] = one.offset()
            messages = [one for one, is_end in zip(messages, ends, strict=True) if not is_end]
        found = self._decoder.decode(messages)
        for place, (_, end) in positions_of(found).items():
            self._read[place] = max(end, self._read.get(place, 0))
        if messages:
            self._mean = max(1, sum(found.sizes) // len(messages))
        return found

    def _assign(self, places: Mapping[Partition, int]) -> None:
        """Reads from these offsets on. Records that were carried over are read again."""
        self._carried = Incoming()
        self._read = {}
        self._consumer.assign([TopicPartition(*one, offset) for one, offset in places.items()])


def committed_offsets(consumer: Consumer, partitions: list[Partition]) -> dict[Partition, int]:
    """Of the consumer's group; partitions without one are left out."""
    asked = [TopicPartition(*one) for one in partitions]
    found = consumer.committed(asked, REQUEST_S) if asked else []
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}


def _is_end(message: Message) -> bool:
    """Raises KafkaException for a message that is an error."""
    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    raise KafkaException(error)
