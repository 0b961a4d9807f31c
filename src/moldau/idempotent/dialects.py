"""PostgreSQL through psycopg, SQLite through Python's sqlite3 or aiosqlite."""

from __future__ import annotations

import sqlite3
import sys
from typing import Any

from moldau.idempotent.sessions import Dialect, State

_TRANSIENT_STATES = {"25006", "25P03"}  # read only after a failover; a session that the server ended
_TRANSIENT_CODES = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


def _postgresql_state(connection: Any) -> State:
    if connection.closed or connection.broken:
        return "lost"
    states: dict[str, State] = {"INTRANS": "open", "INERROR": "failed", "IDLE": "ended"}
    return states.get(connection.info.transaction_status.name, "lost")


def _is_transient_in_postgresql(error: BaseException) -> bool:
    """Lost connections, deadlocks, serialization failures, time-outs, a server that stops or has no room."""
    psycopg = sys.modules["psycopg"]
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return True
    return isinstance(error, psycopg.Error) and error.sqlstate in _TRANSIENT_STATES


def _sqlite_state(connection: Any) -> State:
    return "open" if connection.in_transaction else "ended"


def _is_transient_in_sqlite(error: BaseException) -> bool:
    """A lock that was not free in time, and a disk that is full or fails; not a wrong statement."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.OperationalError) and code is not None and code & 0xFF in _TRANSIENT_CODES


POSTGRESQL = Dialect(
    name="postgresql",
    begin="BEGIN",
    placeholder="%s",
    words={
        "bytes": "BYTEA",
        "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "now_ms": "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        "for_update": "FOR UPDATE",
        "skip_locked": "FOR UPDATE SKIP LOCKED",
    },
    state=_postgresql_state,
    is_transient=_is_transient_in_postgresql,
    lock_migrations="SELECT pg_advisory_xact_lock(7021783041)",
)
SQLITE = Dialect(
    name="sqlite",
    begin="BEGIN IMMEDIATE",  # one writer at a time: a later upgrade of a read lock could only fail
    placeholder="?",
    words={
        "bytes": "BLOB",
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "now_ms": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        "for_update": "",
        "skip_locked": "",
    },
    state=_sqlite_state,
    is_transient=_is_transient_in_sqlite,
    lock_migrations=None,
)
