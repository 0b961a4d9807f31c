"""A table that is the sum of all events (CQRS). The offsets are in the same file, so deleting it starts from the
first event."""

import json
import sqlite3
import sys

from confluent_kafka import Consumer

from moldau.idempotent import IdempotentConsumer, Record, SqliteStore

store = SqliteStore("balances.db")
store.create_tables()
with sqlite3.connect("balances.db") as view:
    view.execute("CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, balance INTEGER)")


def project(connection: sqlite3.Connection, record: Record) -> None:
    connection.execute(
        "INSERT INTO balances VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET balance = balance + excluded.balance",
        (record.key.decode(), json.loads(record.value)["amount"]),
    )


client = Consumer(
    {
        "bootstrap.servers": "127.0.0.1:9092",
        "group.id": f"balances-{sys.argv[2]}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer = IdempotentConsumer(client, store, ["entries"], name="balances", offsets="database")
while view.execute("SELECT sum(next_offset) FROM moldau_offsets").fetchone() != (int(sys.argv[1]),):
    consumer.poll(project)
client.close()
print(*view.execute("SELECT * FROM balances ORDER BY account"))
