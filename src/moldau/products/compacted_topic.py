"""A compacted topic of one partition: every instance of a product reads all of it, and one at a time writes.

The writer has the topic's transactional id; taking the id fences the previous writer. Once the first transaction of a
new writer is read back, all earlier records are read (docs/decisions/0046).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.transport.librdkafka import librdkafka_settings

Record = tuple[bytes, bytes | None]
"""Key and value."""

TIMEOUT_S = 20.0
POLL_S = 0.2
MOST_REPLICAS = 3

_FENCED = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)
_log = logging.getLogger(__name__)
UNHEARD = logging.Logger("librdkafka", logging.CRITICAL + 1)
"""Discards librdkafka's log lines. A fenced producer is normal here, requests report all other failures, and
`CompactedTopic` reports that no broker answers."""


class TopicError(MoldauError):
    """The topic cannot be used; the message gives the reason."""


class CompactedTopic:
    """Reads the topic in a thread, from the constructor's return to `close`."""

    def __init__(
        self, access: ClusterAccess, topic: str, apply: Callable[[bytes, bytes | None], None], *, holds: str
    ) -> None:
        """Creates the topic if it is missing. `apply`: takes each committed record, in the reading thread, which holds
        `changed`. `holds`: the word for the records, for errors. Raises TopicError."""
        self._access = access
        self.topic = topic
        self.client: dict[str, Any] = librdkafka_settings(access)
        self.cluster_id = _prepare(AdminClient({**self.client, "logger": UNHEARD}), topic, holds)
        self.changed = threading.Condition()
        self._apply = apply
        self._next_offset = 0
        self._is_away = False
        self._is_closed = False
        self._reader = threading.Thread(target=self._read, name=f"reader of {topic}", daemon=True)
        self._reader.start()

    def close(self) -> None:
        self._is_closed = True
        self._reader.join(TIMEOUT_S)

    def has_read(self, offset: int) -> bool:
        """Waits until the record at `offset` is applied; False after TIMEOUT_S."""
        with self.changed:
            return self.changed.wait_for(lambda: self._next_offset > offset, TIMEOUT_S)

    def _read(self) -> None:
        consumer = Consumer(
            {
                **self.client,
                "group.id": self.topic,  # the consumer never joins the group and commits nothing
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "logger": UNHEARD,
                "error_cb": self._tell,
            }
        )
        consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        while not self._is_closed:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            if message.error() is not None:
                _log.warning("the topic %s cannot be read: %s", self.topic, message.error().str())
                continue
            self._is_away = False
            with self.changed:
                if message.key() is not None:
                    self._apply(message.key(), message.value())
                self._next_offset = message.offset() + 1
                self.changed.notify_all()
        consumer.close()

    def _tell(self, error: KafkaError) -> None:
        """Logs once, until the next record, that no broker answers: the consumer itself waits silently."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._is_away:
            self._is_away = True
            _log.warning("%s does not answer any more; trying again", self._access)


class WritableTopic(Protocol):
    """`client`: the settings of a client of its cluster."""

    topic: str
    client: dict[str, Any]


class TopicWriter:
    """Has the transactional id from the constructor's return, until another writer takes it. Not thread-safe."""

    def __init__(self, topic: WritableTopic, transactional_id: str) -> None:
        """Ends the transaction of the previous writer. Raises KafkaException."""
        self._topic = topic.topic
        settings = {**topic.client, "transactional.id": transactional_id, "linger.ms": 0, "logger": UNHEARD}
        # else a transaction may hang after a broker's death: librdkafka's 5511
        self._producer = Producer({**settings, "metadata.recovery.strategy": "none"})
        self._producer.init_transactions(TIMEOUT_S)

    def commit(self, records: Sequence[Record]) -> int:
        """Writes all records in one transaction; returns the offset of the last. Raises KafkaException: then the
        records may be there or not, and this writer is not used again."""
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                offsets.append(message.offset())

        self._producer.begin_transaction()
        for key, value in records:
            self._producer.produce(self._topic, value, key, partition=0, on_delivery=delivered)
        self._producer.commit_transaction(TIMEOUT_S)
        return max(offsets)


def is_fenced(error: KafkaException) -> bool:
    """Whether another writer has taken the transactional id."""
    return error.args[0].code() in _FENCED


def _prepare(admin: AdminClient, topic: str, holds: str) -> str:
    """The id of the cluster. Raises TopicError."""
    try:
        there = admin.list_topics(timeout=TIMEOUT_S)
        if topic not in there.topics:
            replicas = min(MOST_REPLICAS, len(there.brokers))
            new = NewTopic(topic, 1, replicas, config={"cleanup.policy": "compact"})
            _made(admin, new)
            return str(there.cluster_id)
        partitions = len(there.topics[topic].partitions)
        if partitions != 1:
            raise TopicError(f"the topic {topic} has {partitions} partitions: {holds} need one, for its order")
        resource = ConfigResource(ResourceType.TOPIC, topic)
        policy = admin.describe_configs([resource])[resource].result(TIMEOUT_S)["cleanup.policy"].value
        if policy != "compact":
            raise TopicError(f"the topic {topic} has cleanup.policy={policy}, which loses {holds}: set it to compact")
        return str(there.cluster_id)
    except KafkaException as error:
        raise TopicError(f"the topic {topic} cannot be used: {error.args[0].str()}") from error


def _made(admin: AdminClient, new: NewTopic) -> None:
    """Tolerates another instance that creates the topic at the same time. Raises KafkaException."""
    try:
        admin.create_topics([new])[new.topic].result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
