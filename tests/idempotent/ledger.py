"""Payments between accounts: the business of the kill campaign. A program that handles them is killed.

python -m tests.idempotent.ledger --client aiokafka --database URL --address HOST:PORT [--offsets database] [--naive]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import threading
from typing import Any

import psycopg

from moldau.idempotent import IdempotentConsumer, PostgresqlStore, Record, SqliteStore, by_header
from moldau.idempotent import asyncio as idempotent_asyncio

TOPIC, GROUP, ACCOUNTS = "payments", "ledger", 20
SESSION_MS = 3000
START_TRIES, START_PAUSE_S = 60, 0.5
TABLES = (
    "CREATE TABLE accounts (name INTEGER PRIMARY KEY, balance BIGINT NOT NULL)",
    "CREATE TABLE ledger (id BIGINT NOT NULL)",  # without a key: a payment that is handled twice is seen
)


def is_postgresql(database: str) -> bool:
    return database.startswith("postgresql:")


def connect(database: str) -> Any:
    """In autocommit mode."""
    if is_postgresql(database):
        return psycopg.connect(database, autocommit=True)
    return sqlite3.connect(database, isolation_level=None, timeout=60)


def store_of(database: str) -> PostgresqlStore | SqliteStore:
    """The blocking store of the library."""
    return PostgresqlStore(database) if is_postgresql(database) else SqliteStore(database)


def payment(number: int) -> bytes:
    """From one account to another, of an amount that its number gives."""
    return json.dumps({"id": number, "from": number % ACCOUNTS, "to": number * 7 % ACCOUNTS, "amount": number}).encode()


def statements(value: bytes | None, database: str) -> list[tuple[str, tuple[int, ...]]]:
    """The business of one payment."""
    one, mark = json.loads(value or b""), "%s" if is_postgresql(database) else "?"
    move = f"UPDATE accounts SET balance = balance + {mark} WHERE name = {mark}"
    # in the order of names, so that two payments do not lock each other out
    moves = sorted([(one["from"], -one["amount"]), (one["to"], one["amount"])])
    return [
        *[(move, (amount, name)) for name, amount in moves],
        (f"INSERT INTO ledger VALUES ({mark})", (one["id"],)),
    ]


class Program:
    """One consumer that runs until it is killed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.database = options, options.database

    def handle(self, connection: Any, record: Record) -> None:
        for statement, parameters in statements(record.value, self.database):
            connection.execute(statement, parameters)

    async def handle_async(self, connection: Any, record: Record) -> None:
        for statement, parameters in statements(record.value, self.database):
            await connection.execute(statement, parameters)

    @property
    def settings(self) -> dict[str, Any]:
        has_ids = self.options.offsets == "group"
        return {
            "name": GROUP,
            "offsets": self.options.offsets,
            "message_id": by_header("id") if has_ids else None,
            "patience_s": 300.0,
        }

    def confluent(self) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {
                "bootstrap.servers": self.options.address,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 500,
            }
        )

    def kafka_python(self) -> Any:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaConnectionError, KafkaTimeoutError

        for attempt in range(START_TRIES):
            try:
                return KafkaConsumer(**self.python_settings(), metadata_max_age_ms=5000)
            except (KafkaConnectionError, KafkaTimeoutError):  # the broker is down while it starts
                if attempt == START_TRIES - 1:
                    raise
                threading.Event().wait(START_PAUSE_S)
        return None

    def python_settings(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.options.address,
            "group_id": GROUP,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "session_timeout_ms": SESSION_MS,
            "heartbeat_interval_ms": 500,
        }

    def run(self) -> None:
        if self.options.client == "aiokafka":
            asyncio.run(self.run_async())
            return
        client = self.confluent() if self.options.client == "confluent-kafka" else self.kafka_python()
        if self.options.naive:
            self.run_naively(client)
            return
        IdempotentConsumer(client, store_of(self.database), [TOPIC], **self.settings).run(self.handle)

    async def run_async(self) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.errors import KafkaConnectionError

        kinds = idempotent_asyncio
        store: Any = kinds.PostgresqlStore if is_postgresql(self.database) else kinds.SqliteStore
        for attempt in range(START_TRIES):
            client = AIOKafkaConsumer(**self.python_settings())
            consumer = kinds.IdempotentConsumer(client, store(self.database), [TOPIC], **self.settings)
            try:
                await client.start()
                break
            except KafkaConnectionError:  # the broker is down while it starts
                await client.stop()
                if attempt == START_TRIES - 1:
                    raise
                await asyncio.to_thread(threading.Event().wait, START_PAUSE_S)
        await consumer.run(self.handle_async)

    def run_naively(self, client: Any) -> None:
        """The same loop without the library: a transaction for each record, offsets committed after."""
        connection = connect(self.database)
        client.subscribe([TOPIC])
        done = 0
        while True:
            for message in client.consume(100, 0.2):
                if message.error() is None:
                    connection.execute("BEGIN")
                    for statement, parameters in statements(message.value(), self.database):
                        connection.execute(statement, parameters)
                    connection.execute("COMMIT")
                    done += 1
                    if done == self.options.dies_after:
                        os.kill(os.getpid(), signal.SIGKILL)
            try:
                client.commit(asynchronous=False)
            except Exception as error:  # nothing to commit, or a rebalance
                print(error, flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.idempotent.ledger")
    parser.add_argument("--client", required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--offsets", default="group")
    parser.add_argument("--naive", action="store_true")
    parser.add_argument("--dies-after", type=int, metavar="N", help="with --naive: killed after so many payments")
    return parser.parse_args()


if __name__ == "__main__":
    Program(parse()).run()
