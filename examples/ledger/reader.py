"""Keeps the balances in SQLite, with its offsets in the same transaction: `python reader.py BROKER DATABASE`.

The two entries of a transfer may be in two partitions, and come one after the other. A transfer is booked when both are
there. Thus the sum of all balances is zero whenever anybody looks.
"""

import json
import sqlite3
import sys

from book import ENTRIES, PARTITIONS, client
from confluent_kafka import Consumer, KafkaException, TopicPartition

tables = """
create table if not exists balances (account text primary key, transfers int, cents int);
create table if not exists halves (transfer int primary key, account text, cents int);
create table if not exists offsets (partition int primary key, next int);
"""
database = sqlite3.connect(sys.argv[2], timeout=20)
database.execute("pragma journal_mode = wal")  # others may read at the same time
database.executescript(tables)
begins = dict.fromkeys(range(PARTITIONS), 0) | dict(database.execute("select partition, next from offsets"))
consumer = Consumer(
    client(sys.argv[1])
    | {
        "group.id": "ledger-reader",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
)
consumer.assign([TopicPartition(ENTRIES, partition, begin) for partition, begin in begins.items()])
while True:
    messages = consumer.consume(200, timeout=0.1)
    with database:
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            entry = json.loads(message.value())
            number = entry["transfer"]
            half = database.execute("select account, cents from halves where transfer = ?", [number]).fetchone()
            if half is None:
                row = (number, entry["account"], entry["cents"])
                database.execute("insert into halves values (?, ?, ?)", row)
            else:
                database.execute("delete from halves where transfer = ?", [number])
                for account, cents in (half, (entry["account"], entry["cents"])):
                    database.execute(
                        "insert into balances values (?, 1, ?)"
                        " on conflict do update set transfers = transfers + 1, cents = cents + excluded.cents",
                        [account, cents],
                    )
            next_offset = (message.partition(), message.offset() + 1)
            database.execute("insert or replace into offsets values (?, ?)", next_offset)
