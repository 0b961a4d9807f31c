"""Takes orders from stock: one transaction for the stock, the order and the id of the record."""

import json
import sqlite3
import sys

from confluent_kafka import Consumer

from moldau.idempotent import IdempotentConsumer, Record, SqliteStore, by_header

store = SqliteStore("shop.db")
store.create_tables()
with sqlite3.connect("shop.db") as shop:
    shop.execute("CREATE TABLE IF NOT EXISTS stock (item TEXT PRIMARY KEY, pieces INTEGER)")
    shop.execute("INSERT OR IGNORE INTO stock VALUES ('coffee', 100), ('tea', 100)")


def take(connection: sqlite3.Connection, record: Record) -> None:
    order = json.loads(record.value)
    connection.execute("UPDATE stock SET pieces = pieces - ? WHERE item = ?", (order["pieces"], order["item"]))


client = Consumer(
    {
        "bootstrap.servers": "127.0.0.1:9092",
        "group.id": "orders",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer = IdempotentConsumer(client, store, ["orders"], name="orders", message_id=by_header("id"))
records = int(sys.argv[1])  # a service has `consumer.run(take)` here
while records > 0:
    records -= consumer.poll(take)
client.close()
print(*shop.execute("SELECT item, pieces FROM stock ORDER BY item"))
