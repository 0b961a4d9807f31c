"""An SQLite table as a source: its new rows, in the order of a number, a text or a time.

    sources:
      orders: {sqlite: shop.db, table: orders, by: id}

SQLite has one writer at a time, so rows become visible in the order of their numbers. Declare the column `integer
primary key autoincrement`: without `autoincrement`, SQLite gives a deleted last row's number again.

Rows may share a time, and a transaction commits after the times of its rows. So only rows older than `delay` are read,
and `delay` must be longer than any writing transaction. (Only a process that takes the write lock can know that no
other process is writing, and this source only reads.) Keys that a program generates, texts or numbers, must become
visible in their order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.products.pipelines.core.keys import LocalPath
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.databases.names import quoted
from moldau.products.pipelines.databases.postgresql import TABLE
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
from moldau.products.pipelines.sources.stored_times import TimeForm, before_now, form_of

if TYPE_CHECKING:
    import pyarrow as pa


SQLITE = LocalPath("sqlite", "An [SQLite file](sources.md#sqlite).")
TEXTS = ("CHAR", "CLOB", "TEXT")
"""Words in the declared type of a text column."""
NUMBER, TEXT, TIME = "number", "text", "time"
"""The kind of the keys in `by`, by the type of its column. A text may also be a time; its values decide."""


class SqliteSource(ByKeySource, frozen=True, kw_only=True):
    """`delay_ms`: for a `by` that is a time; None: DELAY's default, except for whole numbers, which then are not
    times."""

    NAMED_BY = (SQLITE,)
    KEYS = (TABLE, BY, DELAY, MAX_RECORDS)

    file: Path
    delay_ms: int | None = None

    @classmethod
    def parse(cls, source: Section, head: SpecHead) -> SqliteSource:
        return cls(
            file=SQLITE.of(source, head.directory),
            table=TABLE.of(source),
            delay_ms=DELAY.of(source) if source.has(DELAY) else None,
            **cls.parse_by(source),
        )

    def describe(self) -> str:
        return f"table {self.table} of {self.file}" + (f", by {self.by}" if self.by else "")

    def facts(self) -> Facts:
        return {"sqlite": str(self.file), "table": self.table, "by": self.by}

    def feed(self, times: SourceTimes = DEFAULT_TIMES) -> SqliteFeed:
        import pyarrow as pa

        with connected(self.file) as connection:
            declared = connection.execute("select name, upper(type) from pragma_table_info(?)", [self.table]).fetchall()
        if not declared:
            raise DatabaseSourceError(f"{self.file} has no table {self.table}")
        columns = pa.schema([(name, _type_of(kind)) for name, kind in declared])
        if self.by is None:
            return SqliteFeed(self, columns, "")
        key_kind = next((_kind_of_key(kind) for name, kind in declared if name == self.by), "")
        if not key_kind:
            raise DatabaseSourceError(
                f"`by` must name a column of whole numbers, texts or times; {self.by!r} of {self.table} is none"
            )
        return SqliteFeed(self, columns, TIME if key_kind == NUMBER and self.delay_ms is not None else key_kind)


class SqliteFeed(ByKeyFeed):
    """`key_kind`: NUMBER, TEXT or TIME."""

    def __init__(self, source: SqliteSource, columns: pa.Schema, key_kind: str) -> None:
        super().__init__(columns, source.max_records)
        self._source, self._key_kind = source, key_kind
        self._table, self._by = quoted(source.table), quoted(source.by or "")

    def _newest(self, after: Key) -> Key:
        newest = self._outermost("max", after)
        if newest is None:
            return None
        if self._key_kind == NUMBER:
            # SQLite can store a text in such a column; it is greater than all numbers, so no later row would be read
            if not isinstance(newest, int):
                raise DatabaseSourceError(f"the column {self._source.by!r} has {newest!r}, which is no whole number")
            return newest
        form = self._form_of(newest)
        first = self._outermost("min", None) if after is None else after
        if form != self._form_of(first):
            raise DatabaseSourceError(
                f"the column {self._source.by!r} has {first!r} and {newest!r}: keys of one form have an order"
            )
        if form is None:
            return newest
        delay_ms = DELAY.default_ms if self._source.delay_ms is None else self._source.delay_ms
        return self._outermost("max", after, form.bound(before_now(delay_ms)))

    def _form_of(self, key: Key) -> TimeForm | None:
        """None for a key that is a text. Raises DatabaseSourceError for a value that is neither a text nor a time."""
        form = form_of(key)
        must_be_time = self._key_kind == TIME or self._source.delay_ms is not None
        if form is None and (must_be_time or not isinstance(key, str)):
            raise DatabaseSourceError(f"the column {self._source.by!r} has {key!r}, which is no time")
        return form

    def _outermost(self, which: str, after: Key, below: Key = None) -> Key:
        """The least or greatest key (`which`: min or max) after `after`; None without one."""
        limits = [(f"{self._by} > ?", after), (f"{self._by} < ?", below)]
        known = [(condition, key) for condition, key in limits if key is not None]
        where = f" where {' and '.join(condition for condition, _ in known)}" if known else ""
        return self._one(f"select {which}({self._by}) from {self._table}{where}", [key for _, key in known])

    def _key_of_row(self, number: int, span: Span) -> Key:
        condition, values = bounds(self._by, span, "?")
        rows = f"select {self._by} from {self._table} where {condition} order by {self._by}"
        return self._one(f"{rows} limit 1 offset ?", [*values, number - 1])

    def _rows(self, span: Span) -> Iterator[Sequence[tuple[object, ...]]]:
        import pyarrow as pa

        names = [
            f"cast({quoted(column.name)} as text)" if column.type == pa.string() else quoted(column.name)
            for column in self.columns
        ]
        condition, values = bounds(self._by, span, "?")
        with connected(self._source.file) as connection:
            found = connection.execute(f"select {', '.join(names)} from {self._table} where {condition}", values)
            while rows := found.fetchmany(ROWS_AT_A_TIME):
                yield rows

    def _one(self, statement: str, values: Sequence[Key]) -> Key:
        with connected(self._source.file) as connection:
            row = connection.execute(statement, values).fetchone()
        return None if row is None else row[0]


class _Reading(sqlite3.Connection):
    """SQLite stores any bytes as a text; invalid UTF-8 is replaced."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.text_factory = lambda text: text.decode("utf-8", "replace")


@contextmanager
def connected(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reading. Raises DatabaseSourceError."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, factory=_Reading)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise DatabaseSourceError(f"{file} cannot be read: {error}") from error


def _type_of(declared: str) -> pa.DataType:
    """By SQLite's rules of type affinity; a column of any type is text."""
    import pyarrow as pa

    if "INT" in declared:
        return pa.int64()
    if not any(word in declared for word in TEXTS):
        if "BLOB" in declared:
            return pa.binary()
        if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
            return pa.float64()
    return pa.string()


def _kind_of_key(declared: str) -> str:
    """NUMBER, TEXT or TIME; "" for a column that cannot hold keys."""
    import pyarrow as pa

    kind = _type_of(declared)
    if kind == pa.int64():
        return NUMBER
    if kind == pa.float64() or "DATE" in declared or "TIME" in declared:
        return TIME
    return TEXT if any(word in declared for word in TEXTS) else ""
