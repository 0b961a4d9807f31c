"""SQLite: a sink that writes each batch once. It runs on the machine that has the file."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from typing import Any, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter
from pyspark.sql.types import StructType

from moldau.connect.configuration import Setting, parse
from moldau.connect.data.schema import Schema, Type
from moldau.connect.handling.stages import RetriableError
from moldau.connectors.databases.dialect import DatabaseError, as_json
from moldau.connectors.databases.settings import SINK, connection, sink_settings
from moldau.connectors.databases.sink import DatabaseWriter
from moldau.connectors.databases.statements import quoted

WAIT_S: Final = 60.0
"""For another process that writes."""
_CONNECTION: Final = (connection("The file: its path, or sqlite:///data/shop.db."),)
_PREFIXES: Final = ("jdbc:sqlite:", "sqlite:///", "sqlite:")
_TYPES: Final[Mapping[Type, str]] = {
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.BOOLEAN: "INTEGER",
    Type.BYTES: "BLOB",
}


class SqliteSession:
    def __init__(self, own: sqlite3.Connection) -> None:
        self._own = own

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._own.execute(sql, values).fetchall()  # type: ignore[arg-type, unused-ignore]

    def execute_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        self._own.executemany(sql, rows)  # type: ignore[arg-type, unused-ignore]

    def columns(self, table: Sequence[str]) -> list[str] | None:
        schema = table[0] if len(table) > 1 else "main"
        found = self._own.execute(f"PRAGMA {quoted(schema)}.table_info({quoted(table[-1])})").fetchall()
        return [row[1] for row in found] or None

    def locks(self, name: str) -> None:
        """The transaction is the only one that writes."""


class SqliteDatabase:
    longest_name = 1_000

    def __init__(self, path: str) -> None:
        self._path = path

    @contextmanager
    def transaction(self) -> Iterator[SqliteSession]:
        try:
            with closing(sqlite3.connect(self._path, WAIT_S, isolation_level=None)) as own:
                own.execute("BEGIN IMMEDIATE")
                try:
                    yield SqliteSession(own)
                except BaseException:
                    own.execute("ROLLBACK")
                    raise
                own.execute("COMMIT")
        except sqlite3.OperationalError as error:
            may_pass = any(word in str(error) for word in ("locked", "unable to open", "disk"))
            raise (RetriableError if may_pass else DatabaseError)(f"SQLite: {error}") from error
        except (sqlite3.Error, OverflowError) as error:
            raise DatabaseError(f"SQLite: {error}") from error

    def placeholder(self, place: int) -> str:
        return "?"

    def type_of(self, schema: Schema) -> str:
        return "TEXT" if schema.name is not None else _TYPES.get(schema.type, "TEXT")

    def parameter(self, value: object) -> object:
        match value:
            case datetime.datetime():
                return value.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            case datetime.date() | datetime.time():
                return value.isoformat()
            case Decimal():
                return format(value, "f")
            case dict() | list():
                return as_json(value)
        return value


class Sqlite(DataSource):
    """`sqlite`."""

    settings: ClassVar[tuple[Setting, ...]] = (*_CONNECTION, *SINK)
    delivery: ClassVar[str] = "exactly-once"

    @classmethod
    def name(cls) -> str:
        return "sqlite"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return DatabaseWriter(self._database(), sink_settings(self.options), schema)

    def _database(self) -> SqliteDatabase:
        url = str(parse(_CONNECTION, self.options)["connection.url"])
        prefix = next((one for one in _PREFIXES if url.startswith(one)), "")
        return SqliteDatabase(url.removeprefix(prefix))
