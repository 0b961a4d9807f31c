"""A PostgreSQL table as a source: its new rows, in the order of a number or of a time.

    sources:
      orders: {postgresql: "postgresql://ann@db.example/shop", table: orders, by: id}

Transactions do not commit in the order in which they took their numbers. So a look notes the newest visible row, and
the transactions that are writing to the table at that moment (PostgreSQL takes a writer's lock before its number). The
rows up to that row are read when all of those transactions have ended. A transaction that stays open delays reading,
but no row is lost, however late it commits. This does not cover numbers that were taken beforehand (`cache` of a
sequence, or a pool of numbers in a program), and times from before a transaction's first write: for these, rows younger
than `delay` wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from moldau.extras import require_extra
from moldau.products.pipelines.core.patience import keep_trying
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.databases.names import path_of, quoted
from moldau.products.pipelines.databases.postgresql import (
    POSTGRESQL,
    TABLE,
    UnreachableError,
    connected,
    execute,
    server_of,
    table_of,
)
from moldau.products.pipelines.sources.by_key import (
    BY,
    DELAY,
    ROWS_AT_A_TIME,
    ByKeyFeed,
    ByKeySource,
    DatabaseSourceError,
    Key,
    Span,
    bounds,
)
from moldau.products.pipelines.sources.source import MAX_RECORDS, SpecHead

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection

T = TypeVar("T")

LOOK_AGAIN_SECONDS = 0.1
SETTLES_WITHIN_SECONDS = 1.0
"""How long one look waits for writing transactions, before the next look continues to wait."""

NUMBERS = ("smallint", "integer", "bigint")
TIMES = ("timestamp with time zone", "timestamp without time zone")

_COLUMNS = """
select attname, format_type(atttypid, null), format_type(atttypid, atttypmod) from pg_attribute
where attrelid = to_regclass($1) and attnum > 0 and not attisdropped order by attnum
"""
_WRITERS = """
with recursive tables(relid) as (
  select to_regclass($1)::oid union select inhrelid from pg_inherits join tables on inhparent = relid
)
select coalesce(array_agg(distinct virtualtransaction), array[]::text[]) from pg_locks
where locktype = 'relation' and mode = 'RowExclusiveLock' and pid is distinct from pg_backend_pid()
  and database = (select oid from pg_database where datname = current_database())
  and relation in (select relid from tables)
"""
"""Includes the partitions of a table and the tables that inherit it, because a SELECT reads their rows too."""
_KIND = "select relkind from pg_class where oid = to_regclass($1)"
_STILL_WRITING = "select count(*) from pg_locks where virtualtransaction = any($1)"
_DECIMAL = re.compile(r"numeric\((\d+),(\d+)\)")
MOST_DIGITS = 38
"""The maximum of Spark's decimals."""
_INFINITY = {"date": "9999-12-31", **dict.fromkeys(TIMES, "9999-12-31 23:59:59.999")}
"""The value for `infinity`, which Spark lacks, by type. Spark's JDBC reader uses the same."""


class PostgresqlSource(ByKeySource, frozen=True, kw_only=True):
    """`server`: libpq's connection string. `delay_ms`: for a `by` that is a time."""

    NAMED_BY = (POSTGRESQL,)
    KEYS = (TABLE, BY, DELAY, MAX_RECORDS)

    server: str
    delay_ms: int = DELAY.default_ms

    @classmethod
    def parse(cls, source: Section, head: SpecHead) -> PostgresqlSource:
        return cls(
            server=server_of(source),
            table=path_of(table_of(source)),
            delay_ms=DELAY.of(source),
            **cls.parse_by(source),
        )

    def describe(self) -> str:
        return f"PostgreSQL table {self.table}" + (f", by {self.by}" if self.by else "")

    def facts(self) -> Facts:
        return {"table": self.table, "by": self.by}

    def check(self) -> None:
        require_extra("`postgresql`", "postgresql")
        super().check()

    def feed(self, times: SourceTimes = DEFAULT_TIMES) -> PostgresqlFeed:
        with connected(self.server, f"{self.table} cannot be read") as connection:
            is_standby = execute(connection, "select pg_is_in_recovery()").fetchone() == (True,)
            kind = execute(connection, _KIND, self.table).fetchone()
            found = execute(connection, _COLUMNS, self.table).fetchall()
        if kind is None:
            raise DatabaseSourceError(f"PostgreSQL has no table {self.table}")
        columns = [Column(name, kind, full) for name, kind, full in found]
        if self.by is None:
            return PostgresqlFeed(self, columns, "", times.retry_timeout_ms)
        if is_standby:
            raise DatabaseSourceError("the server is a standby, which does not know who is writing: name the primary")
        if kind not in (("r",), ("p",)):
            raise DatabaseSourceError(f"{self.table} is not a table: PostgreSQL does not tell who writes to it")
        key_type = next((column.kind for column in columns if column.name == self.by), None)
        if key_type not in NUMBERS + TIMES:
            what = "has no such column" if key_type is None else f"is {key_type}"
            raise DatabaseSourceError(
                f"`by` must name a column of whole numbers or of times; {self.by!r} of {self.table} {what}"
            )
        return PostgresqlFeed(self, columns, key_type, times.retry_timeout_ms)


