"""What differs between databases, and a transaction of one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Protocol

from moldau.connect.data.schema import Schema
from moldau.errors import MoldauError


class DatabaseError(MoldauError):
    """The database rejects a statement, or a record does not fit the table. The message says why."""


class RowError(DatabaseError):
    """The database rejects a value: a constraint, a type, a length. Another row of the same table may be fine."""


class Session(Protocol):
    """One transaction."""

    def savepoint(self) -> AbstractContextManager[None]:
        """After an error, what was done inside is undone, and the transaction goes on. Raises as `transaction` does."""

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]: ...

    def execute_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None: ...

    def columns(self, table: Sequence[str]) -> list[str] | None:
        """In their order; None: no such table."""

    def locks(self, name: str) -> None:
        """Waits for other transactions that create or alter something under this name."""


class Database(Protocol):
    """It is copied to other processes, so it holds no connection."""

    longest_name: int
    """Bytes in UTF-8."""

    def transaction(self) -> AbstractContextManager[Session]:
        """Committed at the end, rolled back after an error. Raises RetriableError for an error that may pass, and
        RowError or DatabaseError for all others."""

    def placeholder(self, place: int) -> str: ...

    def type_of(self, schema: Schema) -> str:
        """The type of a column for values of this schema."""

    def parameter(self, value: object) -> object:
        """A value of a record as the driver takes it."""


def as_json(value: object) -> str:
    """Nested values are stored as JSON."""
    return json.dumps(value, default=_told, ensure_ascii=False, separators=(",", ":"))


def _told(value: object) -> object:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.hex()
    raise DatabaseError(f"A nested value of the type {type(value).__name__} cannot be stored")
