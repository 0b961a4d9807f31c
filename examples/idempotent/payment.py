"""Charges cards through an API. The id of the record is the idempotency key, so a second try charges nothing."""

import json
import sqlite3
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

from confluent_kafka import Consumer, Producer

from moldau.idempotent import IdempotentConsumer, Record, RetryTopic, SqliteStore, by_header

charged: dict[str, int] = {}
requests = 0


class Bank(BaseHTTPRequestHandler):
    """The other side. It loses its first answer."""

    def do_POST(self) -> None:
        global requests
        requests += 1
        amount = int(self.rfile.read(int(self.headers["Content-Length"])))
        charged.setdefault(self.headers["Idempotency-Key"], amount)
        self.send_response(503 if requests == 1 else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


bank = HTTPServer(("127.0.0.1", 0), Bank)
threading.Thread(target=bank.serve_forever, daemon=True).start()


def pay(connection: sqlite3.Connection, record: Record) -> None:
    payment, id = json.loads(record.value), record.header("id").decode()
    url, body = f"http://127.0.0.1:{bank.server_port}", str(payment["amount"]).encode()
    urllib.request.urlopen(urllib.request.Request(url, body, {"Idempotency-Key": id}), timeout=10)
    connection.execute("INSERT INTO paid VALUES (?, ?)", (id, payment["amount"]))


store = SqliteStore("shop.db")
store.create_tables()
with sqlite3.connect("shop.db") as shop:
    shop.execute("CREATE TABLE IF NOT EXISTS paid (id TEXT, amount INTEGER)")
address = {"bootstrap.servers": "127.0.0.1:9092"}
client = Consumer({**address, "group.id": "payments", "auto.offset.reset": "earliest", "enable.auto.commit": False})
retry = RetryTopic(Producer(address), "payments.retry", "payments.dead-letters", delay_s=1, attempts=3)
consumer = IdempotentConsumer(
    client, store, ["payments"], name="payments", message_id=by_header("id"), retry=retry, max_records=1
)
while shop.execute("SELECT count(*) FROM paid").fetchone() != (2,):
    consumer.poll(pay)
client.close()
print(f"the bank was asked {requests} times and charged {sum(charged.values())}")
