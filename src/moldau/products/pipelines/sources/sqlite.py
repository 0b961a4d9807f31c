"""A table in an SQLite file as a pipeline's source: its new rows, in the order of a whole number.

    sources:
      orders: {sqlite: shop.db, table: orders, by: id}

SQLite has one writer at a time, so rows become visible in the order of their numbers. Declare the column `integer
primary key autoincrement`: without `autoincrement`, SQLite gives the number of a deleted last row again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.databases.names import quoted
from moldau.products.pipelines.sources.by_key import (
    ROWS_AT_A_TIME,
    ByKeyFeed,
    ByKeySource,
    DatabaseSourceError,
    Key,
    Span,
    bounds,
)
from moldau.products.pipelines.sources.source import MAX_RECORDS, PageHead

if TYPE_CHECKING:
    import pyarrow as pa


class SqliteSource(ByKeySource, frozen=True, kw_only=True):
    NAMED_BY = ("sqlite",)
    KEYS = ("table", "by", MAX_RECORDS)

    file: Path

    @classmethod
    def parse(cls, source: Section, head: PageHead) -> SqliteSource:
        return cls(
            file=source.local_path("sqlite", head.directory),
            table=source.text("table"),
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
        if self.by is not None and (self.by not in columns.names or columns.field(self.by).type != pa.int64()):
            raise DatabaseSourceError(f"`by` must name a column of whole numbers; {self.by!r} of {self.table} is none")
        return SqliteFeed(self, columns)


class SqliteFeed(ByKeyFeed):
    def __init__(self, source: SqliteSource, columns: pa.Schema) -> None:
        super().__init__(columns, source.max_records)
        self._source = source
        self._table, self._by = quoted(source.table), quoted(source.by or "")

    def _newest(self, after: Key) -> Key:
        behind, values = ("", []) if after is None else (f" where {self._by} > ?", [after])
        return self._one(f"select max({self._by}) from {self._table}{behind}", values)

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


@contextmanager
def connected(file: Path) -> Iterator[sqlite3.Connection]:
    """For reading. Raises DatabaseSourceError."""
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise DatabaseSourceError(f"{file} cannot be read: {error}") from error


def _type_of(declared: str) -> pa.DataType:
    """By SQLite's rules of affinity; what may hold anything is text."""
    import pyarrow as pa

    if "INT" in declared:
        return pa.int64()
    if not any(word in declared for word in ("CHAR", "CLOB", "TEXT")):
        if "BLOB" in declared:
            return pa.binary()
        if any(word in declared for word in ("REAL", "FLOA", "DOUB")):
            return pa.float64()
    return pa.string()
