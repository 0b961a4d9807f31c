"""Exactly once into a database: the id of each record and what it changes are one transaction.

After a kill records come again, and the ids that the database has already say which ones."""

import sqlite3

from shared import BATCH, group_member, options, take_time

from moldau.idempotent import IdempotentConsumer, Record, SqliteStore, by_position

store = SqliteStore(options.database)
store.create_tables()
with sqlite3.connect(options.database) as database:
    database.execute("create table if not exists effects (number integer)")


def work(connection: sqlite3.Connection, record: Record) -> None:
    connection.execute("insert into effects values (?)", (int(record.value or b""),))
    take_time()


client = group_member()
consumer = IdempotentConsumer(client, store, [options.topic], name="effects", message_id=by_position, max_records=BATCH)
while count := consumer.poll(work, options.idle):
    print(count, flush=True)
consumer.close()
client.close()
