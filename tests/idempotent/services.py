"""A service of each client and database, which writes one row for each record that it handles."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from moldau import idempotent
from moldau.idempotent import Record
from moldau.idempotent import asyncio as idempotent_asyncio

CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")
GROUP = "billing"
EFFECTS = "CREATE TABLE IF NOT EXISTS effects (id TEXT NOT NULL, place TEXT NOT NULL)"


class Database:
    """PostgreSQL (a connection string) or SQLite (a path), with the table `effects`."""

    def __init__(self, where: str | Path) -> None:
        self.where = where
        self.is_postgresql = isinstance(where, str)
        store = self.store()
        store.create_tables()
        self.ask(EFFECTS)

    def store(self) -> idempotent.PostgresqlStore | idempotent.SqliteStore:
        return idempotent.PostgresqlStore(self.where) if self.is_postgresql else idempotent.SqliteStore(self.where)

    def async_store(self) -> Any:
        kinds = idempotent_asyncio
        return kinds.PostgresqlStore(self.where) if self.is_postgresql else kinds.SqliteStore(self.where)

    def connect(self) -> Any:
        if self.is_postgresql:
            return psycopg.connect(str(self.where), autocommit=True)
        return sqlite3.connect(self.where, isolation_level=None, timeout=30)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        connection = self.connect()
        try:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()

    def effects(self) -> list[str]:
        """The ids of handled records, in the order of their rows."""
        order = "ctid" if self.is_postgresql else "rowid"
        return [id for (id,) in self.ask(f"SELECT id FROM effects ORDER BY {order}")]

    @property
    def insert(self) -> str:
        return "INSERT INTO effects VALUES (%s, %s)" if self.is_postgresql else "INSERT INTO effects VALUES (?, ?)"


class Service:
    """One consumer with its client. `settings`: of IdempotentConsumer, and `group`. `before` is called for each record
    in the transaction, before its row is written."""

    def __init__(self, client: str, bootstrap_servers: str, database: Database, topics: list[str], **settings: Any):
        self.client, self.address, self.database = client, bootstrap_servers, database
        self.group = settings.pop("group", GROUP)
        self.has_left = False
        self.before: Callable[[Any, Record], None] = lambda connection, record: None
        self.runner = asyncio.Runner() if client == "aiokafka" else None
        settings = {"name": GROUP, **settings}
        self.retry = settings.get("retry")
        if self.runner:
            self.runner.run(self._open_async(topics, settings))
        else:
            self.kafka = self._confluent() if client == "confluent-kafka" else self._kafka_python()
            self.consumer: Any = idempotent.IdempotentConsumer(self.kafka, database.store(), topics, **settings)

    def _confluent(self) -> Any:
        from confluent_kafka import Consumer

        wanted = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "session.timeout.ms": 6000}
        return Consumer({"bootstrap.servers": self.address, "group.id": self.group, **wanted})

    def _kafka_python(self) -> Any:
        from kafka import KafkaConsumer

        return KafkaConsumer(
            bootstrap_servers=self.address,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
            metadata_max_age_ms=1000,  # it may join before it knows the topic, and get no partition until then
        )

    async def _open_async(self, topics: list[str], settings: dict[str, Any]) -> None:
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        self.kafka = AIOKafkaConsumer(
            bootstrap_servers=self.address,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        )
        self.producer: Any = None
        if callable(settings.get("retry")):
            self.producer = AIOKafkaProducer(bootstrap_servers=self.address)
            await self.producer.start()
            settings["retry"] = settings["retry"](self.producer)
        kinds = idempotent_asyncio
        self.consumer = kinds.IdempotentConsumer(self.kafka, self.database.async_store(), topics, **settings)
        await self.kafka.start()

    def handle(self, connection: Any, record: Record) -> None:
        self.before(connection, record)
        connection.execute(self.database.insert, self._row(record))

    async def handle_async(self, connection: Any, record: Record) -> None:
        self.before(connection, record)
        await connection.execute(self.database.insert, self._row(record))

    def _row(self, record: Record) -> tuple[str, str]:
        return (record.value or b"").decode(), record.position.decode()

    def poll(self, timeout_s: float = 0.2) -> int:
        if self.runner:
            return self.runner.run(self.consumer.poll(self.handle_async, timeout_s))
        return self.consumer.poll(self.handle, timeout_s)

    def poll_until(self, condition: Callable[[], bool], tries: int = 300) -> None:
        """Polls until it holds."""
        for _ in range(tries):
            if condition():
                return
            self.poll()
        raise AssertionError("not reached")

    def leave(self) -> None:
        """Leaves the group, as a service that is stopped."""
        if self.has_left:
            return
        self.has_left = True
        if self.runner:
            self.runner.run(self.consumer.close())
            self.runner.run(self.kafka.stop())
            if self.producer:
                self.runner.run(self.producer.stop())
            self.runner.close()
        else:
            self.consumer.close()
            self.kafka.close()
            if self.client == "kafka-python" and self.retry:
                self.retry.producer.close()
