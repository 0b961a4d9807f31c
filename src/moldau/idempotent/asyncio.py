"""The same names for asyncio: with aiokafka, and psycopg's AsyncConnection or aiosqlite."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from moldau.extras import require_extra
from moldau.idempotent.clients.choosing import consuming, producing
from moldau.idempotent.clients.transactions import AioKafkaSending
from moldau.idempotent.dialects import POSTGRESQL, SQLITE
from moldau.idempotent.handling import Handler, Handling, Settings
from moldau.idempotent.ids import DELETED_AT_ONCE, expire
from moldau.idempotent.migrations import migrate
from moldau.idempotent.outbox import add_row
from moldau.idempotent.records import MessageId, Record, by_header, by_key, by_position
from moldau.idempotent.relaying import Relaying, RelaySettings
from moldau.idempotent.retry import RetryTopic
from moldau.idempotent.sessions import Dialect, Session
from moldau.idempotent.stores import SQLITE_SETTINGS

__all__ = [
    "IdempotentConsumer",
    "Outbox",
    "OutboxRelay",
    "PostgresqlStore",
    "Record",
    "RetryTopic",
    "SqliteStore",
    "by_header",
    "by_key",
    "by_position",
]


class Store:
    """As the blocking one, with coroutines."""

    def __init__(self, connect: Callable[[], Any], dialect: Dialect) -> None:
        self._connect, self.dialect = connect, dialect

    def session(self) -> Session:
        """A connection of its own."""
        return Session(self._connect, self.dialect)

    async def create_tables(self) -> None:
        """Makes the tables, or brings them to the newest version. Raises MigrationError for tables of a newer one."""
        session = self.session()
        try:
            await migrate(session)
        finally:
            await session.close()

    async def expire_ids(self, consumer: str, older_than: timedelta, at_most: int = DELETED_AT_ONCE) -> int:
        """Deletes so many ids of a consumer that are older; gives their number."""
        session = self.session()
        try:
            return await expire(session, consumer, older_than, at_most)
        finally:
            await session.close()


class PostgresqlStore(Store):
    """PostgreSQL through psycopg 3. `connect`: a connection string, or a coroutine function that opens a
    psycopg.AsyncConnection."""

    def __init__(self, connect: str | Callable[[], Any]) -> None:
        require_extra("PostgresqlStore", "idempotent", ["psycopg"])
        import psycopg

        async def open_connection() -> Any:
            made = psycopg.AsyncConnection.connect(connect) if isinstance(connect, str) else connect()
            connection = await made
            await connection.set_autocommit(True)  # the library begins and commits
            return connection

        super().__init__(open_connection, POSTGRESQL)


class SqliteStore(Store):
    """SQLite in WAL mode through aiosqlite, which runs it in a thread."""

    def __init__(self, path: str | Path, busy_s: float = 5.0) -> None:
        require_extra("SqliteStore of asyncio", "idempotent", ["aiosqlite"])
        import aiosqlite

        async def open_connection() -> Any:
            connection = await aiosqlite.connect(path, timeout=busy_s, isolation_level=None)
            for setting in SQLITE_SETTINGS:
                await connection.execute(setting)
            return connection

        super().__init__(open_connection, SQLITE)


class Stoppable:
    """As the blocking one."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Ends `run` after its round."""
        self._stopped.set()

    async def pause(self, seconds: float) -> None:
        """Lets time pass until it is stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)


class IdempotentConsumer(Stoppable):
    """As the blocking one: see there for the arguments. `client`: an AIOKafkaConsumer with
    enable_auto_commit=False, without topics of its own; `handle` is a coroutine function."""

    def __init__(
        self,
        client: Any,
        store: Store,
        topics: Sequence[str],
        *,
        name: str,
        message_id: MessageId | None = None,
        offsets: Literal["group", "database"] = "group",
        retry: RetryTopic | None = None,
        max_records: int = 100,
        patience_s: float = 60.0,
        keep_ids: timedelta | None = None,
    ) -> None:
        super().__init__()
        wanted = (*topics, retry.topic) if retry else tuple(topics)
        settings = Settings(name, wanted, message_id, offsets, retry, max_records, patience_s, keep_ids)
        outlet = producing(retry.producer) if retry else None
        self._session = store.session()
        self._handling = Handling(settings, consuming(client), self._session, outlet, self, is_async=True)

    async def poll(self, handle: Handler, timeout_s: float = 1.0) -> int:
        """Waits for records and handles them; gives their number. Raises as the blocking one."""
        return await self._handling.round(handle, timeout_s)

    async def run(self, handle: Handler) -> None:
        """Polls until `stop`."""
        while not self._stopped.is_set():
            await self.poll(handle)

    async def close(self) -> None:
        """Closes the connection to the database. The client is yours to stop."""
        await self._session.close()


class Outbox:
    """The rows for one topic. A relay sends them."""

    def __init__(self, store: Store, topic: str) -> None:
        self._dialect, self._topic = store.dialect, topic

    async def add(
        self,
        connection: Any,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Writes a row in the transaction that is open on your connection."""
        await add_row(self._dialect, connection, self._topic, (key, value, tuple(headers)))


class OutboxRelay(Stoppable):
    """As the blocking one. `client`: the settings that aiokafka's producer and consumer share, such as
    `{"bootstrap_servers": "127.0.0.1:9092"}`."""

    def __init__(
        self,
        store: Store,
        topic: str,
        client: Mapping[str, Any],
        *,
        batch: int = 500,
        idle_s: float = 0.2,
        lease_s: float = 10.0,
        patience_s: float = 60.0,
    ) -> None:
        super().__init__()
        settings = RelaySettings(topic, batch, idle_s, lease_s, patience_s)
        self._relaying = Relaying(settings, store.session(), AioKafkaSending(client), self)

    async def poll(self) -> int:
        """Sends one batch; gives the number of its rows. Raises OutboxError, and other errors after `patience_s`."""
        return await self._relaying.round()

    async def run(self) -> None:
        """Polls until `stop`. Raises as `poll`."""
        while not self._stopped.is_set():
            await self.poll()

    async def close(self) -> None:
        """Closes the connections to the database and the broker."""
        await self._relaying.drop()
