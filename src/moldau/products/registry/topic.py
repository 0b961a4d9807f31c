"""The registry's topic: every registry reads all of it, and one registry at a time writes.

Every registry applies the committed records to its state. The writer has the topic's transactional id; taking the id
fences the previous writer. The first transaction of a new writer is a record that changes nothing. Once the writer
reads it back, its state has all earlier records. So each transaction is decided on a complete state, and no two
registries give the same id to two schemas. A write is answered after its own record was read back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError
from moldau.products.registry.core.records import NoopKey, Record, encode_record
from moldau.products.registry.core.refusals import store_failed, took_too_long
from moldau.products.registry.core.state import RegistryState
from moldau.transport.librdkafka import librdkafka_settings

T = TypeVar("T")
TIMEOUT_S = 20.0
POLL_S = 0.2
MOST_REPLICAS = 3
ATTEMPTS = 5
"""Attempts of one write while other registries take over the transactional id."""

_FENCED = (
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)
_log = logging.getLogger(__name__)
_unheard = logging.Logger("producer", logging.CRITICAL + 1)
"""Discards librdkafka's log lines. A fenced producer is normal here, requests report all other failures, and `_tell`
reports that no broker answers."""


class TopicError(MoldauError):
    """The topic cannot be used; the message gives the reason."""


DEFAULT_TOPIC = "_schemas"


class SchemasTopic:
    """`look` and `write` are thread-safe."""

    def __init__(self, access: ClusterAccess, topic: str) -> None:
        """Creates the topic if it is missing, and returns when the state includes all of it. Raises TopicError,
        Refusal."""
        self._access = access
        self._client: dict[str, Any] = librdkafka_settings(access.named("moldau-registry"))
        self._topic = topic
        _prepare(AdminClient({**self._client, "logger": _unheard}), topic)
        self._state = RegistryState()
        self._looked_at: RegistryState | None = None
        """A copy of the state, until that changes."""
        self._is_away = False
        self._next_offset = 0
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._producer: Producer | None = None
        self._is_closed = False
        self._reader = threading.Thread(target=self._read, name="registry-topic", daemon=True)
        self._reader.start()
        self.write(lambda _: ([], None))

    def close(self) -> None:
        self._is_closed = True
        self._reader.join(TIMEOUT_S)

    def look(self, ask: Callable[[RegistryState], T]) -> T:
        """The result of `ask` on a snapshot of the state. `ask` may take long, as a compiler does: it blocks no other
        call."""
        with self._changed:
            state = self._looked_at = self._looked_at or self._state.copy()
        return ask(state)

    def write(self, decide: Callable[[RegistryState], tuple[Sequence[Record], T]]) -> T:
        """The answer of `decide`, after its records are committed and part of the state. Calls `decide` again if
        another registry has written meanwhile. Raises the errors of `decide`, and Refusal."""
        with self._writing:
            for _ in range(ATTEMPTS):
                try:
                    producer = self._producer or self._taken()
                    records, answer = self.look(decide)
                    if records:
                        self._wait_for(_commit(producer, self._topic, records))
                    return answer
                except KafkaException as error:
                    self._producer = None
                    reason: KafkaError = error.args[0]
                    if reason.code() not in _FENCED:
                        raise store_failed(reason.str()) from error
            raise took_too_long("other registries write all the time")

    def _taken(self) -> Producer:
        """A producer with the transactional id; the state includes all earlier records."""
        producer = Producer(
            {
                **self._client,
                "transactional.id": f"moldau.registry.{self._topic}",
                "linger.ms": 0,
                "logger": _unheard,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        self._wait_for(_commit(producer, self._topic, [(NoopKey(), None)]))
        self._producer = producer
        return producer

    def _wait_for(self, offset: int) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._next_offset > offset, TIMEOUT_S):
                raise took_too_long("the record was written and not yet read back")

    def _tell(self, error: KafkaError) -> None:
        """Logs once, until the next record, that no broker answers: the consumer itself waits silently."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not self._is_away:
            self._is_away = True
            _log.warning("%s does not answer any more; trying again", self._access)

    def _read(self) -> None:
        consumer = Consumer(
            {
                **self._client,
                "group.id": "moldau-registry",  # the consumer never joins the group and commits nothing
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "logger": _unheard,
                "error_cb": self._tell,
            }
        )
        consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])
        while not self._is_closed:
            message = consumer.poll(POLL_S)
            if message is None:
                continue
            if message.error() is not None:
                _log.warning("the topic %s cannot be read: %s", self._topic, message.error().str())
                continue
            self._is_away = False
            with self._changed:
                if message.key() is not None:
                    self._state.apply(message.key(), message.value())
                    self._looked_at = None
                self._next_offset = message.offset() + 1
                self._changed.notify_all()
        consumer.close()


def _commit(producer: Producer, topic: str, records: Sequence[Record]) -> int:
    """Writes all records in one transaction; returns the offset of the last. Raises KafkaException."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())

    encoded = [encode_record(record) for record in records]
    producer.begin_transaction()
    for key, value in encoded:
        producer.produce(topic, value, key, partition=0, on_delivery=delivered)
    producer.commit_transaction(TIMEOUT_S)
    return max(offsets)


def _prepare(admin: AdminClient, topic: str) -> None:
    """Raises TopicError."""
    try:
        there = admin.list_topics(timeout=TIMEOUT_S)
        if topic not in there.topics:
            replicas = min(MOST_REPLICAS, len(there.brokers))
            new = NewTopic(topic, 1, replicas, config={"cleanup.policy": "compact"})
            _made(admin, new)
            return
        partitions = len(there.topics[topic].partitions)
        if partitions != 1:
            raise TopicError(f"the topic {topic} has {partitions} partitions: schemas need one, for its order")
        resource = ConfigResource(ResourceType.TOPIC, topic)
        policy = admin.describe_configs([resource])[resource].result(TIMEOUT_S)["cleanup.policy"].value
        if policy != "compact":
            raise TopicError(f"the topic {topic} has cleanup.policy={policy}, which loses schemas: set it to compact")
    except KafkaException as error:
        raise TopicError(f"the topic {topic} cannot be used: {error.args[0].str()}") from error


def _made(admin: AdminClient, new: NewTopic) -> None:
    """Tolerates another registry that creates the topic at the same time. Raises KafkaException."""
    try:
        admin.create_topics([new])[new.topic].result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
