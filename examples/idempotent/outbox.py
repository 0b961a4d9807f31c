"""An outbox pair: orders and their events are one transaction, a relay sends the events, a consumer counts them."""

import sqlite3

from confluent_kafka import Consumer

from moldau.idempotent import IdempotentConsumer, Outbox, OutboxRelay, Record, SqliteStore

store, address = SqliteStore("orders.db"), {"bootstrap.servers": "127.0.0.1:9092"}
store.create_tables()
outbox = Outbox(store, "order-events")
orders = sqlite3.connect("orders.db", isolation_level=None)
orders.execute("CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY)")
orders.execute("CREATE TABLE IF NOT EXISTS seen (event TEXT)")

for number in range(1, 4):
    orders.execute("BEGIN IMMEDIATE")
    orders.execute("INSERT INTO orders VALUES (?)", (number,))
    outbox.add(orders, f"order {number} is placed".encode(), key=b"shop")
    orders.execute("ROLLBACK" if number == 2 else "COMMIT")  # the event of order 2 does not leave

relay = OutboxRelay(store, "order-events", address)  # a process of its own has `relay.run()` here
sent = 0
while sent < 2:
    sent += relay.poll()
relay.close()


def count(connection: sqlite3.Connection, record: Record) -> None:
    connection.execute("INSERT INTO seen VALUES (?)", (record.value.decode(),))


client = Consumer({**address, "group.id": "seen", "auto.offset.reset": "earliest", "enable.auto.commit": False})
consumer = IdempotentConsumer(client, store, ["order-events"], name="seen")
while orders.execute("SELECT count(*) FROM seen").fetchone() != (2,):
    consumer.poll(count)
client.close()
for (event,) in orders.execute("SELECT event FROM seen"):
    print(event)
