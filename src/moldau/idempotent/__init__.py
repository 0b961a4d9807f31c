"""Handles each Kafka record once, with the database of your service; works with any cluster and your own client.

    from moldau.idempotent import IdempotentConsumer, PostgresqlStore, by_header

    store = PostgresqlStore("postgresql:///shop")
    store.create_tables()
    consumer = IdempotentConsumer(client, store, ["orders"], name="billing", message_id=by_header("id"))
    consumer.run(lambda connection, record: connection.execute("INSERT ...", (record.value,)))

`moldau.idempotent.asyncio` has the same names for asyncio. docs/use/idempotent.md is the guide. Nothing here imports
a client or a driver before a program uses one.

asyncio: the same names for asyncio
blocking: runs coroutines without an event loop; how a program waits and stops
clients/: the Kafka clients
consumer: `IdempotentConsumer`
dialects: PostgreSQL and SQLite
errors: what is raised
handling: rounds of a consumer
ids: ids and offsets in the database
migrations: the tables
outbox: `Outbox`, and the rows of a relay
records: `Record` and message ids
relay: `OutboxRelay`
relaying: rounds of a relay
retry: `RetryTopic`
sessions: connections and transactions
stores: `PostgresqlStore` and `SqliteStore`
"""

from __future__ import annotations

from moldau.idempotent.consumer import IdempotentConsumer
from moldau.idempotent.errors import (
    BrokenTransactionError,
    DeliveryError,
    IdempotentError,
    MigrationError,
    MissingIdError,
    OffsetAheadError,
    OutboxError,
    PoisonRecordError,
)
from moldau.idempotent.outbox import Outbox
from moldau.idempotent.records import Record, by_header, by_key, by_position
from moldau.idempotent.relay import OutboxRelay
from moldau.idempotent.retry import RetryTopic
from moldau.idempotent.stores import PostgresqlStore, SqliteStore

__all__ = [
    "BrokenTransactionError",
    "DeliveryError",
    "IdempotentConsumer",
    "IdempotentError",
    "MigrationError",
    "MissingIdError",
    "OffsetAheadError",
    "Outbox",
    "OutboxError",
    "OutboxRelay",
    "PoisonRecordError",
    "PostgresqlStore",
    "Record",
    "RetryTopic",
    "SqliteStore",
    "by_header",
    "by_key",
    "by_position",
]
