"""SQLite: a sink that writes each batch once, and a source of new rows. Both run on the machine with the file."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Final

from pyspark.sql.types import BinaryType, BooleanType, DataType, DoubleType, LongType, StringType, StructType

from moldau.connect.configuration import Setting, parse
from moldau.connect.data.schema import Schema, Type
from moldau.connect.handling.stages import RetriableError
from moldau.connectors.databases.connector import DatabaseConnector
from moldau.connectors.databases.dialect import DatabaseError, RowError, as_json
from moldau.connectors.databases.settings import SINK, SOURCE, connection
from moldau.connectors.databases.source import SourceSettings
from moldau.connectors.databases.statements import quoted

WAIT_S: Final = 60.0
"""For another process that writes."""
MAY_PASS: Final = ("locked", "unable to open", "disk")
"""In the sentence of an OperationalError."""
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


_DECLARED: Final[tuple[tuple[tuple[str, ...], DataType], ...]] = (
    (("INT",), LongType()),
    (("BOOL",), BooleanType()),
    (("CHAR", "CLOB", "TEXT"), StringType()),
    (("BLOB",), BinaryType()),
    (("REAL", "FLOA", "DOUB"), DoubleType()),
)
"""By words in the declared type of a column. Others are texts."""
_PYTHON: Final[Mapping[type[DataType], tuple[type, ...]]] = {
    LongType: (int,),
    BooleanType: (int,),
    DoubleType: (int, float),
    BinaryType: (bytes,),
    StringType: (str, int, float),
}


class SqliteSession:
    def __init__(self, own: sqlite3.Connection) -> None:
        self._own = own

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return self._own.execute(sql, values).fetchall()  # type: ignore[arg-type, unused-ignore]

    def execute_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        self._own.executemany(sql, rows)  # type: ignore[arg-type, unused-ignore]

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self._own.execute("SAVEPOINT moldau_rows")
        try:
            with _in_words():
                yield
        except RowError:
            self._own.execute("ROLLBACK TO moldau_rows")
            raise
        finally:
            self._own.execute("RELEASE moldau_rows")

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
        with _in_words(), closing(sqlite3.connect(self._path, WAIT_S, isolation_level=None)) as own:
            own.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteSession(own)
            except BaseException:
                if own.in_transaction:  # a full disk has ended it
                    own.execute("ROLLBACK")
                raise
            own.execute("COMMIT")

    def read(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._reading() as own:
            return own.execute(sql, values).fetchall()  # type: ignore[arg-type, unused-ignore]

    def row_type(self, settings: SourceSettings) -> StructType:
        """A column of a query has a type only if it is one of a table."""
        found = StructType()
        with self._reading() as own:
            own.execute(f"CREATE TEMP VIEW moldau_columns AS SELECT * FROM {settings.relation}")
            for _, name, declared, *_ in own.execute("PRAGMA table_info(moldau_columns)"):
                found.add(name, _spark_type(declared))
        return found

    def column(self, name: str, kind: DataType) -> str:
        return name

    def row(self, values: tuple[Any, ...], schema: StructType) -> tuple[Any, ...]:
        """A column of SQLite may have values of any type. Raises DatabaseError for one that does not fit."""
        return tuple(
            _fit(value, field.name, field.dataType) for value, field in zip(values, schema.fields, strict=True)
        )

    def told(self, value: object) -> object:
        if isinstance(value, bytes):
            raise DatabaseError("SQLite: a column of the mode has bytes")
        return value

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        address = f"{Path(self._path).absolute().as_uri()}?mode=ro"
        with _in_words(), closing(sqlite3.connect(address, WAIT_S, uri=True)) as own:
            yield own

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


class Sqlite(DatabaseConnector):
    """`sqlite`."""

    settings: ClassVar[tuple[Setting, ...]] = (*_CONNECTION, *SINK, *SOURCE)

    @classmethod
    def name(cls) -> str:
        return "sqlite"

    def database(self) -> SqliteDatabase:
        url = str(parse(_CONNECTION, self.options)["connection.url"])
        prefix = next((one for one in _PREFIXES if url.startswith(one)), "")
        return SqliteDatabase(url.removeprefix(prefix))


@contextmanager
def _in_words() -> Iterator[None]:
    """Raises RetriableError for an error that may pass, RowError for a value, DatabaseError for another one."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.DataError, OverflowError) as error:
        raise RowError(f"SQLite: {error}") from error
    except sqlite3.Error as error:
        may_pass = isinstance(error, sqlite3.OperationalError) and any(word in str(error) for word in MAY_PASS)
        raise (RetriableError if may_pass else DatabaseError)(f"SQLite: {error}") from error


def _spark_type(declared: str) -> DataType:
    upper = declared.upper()
    return next((kind for words, kind in _DECLARED if any(word in upper for word in words)), StringType())


def _fit(value: object, name: str, kind: DataType) -> object:
    if value is None:
        return None
    if not isinstance(value, _PYTHON[type(kind)]):
        raise DatabaseError(f"SQLite: the column {name} has a {type(value).__name__}, expected {kind.simpleString()}")
    match kind:
        case BooleanType():
            return bool(value)
        case DoubleType():
            return float(str(value))
        case StringType():
            return str(value)
    return value
