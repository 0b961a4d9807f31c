"""Exactly once into a database, without ids: the offsets and what the records change are one transaction.

After a kill the consumer begins at the offsets that the database has, not at those of the group."""

import sqlite3

from shared import BATCH, group_member, options, take_time

from moldau.idempotent import IdempotentConsumer, Record, SqliteStore

store = SqliteStore(options.database)
store.create_tables()
with sqlite3.connect(options.database) as database:
    database.execute("create table if not exists effects (number integer)")


def work(connection: sqlite3.Connection, record: Record) -> None:
    connection.execute("insert into effects values (?)", (int(record.value or b""),))
    take_time()


client = group_member()
consumer = IdempotentConsumer(client, store, [options.topic], name="effects", offsets="database", max_records=BATCH)
while count := consumer.poll(work, options.idle):
    print(count, flush=True)
consumer.close()
client.close()
