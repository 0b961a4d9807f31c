"""A compacted topic of several partitions that a worker reads from its begin to its end, and goes on reading.

Several workers and tasks write it. The topics of offsets and of statuses are such.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import MOST_REPLICAS, POLL_S, TIMEOUT_S, UNHEARD, TopicError
from moldau.products.connect.core.configs import Record
from moldau.transport.librdkafka import librdkafka_settings

LAST_WORDS_S = 3.0
"""For the last records, when a worker ends."""

_log = logging.getLogger(__name__)


class FollowedTopic:
    """Reads the topic in a thread, from the constructor's return to `close`. Thread-safe."""

    def __init__(
        self,
        access: ClusterAccess,
        topic: str,
        apply: Callable[[bytes, bytes | None], None],
        *,
        partitions: int,
        replicas: int | None = None,
    ) -> None:
        """Creates the topic with `partitions` if it is missing, and returns when all of it was applied. `apply`: takes
        each committed record, in the reading thread, which holds `changed`. Raises TopicError."""
        self.topic = topic
        self.changed = threading.Condition()
        self.client: dict[str, Any] = {**librdkafka_settings(access), "logger": UNHEARD}
        self._admin = AdminClient(self.client)
        self._apply = apply
        self._ends = dict.fromkeys(range(prepare_topic(self._admin, topic, partitions, replicas)), -1)
        """The place up to which each partition was read; markers of transactions count."""
        self._is_closed = False
        # that of Java's producers: a record replaces that of another worker or task only in the same partition
        partitioner = {"partitioner": "murmur2_random"}
        self._producer = Producer({**self.client, **partitioner, "enable.idempotence": True, "linger.ms": 0})
        self._reader = threading.Thread(target=self._read, name=f"reader of {topic}", daemon=True)
        self._reader.start()
        if not self.catch_up():
            self.close()
            raise TopicError(f"the topic {topic} could not be read within {TIMEOUT_S:.0f} s")

    @property
    def cluster_id(self) -> str:
        """Raises TopicError."""
        try:
            return str(self._admin.list_topics(self.topic, timeout=TIMEOUT_S).cluster_id)
        except KafkaException as error:
            raise TopicError(f"the cluster does not answer: {error.args[0].str()}") from error

    @property
    def partitions(self) -> int:
        return len(self._ends)

    def close(self) -> None:
        """May be called twice. A cluster that is away holds it up for LAST_WORDS_S."""
        if not self._is_closed:
            self._is_closed = True
            self._reader.join(TIMEOUT_S)
            self._producer.flush(LAST_WORDS_S)

    def catch_up(self) -> bool:
        """Waits until everything that was committed before this call is applied; False after TIMEOUT_S."""
        try:
            ends = self._committed_ends()
        except KafkaException as error:
            _log.warning("the topic %s cannot be read: %s", self.topic, error.args[0].str())
            return False
        with self.changed:
            return self.changed.wait_for(
                lambda: all(self._ends[partition] >= end for partition, end in ends.items()), TIMEOUT_S
            )

    def has_read(self, offset: int) -> bool:
        """Waits until the record at `offset` of a topic with one partition is applied; False after TIMEOUT_S."""
        with self.changed:
            return self.changed.wait_for(lambda: self._ends[0] > offset, TIMEOUT_S)

    def send(self, records: Sequence[Record]) -> None:
        """Writes the records in the background, in their order."""
        for key, value in records:
            self._producer.produce(self.topic, value, key)
        self._producer.poll(0)

    def write(self, records: Sequence[Record]) -> None:
        """Returns when the records are in the topic. Raises TopicError."""
        failures: list[str] = []

        def delivered(error: KafkaError | None, _: Any) -> None:
            if error is not None:
                failures.append(error.str())

        for key, value in records:
            self._producer.produce(self.topic, value, key, on_delivery=delivered)
        if self._producer.flush(TIMEOUT_S) or failures:
            raise TopicError(f"the topic {self.topic} cannot be written: {(failures or ['it took too long'])[0]}")

    def _committed_ends(self) -> dict[int, int]:
        """Raises KafkaException."""
        places = {TopicPartition(self.topic, partition): OffsetSpec.latest() for partition in self._ends}
        found = self._admin.list_offsets(
            places, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT_S
        )
        return {place.partition: future.result(TIMEOUT_S).offset for place, future in found.items()}

    def _read(self) -> None:
        consumer = Consumer(
            {
                **self.client,
                "group.id": self.topic,  # the consumer never joins the group and commits nothing
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TopicPartition(self.topic, partition, OFFSET_BEGINNING) for partition in self._ends])
        while not self._is_closed:
            message = consumer.poll(POLL_S)
            if message is not None:
                self._take(message)
        consumer.close()

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            _log.warning("the topic %s cannot be read: %s", self.topic, error.str())
            return
        with self.changed:
            if error is None and message.key() is not None:
                self._apply(message.key(), message.value())
            # the end of a partition is told with the place after the markers of its transactions
            self._ends[message.partition()] = message.offset() + (error is None)
            self.changed.notify_all()


def prepare_topic(admin: AdminClient, topic: str, partitions: int, replicas: int | None = None) -> int:
    """Creates a compacted topic if it is missing; returns the number of its partitions. Raises TopicError."""
    try:
        there = admin.list_topics(timeout=TIMEOUT_S)
        if topic in there.topics:
            return len(there.topics[topic].partitions)
        factor = min(MOST_REPLICAS, len(there.brokers)) if replicas is None else replicas
        new = NewTopic(topic, partitions, factor, config={"cleanup.policy": "compact"})
        admin.create_topics([new])[topic].result(TIMEOUT_S)
        return partitions
    except KafkaException as error:
        if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
            return len(admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions)
        raise TopicError(f"the topic {topic} cannot be used: {error.args[0].str()}") from error
