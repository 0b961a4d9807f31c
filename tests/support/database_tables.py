"""The tables of a test in SQLite or PostgreSQL, with the settings of a connector for them."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import psycopg


class Tables:
    """`settings`: those of a connector for this database."""

    def __init__(self, settings: dict[str, str], sqlite: Path | None, postgresql: str | None) -> None:
        self.settings = settings
        self._sqlite = sqlite
        self._postgresql = postgresql

    @classmethod
    def of_sqlite(cls, path: Path) -> Tables:
        settings = {"connector.class": "moldau.connectors.sqlite:Sqlite", "connection.url": f"sqlite:///{path}"}
        return cls(settings, path, None)

    @classmethod
    def of_postgresql(cls, url: str) -> Tables:
        settings = {"connector.class": "moldau.connectors.postgresql:Postgresql", "connection.url": url}
        return cls(settings, None, url)

    @property
    def is_postgresql(self) -> bool:
        return self._postgresql is not None

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        own: Any = psycopg.connect(self._postgresql) if self._postgresql else sqlite3.connect(str(self._sqlite))
        with contextlib.closing(own):
            cursor = own.execute(sql)
            found = cursor.fetchall() if cursor.description else []
            own.commit()
            return found
