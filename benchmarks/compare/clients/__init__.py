"""One Python client for each system, all with the same three acts.

confluent: confluent-kafka, for Moldau and Apache Kafka
kafka_python: kafka-python, for the same
rabbitmq: pika, for classic and quorum queues
rabbitmq_stream: rstream, for RabbitMQ's streams
redis_streams: redis-py
jetstream: nats-py
sqlite_queue: the sqlite3 module of Python
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from benchmarks.compare.values import Acknowledged

IDLE_S = 0.2
"""How long a reader waits for records before it gives an empty list."""


class Client(Protocol):
    """What a row of the comparison needs from its client library."""

    def create(self, name: str) -> None:
        """Makes a topic, queue or stream."""

    def delete(self, name: str) -> None:
        """Deletes it with its records."""

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        """Sends the records with at most `window` of them unacknowledged; returns when all are acknowledged."""

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        """Reads from where `reader` stopped, or from the start, and acknowledges what it gave. Never ends; gives an
        empty list if nothing comes for a moment."""
