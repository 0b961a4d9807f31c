"""The sqlite3 module of Python: a table of records, and a table with the position of each reader."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator

from benchmarks.compare.values import Acknowledged

POLL_S = 0.001
"""SQLite tells no reader that a record has come."""
KEEP_S = 1


class Queue:
    """A queue in one file. A commit is an acknowledgement; its records are in the page cache, or with
    `synchronous=FULL` on the disk."""

    def __init__(self, path: str, synchronous: str) -> None:
        self._path = path
        self._synchronous = synchronous

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        connection.execute("pragma journal_mode = wal")
        connection.execute(f"pragma synchronous = {self._synchronous}")
        connection.execute(
            "create table if not exists position (queue text, reader text, id, primary key (queue, reader))"
        )
        return connection

    def create(self, name: str) -> None:
        connection = self._connect()
        connection.execute(f'create table "{name}" (id integer primary key, value blob not null)')
        connection.close()

    def delete(self, name: str) -> None:
        connection = self._connect()
        connection.execute(f'drop table "{name}"')
        connection.close()

    def write(self, name: str, values: Iterator[bytes | None], window: int, acknowledged: Acknowledged) -> None:
        """One transaction for `window` records."""
        connection = self._connect()
        held: list[tuple[bytes]] = []
        done = 0

        def commit() -> None:
            nonlocal done
            connection.execute("begin immediate")
            connection.executemany(f'insert into "{name}" (value) values (?)', held)
            connection.execute("commit")
            acknowledged.mark(done, done + len(held))
            done += len(held)
            held.clear()

        for value in values:
            if value is not None:
                held.append((value,))
            if len(held) >= window or (value is None and held):
                commit()
            elif value is None:
                time.sleep(POLL_S / 2)
        if held:
            commit()
        connection.close()

    def read(self, name: str, reader: str, window: int) -> Iterator[list[bytes]]:
        """Keeps its position once a second, as Kafka's clients do by default."""
        connection = self._connect()
        connection.execute("insert or ignore into position values (?, ?, 0)", (name, reader))
        at = connection.execute("select id from position where queue = ? and reader = ?", (name, reader)).fetchone()[0]
        kept_at = time.monotonic()
        newer = f'select id, value from "{name}" where id > ? order by id limit ?'
        try:
            while True:
                rows = connection.execute(newer, (at, window)).fetchall()
                if rows:
                    at = rows[-1][0]
                else:
                    time.sleep(POLL_S)
                yield [value for _, value in rows]
                if time.monotonic() - kept_at > KEEP_S:
                    self._keep(connection, name, reader, at)
                    kept_at = time.monotonic()
        finally:
            self._keep(connection, name, reader, at)
            connection.close()

    def _keep(self, connection: sqlite3.Connection, name: str, reader: str, at: int) -> None:
        connection.execute("update position set id = ? where queue = ? and reader = ?", (at, name, reader))


def connect(address: str, durability: str) -> Queue:
    return Queue(address, "full" if durability == "disk" else "normal")
