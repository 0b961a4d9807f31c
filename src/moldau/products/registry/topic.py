"""The registry's topic: every registry reads all of it, and one registry at a time writes.

Every registry applies the committed records to its state. The first transaction of a new writer is a record that
changes nothing. Once the writer reads it back, its state has all earlier records. So each transaction is decided on a
complete state, and no two registries give the same id to two schemas. A write is answered after its own record was read
back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from confluent_kafka import KafkaException

from moldau.client.protocol.access import ClusterAccess
from moldau.products.compacted_topic import CompactedTopic, TopicWriter, is_fenced
from moldau.products.registry.core.records import NoopKey, Record, encode_record
from moldau.products.registry.core.refusals import store_failed, took_too_long
from moldau.products.registry.core.state import RegistryState

T = TypeVar("T")
ATTEMPTS = 5
"""Attempts of one write while other registries take over the transactional id."""

DEFAULT_TOPIC = "_schemas"


class SchemasTopic:
    """`look` and `write` are thread-safe."""

    def __init__(self, access: ClusterAccess, topic: str) -> None:
        """Creates the topic if it is missing, and returns when the state includes all of it. Raises TopicError,
        Refusal."""
        self._state = RegistryState()
        self._looked_at: RegistryState | None = None
        """A copy of the state, until that changes."""
        self._writing = threading.Lock()
        self._writer: TopicWriter | None = None
        self._topic = CompactedTopic(access.named("moldau-registry"), topic, self._apply, holds="schemas")
        self.write(lambda _: ([], None))

    def close(self) -> None:
        self._topic.close()

    def look(self, ask: Callable[[RegistryState], T]) -> T:
        """The result of `ask` on a snapshot of the state. `ask` may take long, as a compiler does: it blocks no other
        call."""
        with self._topic.changed:
            state = self._looked_at = self._looked_at or self._state.copy()
        return ask(state)

    def write(self, decide: Callable[[RegistryState], tuple[Sequence[Record], T]]) -> T:
        """The answer of `decide`, after its records are committed and part of the state. Calls `decide` again if
        another registry has written meanwhile. Raises the errors of `decide`, and Refusal."""
        with self._writing:
            for _ in range(ATTEMPTS):
                try:
                    writer = self._writer or self._taken()
                    records, answer = self.look(decide)
                    if records:
                        self._commit(writer, records)
                    return answer
                except KafkaException as error:
                    self._writer = None
                    if not is_fenced(error):
                        raise store_failed(error.args[0].str()) from error
            raise took_too_long("other registries write all the time")

    def _taken(self) -> TopicWriter:
        """A writer; the state includes all earlier records."""
        writer = TopicWriter(self._topic, f"moldau.registry.{self._topic.topic}")
        self._commit(writer, [(NoopKey(), None)])
        self._writer = writer
        return writer

    def _commit(self, writer: TopicWriter, records: Sequence[Record]) -> None:
        if not self._topic.has_read(writer.commit([encode_record(record) for record in records])):
            raise took_too_long("the record was written and not yet read back")

    def _apply(self, key: bytes, value: bytes | None) -> None:
        self._state.apply(key, value)
        self._looked_at = None
