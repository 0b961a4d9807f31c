"""The databases that keep ids and offsets, for blocking programs. A store has no connection: each consumer and relay
opens its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from moldau.extras import require_extra
from moldau.idempotent.blocking import run
from moldau.idempotent.dialects import POSTGRESQL, SQLITE
from moldau.idempotent.ids import DELETED_AT_ONCE, expire
from moldau.idempotent.migrations import migrate
from moldau.idempotent.sessions import Dialect, Session

SQLITE_SETTINGS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")
"""In WAL mode NORMAL may lose the last commits with the power; the broker would have their offsets."""


class Store:
    """`connect` opens a connection of the driver."""

    def __init__(self, connect: Callable[[], Any], dialect: Dialect) -> None:
        self._connect, self.dialect = connect, dialect

    def session(self) -> Session:
        """A connection of its own."""
        return Session(self._connect, self.dialect)

    def create_tables(self) -> None:
        """Makes the tables, or brings them to the newest version. Call it at each start: it changes nothing twice.
        Raises MigrationError for tables of a newer version."""
        session = self.session()
        try:
            run(migrate(session))
        finally:
            run(session.close())

    def expire_ids(self, consumer: str, older_than: timedelta, at_most: int = DELETED_AT_ONCE) -> int:
        """Deletes so many ids of a consumer that are older; gives their number. A copy of a record that comes later
        than its id expired is handled again."""
        session = self.session()
        try:
            return run(expire(session, consumer, older_than, at_most))
        finally:
            run(session.close())


class PostgresqlStore(Store):
    """PostgreSQL through psycopg 3. `connect`: a connection string, or a function that opens a psycopg.Connection. Keep
    `synchronous_commit` on: the broker has the offsets of what the server lost."""

    def __init__(self, connect: str | Callable[[], Any]) -> None:
        require_extra("PostgresqlStore", "idempotent", ["psycopg"])
        import psycopg

        def open_connection() -> Any:
            connection = psycopg.connect(connect) if isinstance(connect, str) else connect()
            connection.set_autocommit(True)  # the library begins and commits
            return connection

        super().__init__(open_connection, POSTGRESQL)


class SqliteStore(Store):
    """SQLite in WAL mode. `busy_s`: how long a transaction waits for those of other processes."""

    def __init__(self, path: str | Path, busy_s: float = 5.0) -> None:
        def open_connection() -> sqlite3.Connection:
            connection = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
            for setting in SQLITE_SETTINGS:
                connection.execute(setting)
            return connection

        super().__init__(open_connection, SQLITE)
