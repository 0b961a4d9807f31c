"""The transactions of a source on Spark: the tasks send records, and this process its place, and commits.

The producer id and epoch are taken once, at the start. A later start of the connector, in any process and with any
runner, has a newer epoch, and this one then writes nothing (`moldau.connect.running.transactions`).
"""

from __future__ import annotations

import pyarrow as pa

from moldau.client.blocking.transactions import begin_producer, end_transaction, transaction_max_timeout_ms
from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.transactions import TransactionalProducer
from moldau.columnar.writer import TopicWriter
from moldau.transport.access import open_client


class Producing:
    def __init__(self, access: ClusterAccess, transactional_id: str) -> None:
        self._access = access
        self._id = transactional_id
        self._producer: TransactionalProducer | None = None
        self._is_open = False

    def start(self) -> None:
        """Fences the tasks before this one and ends their transactions. Raises KafkaError."""
        with open_client(self._access) as client:
            timeout_ms = transaction_max_timeout_ms(client, self._id)
            self._producer = begin_producer(client, self._id, timeout_ms)

    def begin(self) -> TransactionalProducer:
        """The producer of the next transaction, for the tasks."""
        self._is_open = True
        return self._current()

    def commit(self, topic: str, key: bytes, value: bytes) -> None:
        """Adds this record, and commits. Raises KafkaError, if another task has taken the place of this one too."""
        record = pa.record_batch([pa.array([key]), pa.array([value])], ["key", "value"])
        with TopicWriter(self._access, topic, had_contact=True, producer=self._current()) as writer:
            writer.write(record)
        with open_client(self._access, had_contact=True) as client:
            self._producer = end_transaction(client, self._current(), committed=True)
        self._is_open = False

    def abort(self) -> None:
        """Ends a transaction whose batch failed or was cut off. A task that still runs is fenced by that. Raises
        KafkaError."""
        if self._is_open:
            self._is_open = False
            with open_client(self._access, had_contact=True) as client:
                self._producer = end_transaction(client, self._current(), committed=False)

    def _current(self) -> TransactionalProducer:
        if self._producer is None:
            raise RuntimeError("not started")
        return self._producer