class Column(msgspec.Struct, frozen=True):
    """`kind`: the type; `full`: with precision and scale."""

    name: str
    kind: str
    full: str


class PostgresqlFeed(ByKeyFeed):
    """`key_type`: the type of the column `by`."""

    def __init__(self, source: PostgresqlSource, columns: Sequence[Column], key_type: str, patience_ms: int) -> None:
        import pyarrow as pa

        super().__init__(pa.schema([(column.name, _arrow_type(column)) for column in columns]), source.max_records)
        self._source = source
        self._selected = ", ".join(_as_it_is_read(column) for column in columns)
        self._by = quoted(source.by or "")
        self._mark = "${}::text::" + key_type
        self._is_time = key_type in TIMES
        self._patience_ms = patience_ms
        self._waits_for: tuple[Key, list[str]] | None = None

    def _newest(self, after: Key) -> Key:
        """None if other rows may still come before the newest row; the next call looks again."""
        return self._with_patience(lambda connection: self._settled(connection, after))

    def _settled(self, connection: Connection[Any], after: Key) -> Key:
        deadline = time.monotonic() + SETTLES_WITHIN_SECONDS
        if self._waits_for is None:
            self._waits_for = self._look(connection, after)
        newest, writers = self._waits_for
        while writers and _one(connection, _STILL_WRITING, writers):
            if time.monotonic() > deadline:
                return None
            time.sleep(LOOK_AGAIN_SECONDS)
        self._waits_for = None
        return newest

    def _look(self, connection: Connection[Any], after: Key) -> tuple[Key, list[str]]:
        """The newest visible row, and the transactions that are writing to the table after that look."""
        conditions = ["true"] if after is None else [f"{self._by} > {self._mark.format(1)}"]
        if self._is_time:
            conditions.append(f"{self._by} <= now() - make_interval(secs => {self._source.delay_ms / 1_000})")
        newest = f"select max({self._by})::text from {self._source.table} where {' and '.join(conditions)}"
        seen: Key = _one(connection, newest, *([] if after is None else [after]))
        # a separate statement after the first: a transaction that begins to write from now on has a greater number
        return seen, [] if seen is None else _one(connection, _WRITERS, self._source.table)

    def _key_of_row(self, number: int, span: Span) -> Key:
        condition, values = bounds(self._by, span, self._mark)
        rows = f"select {self._by}::text as key from {self._source.table} where {condition} order by {self._by}"
        statement = f"{rows} limit 1 offset {number - 1}"
        return self._with_patience(lambda connection: _one(connection, statement, *values))

    def _rows(self, span: Span) -> Iterator[Sequence[tuple[object, ...]]]:
        import psycopg

        condition, values = bounds(self._by, span, self._mark)
        with ExitStack() as stack:
            connection = self._keep_trying(lambda: stack.enter_context(self._connected()))
            cursor = stack.enter_context(psycopg.RawServerCursor(connection, "rows"))
            cursor.execute(f"select {self._selected} from {self._source.table} where {condition}", values)
            while rows := cursor.fetchmany(ROWS_AT_A_TIME):
                yield rows

    def _with_patience(self, act: Callable[[Connection[Any]], Key]) -> Key:
        """Retries while the server is unavailable."""

        def ask() -> Key:
            with self._connected() as connection:
                return act(connection)

        return self._keep_trying(ask)

    def _keep_trying(self, act: Callable[[], T]) -> T:
        return keep_trying(
            act, lambda error: isinstance(error, UnreachableError), self._patience_ms, self._source.describe()
        )

    def _connected(self) -> AbstractContextManager[Connection[Any]]:
        return connected(self._source.server, f"{self._source.table} cannot be read")


def _one(connection: Connection[Any], statement: str, *values: object) -> Any:
    """The first value of the first row; None without a row."""
    row = execute(connection, statement, *values).fetchone()
    return None if row is None else row[0]


def _arrow_type(column: Column) -> pa.DataType:
    """Types without an Arrow equivalent are text, as PostgreSQL writes it."""
    import pyarrow as pa

    known = {
        "smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64(), "real": pa.float32(),
        "double precision": pa.float64(), "boolean": pa.bool_(), "date": pa.date32(), "bytea": pa.binary(),
        "timestamp with time zone": pa.timestamp("us", "UTC"), "timestamp without time zone": pa.timestamp("us"),
    }  # fmt: skip
    decimal = _DECIMAL.fullmatch(column.full)
    if decimal and int(decimal[1]) <= MOST_DIGITS:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return known.get(column.kind, pa.string())


def _as_it_is_read(column: Column) -> str:
    """Times with a zone come in UTC, whatever zone the connection has: Python has no day after 9999-12-31."""
    import pyarrow as pa

    name = quoted(column.name)
    kind = _arrow_type(column)
    if kind == pa.string():
        return f"{name}::text"
    if column.kind not in _INFINITY:
        return name
    read = f"{name} at time zone 'UTC'" if column.kind == "timestamp with time zone" else name
    last, first = _INFINITY[column.kind], "0001-01-01"
    return f"case {name} when 'infinity' then '{last}' when '-infinity' then '{first}' else {read} end"
