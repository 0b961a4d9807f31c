"""The read models, tables of SQLite. Each version of one is a table with its own offsets, in the same database:
`python project.py 1` brings version 1 up to the end of the topic. A killed process leaves neither half a row nor a
wrong offset."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from moldau.idempotent import IdempotentConsumer, Record, SqliteStore

SERVERS, TOPIC, PARTITIONS = "127.0.0.1:9092", "seat-events", 3
FILE = Path("out/theatre.db")
TABLES = {
    1: "create table if not exists shows_1 (show text primary key, taken integer)",
    2: "create table if not exists shows_2 (show text primary key, taken integer, peak integer)",
}


def project_1(connection: sqlite3.Connection, record: Record) -> None:
    """Seats that are taken."""
    event = json.loads(record.value)
    connection.execute(
        "insert into shows_1 values (?1, ?2) on conflict do update set taken = taken + ?2",
        (event["show"], 1 if event["event"] == "SeatReserved" else -1),
    )


def project_2(connection: sqlite3.Connection, record: Record) -> None:
    """Also the most seats that were ever taken, which version 1 cannot know any more."""
    event = json.loads(record.value)
    connection.execute(
        "insert into shows_2 values (?1, ?2, ?2) "
        "on conflict do update set taken = taken + ?2, peak = max(peak, taken + ?2)",
        (event["show"], 1 if event["event"] == "SeatReserved" else -1),
    )


PROJECTIONS = {1: project_1, 2: project_2}


@contextmanager
def consumer_of(version: int) -> Iterator[IdempotentConsumer]:
    FILE.parent.mkdir(exist_ok=True)
    store = SqliteStore(FILE)
    store.create_tables()
    connection = sqlite3.connect(FILE, timeout=30)
    connection.execute(TABLES[version])
    connection.close()
    name = f"shows_{version}"
    client = Consumer(
        {
            "bootstrap.servers": SERVERS,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # a new version begins at the first event
        }
    )
    consumer = IdempotentConsumer(client, store, [TOPIC], name=name, offsets="database")
    try:
        yield consumer
    finally:
        consumer.close()
        client.close()


def events_written() -> int:
    reader = Consumer({"bootstrap.servers": SERVERS, "group.id": "ends"})
    ends = [reader.get_watermark_offsets(TopicPartition(TOPIC, number), 30)[1] for number in range(PARTITIONS)]
    reader.close()
    return sum(ends)


def events_projected(connection: sqlite3.Connection, version: int) -> int:
    statement = "select coalesce(sum(next_offset), 0) from moldau_offsets where consumer = ?"
    return connection.execute(statement, (f"shows_{version}",)).fetchone()[0]


if __name__ == "__main__":
    version = int(sys.argv[1])
    with consumer_of(version) as consumer:
        connection = sqlite3.connect(FILE, timeout=30)
        end = events_written()
        while events_projected(connection, version) < end:
            consumer.poll(PROJECTIONS[version])
    connection.execute(f"create view if not exists shows as select * from shows_{version}")
    print(f"{end} events, {connection.execute('select sum(taken) from shows').fetchone()[0]} seats taken")
