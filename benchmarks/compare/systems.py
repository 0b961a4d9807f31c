"""The rows of the comparison: a server, a client library, and where a record is when it is acknowledged."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare.clients import Client
from benchmarks.compare.servers import RabbitMQ
from benchmarks.peers import Peer

MOLDAU = "moldau"
CACHED, FLUSHED = "page cache", "disk"
"""Of one node. A record in the page cache survives a killed process, not a power cut."""


@dataclass(frozen=True)
class System:
    """One row. `server` is a name of `servers.makers`, or empty for a file."""

    name: str
    server: str
    client: str
    """The module and function of `clients` that connect."""
    library: str
    durability: str
    is_killed: bool = True
    """Also warmed up. False where another row has the same server and durability."""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.library})"

    def connect(self, address: str) -> Client:
        module, _, function = self.client.partition(":")
        connect = getattr(importlib.import_module(f"benchmarks.compare.clients.{module}"), function or "connect")
        client: Client = connect(address, self.durability)
        return client

    def address_of(self, peer: Peer | None, folder: Path) -> str:
        if peer is None:
            return str(folder / f"{self.durability.replace(' ', '-')}.sqlite")
        port = peer.stream_port if isinstance(peer, RabbitMQ) and self.client == "rabbitmq_stream" else peer.port
        return f"127.0.0.1:{port}"


SYSTEMS = (
    System("Moldau", MOLDAU, "confluent", "confluent-kafka", CACHED),
    System("Apache Kafka", "kafka", "confluent", "confluent-kafka", CACHED),
    System("Moldau", MOLDAU, "kafka_python", "kafka-python", CACHED, is_killed=False),
    System("Apache Kafka", "kafka", "kafka_python", "kafka-python", CACHED, is_killed=False),
    System("RabbitMQ stream", "rabbitmq", "rabbitmq_stream", "rstream", CACHED),
    System("Redis stream, everysec", "redis-everysec", "redis_streams", "redis-py", CACHED),
    System("NATS JetStream, file", "nats", "jetstream", "nats-py", CACHED),
    System("SQLite, WAL, NORMAL", "", "sqlite_queue", "sqlite3", CACHED),
    System("Moldau, flush.messages=1", MOLDAU, "confluent", "confluent-kafka", FLUSHED),
    System("Apache Kafka, flush.messages=1", "kafka", "confluent", "confluent-kafka", FLUSHED),
    System("Moldau, flush.messages=1", MOLDAU, "kafka_python", "kafka-python", FLUSHED, is_killed=False),
    System("Apache Kafka, flush.messages=1", "kafka", "kafka_python", "kafka-python", FLUSHED, is_killed=False),
    System("RabbitMQ classic queue", "rabbitmq", "rabbitmq:connect_classic", "pika", FLUSHED),
    System("RabbitMQ quorum queue", "rabbitmq", "rabbitmq:connect_quorum", "pika", FLUSHED),
    System("Redis stream, always", "redis-always", "redis_streams", "redis-py", FLUSHED),
    System("SQLite, WAL, FULL", "", "sqlite_queue", "sqlite3", FLUSHED),
)
