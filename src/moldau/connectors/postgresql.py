"""PostgreSQL: a sink that writes each batch once, and a source of new rows."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.connect.configuration import Kind, Setting, in_range, parse, wrong
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from moldau.connect.handling.stages import RetriableError
from moldau.connectors.databases.connector import DatabaseConnector
from moldau.connectors.databases.dialect import DatabaseError, RowError, as_json
from moldau.connectors.databases.settings import CONNECTION, SINK, SOURCE, connection, secret_text
from moldau.connectors.databases.source import SourceSettings
from moldau.connectors.databases.statements import path_of
from moldau.extras import require_extra

if TYPE_CHECKING:
    import psycopg

require_extra("The connector postgresql", "postgresql")

PARAMETERS: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq. A server that disappears silently is noticed within a minute."""
_TYPES: Final[Mapping[Type, str]] = {
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INTEGER",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BYTEA",
}
_LOGICAL: Final = {DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP WITH TIME ZONE", DECIMAL: "NUMERIC"}
_COLUMNS: Final[Mapping[str, DataType]] = {
    "bool": BooleanType(),
    "int2": ShortType(),
    "int4": IntegerType(),
    "int8": LongType(),
    "float4": FloatType(),
    "float8": DoubleType(),
    "bytea": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampNTZType(),
    "timestamptz": TimestampType(),
}
"""By PostgreSQL's name of the type. Others are read as texts, as PostgreSQL writes them."""
MAX_PRECISION: Final = 38
IDLE_S: Final = 60
"""The server ends a transaction of a process that stands still for so long, and with it the locks."""


def _checked_url(name: str, value: object) -> None:
    try:
        parts = urlsplit(str(value).removeprefix("jdbc:"))
    except ValueError as error:
        raise ValueError(wrong(name, "[hidden]", str(error))) from None
    if parts.scheme not in ("postgresql", "postgres"):
        raise ValueError(wrong(name, "[hidden]", "Expected postgresql://HOST:PORT/DATABASE"))
    if parts.password or "password=" in parts.query:
        raise ValueError(wrong(name, "[hidden]", "The password belongs in connection.password"))


_CONNECTION: Final = (
    connection("The server and the database: postgresql://HOST:PORT/DATABASE, also with jdbc: in front.", _checked_url),
    Setting("connection.user", Kind.STRING, None, documentation="The login.", group=CONNECTION),
    Setting("connection.password", Kind.PASSWORD, None, documentation="The password of the login.", group=CONNECTION),
    Setting(
        "transaction.timeout.ms",
        Kind.INT,
        300_000,
        documentation="How long a transaction may take. Then the connection is closed, and the task fails: a server "
        "that stands still does not hold it up for ever.",
        group=CONNECTION,
        check=in_range(1_000),
    ),
)


class PostgresqlSession:
    def __init__(self, own: psycopg.Connection[Any]) -> None:
        self._own = own

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        cursor = self._own.execute(sql, values or None)
        return cursor.fetchall() if cursor.description else []

    def described(self, sql: str) -> Sequence[psycopg.Column]:
        self._own.execute("SET TRANSACTION READ ONLY")
        return self._own.execute(sql).description or ()

    def execute_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        with self._own.cursor() as cursor:
            cursor.executemany(sql, rows)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with _in_words(), self._own.transaction():
            yield

    def columns(self, table: Sequence[str]) -> list[str] | None:
        sql = (
            "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped "
            "ORDER BY attnum"
        )
        return [row[0] for row in self.execute(sql, (path_of(table),))] or None

    def locks(self, name: str) -> None:
        self.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", (f"moldau {name}",))


class PostgresqlDatabase:
    longest_name = 63
    """PostgreSQL cuts longer names, which could make one table of two."""

    def __init__(self, url: str, user: str | None, password: str | None, timeout_s: float) -> None:
        """`timeout_s`: for a transaction."""
        self._url = url.removeprefix("jdbc:")
        self._login = {name: text for name, text in (("user", user), ("password", password)) if text is not None}
        self._timeout_s = timeout_s

    @contextmanager
    def transaction(self) -> Iterator[PostgresqlSession]:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict, make_conninfo

        with _in_words():
            parameters: dict[str, Any] = {**PARAMETERS, **conninfo_to_dict(self._url), **self._login}
            own = psycopg.connect(make_conninfo("", **parameters), cursor_factory=psycopg.RawCursor)
            with own, _ended_after(self._timeout_s, own.pgconn.socket):
                own.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S}s'")
                yield PostgresqlSession(own)

    def read(self, sql: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self.transaction() as session:
            session.execute("SET TRANSACTION READ ONLY")
            return session.execute(sql, values)

    def row_type(self, settings: SourceSettings) -> StructType:
        found = StructType()
        with self.transaction() as session:
            for column in session.described(f"SELECT * FROM {settings.relation} LIMIT 0"):
                found.add(column.name, _spark_type(column))
        return found

    def column(self, name: str, kind: DataType) -> str:
        return f"{name}::text" if isinstance(kind, StringType) else name

    def row(self, values: tuple[Any, ...], schema: StructType) -> tuple[Any, ...]:
        return values

    def told(self, value: object) -> object:
        return value if isinstance(value, int) else str(value)

    def placeholder(self, place: int) -> str:
        return f"${place}"

    def type_of(self, schema: Schema) -> str:
        return _LOGICAL.get(schema.name or "") or _TYPES.get(schema.type, "JSONB")

    def parameter(self, value: object) -> object:
        stored = as_json(value) if isinstance(value, dict | list) else value
        if isinstance(stored, str) and ("\x00" in stored or (stored is not value and "\\u0000" in stored)):
            raise DatabaseError("PostgreSQL cannot store a text with a NUL")
        return stored


class Postgresql(DatabaseConnector):
    """`postgresql`."""

    settings: ClassVar[tuple[Setting, ...]] = (*_CONNECTION, *SINK, *SOURCE)

    @classmethod
    def name(cls) -> str:
        return "postgresql"

    def database(self) -> PostgresqlDatabase:
        values = parse(_CONNECTION, self.options)
        user = values["connection.user"]
        password = secret_text(values["connection.password"])
        timeout_s = int(str(values["transaction.timeout.ms"])) / 1000
        url = str(values["connection.url"])
        return PostgresqlDatabase(url, None if user is None else str(user), password, timeout_s)


@contextmanager
def _ended_after(timeout_s: float, descriptor: int) -> Iterator[None]:
    """Shuts down the connection of this socket if what is inside takes longer, because libpq waits for an answer
    without end. Raises RetriableError then."""
    import psycopg

    is_over, is_late = threading.Event(), threading.Event()

    def end() -> None:
        if not is_over.wait(timeout_s):
            is_late.set()
            with suppress(OSError):  # the server has ended the connection meanwhile
                own.shutdown(socket.SHUT_RDWR)

    with socket.socket(fileno=os.dup(descriptor)) as own:
        watch = threading.Thread(target=end, name="end of the transaction", daemon=True)
        watch.start()
        try:
            yield
        except psycopg.OperationalError as error:
            if not is_late.is_set():
                raise
            sentence = f"PostgreSQL: a transaction has taken {timeout_s:g} s (transaction.timeout.ms)"
            raise RetriableError(f"{sentence}: the server stands still, or is slow") from error
        finally:
            is_over.set()
            watch.join()


@contextmanager
def _in_words() -> Iterator[None]:
    """Raises RetriableError for an error that may pass, RowError for a value, DatabaseError for another one."""
    import psycopg

    try:
        yield
    except psycopg.OperationalError as error:
        raise RetriableError(f"PostgreSQL: {_sentence(error)}") from error
    except (psycopg.IntegrityError, psycopg.DataError) as error:
        raise RowError(f"PostgreSQL: {_sentence(error)}") from error
    except psycopg.Error as error:
        raise DatabaseError(f"PostgreSQL: {_sentence(error)}") from error


def _sentence(error: Exception) -> str:
    """PostgreSQL's own words in one line. They hold no password."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


def _spark_type(column: psycopg.Column) -> DataType:
    import psycopg

    known = psycopg.adapters.types.get(column.type_code)
    name = "" if known is None or known.oid != column.type_code else known.name  # an array has that of its elements
    if name == "numeric" and column.precision and 0 <= (column.scale or 0) <= column.precision <= MAX_PRECISION:
        return DecimalType(column.precision, column.scale or 0)
    return _COLUMNS.get(name, StringType())
