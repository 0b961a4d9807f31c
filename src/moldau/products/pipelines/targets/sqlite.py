"""An SQLite table as a target: the driver writes each batch and its number in one transaction.

    sink: {sqlite: shop.db, table: totals, mode: update, key: user}

The driver receives the rows as Parquet files in a hidden directory next to the file, so it holds only few of them in
memory. SQLite has no types for times, decimals and nested values. They are stored as text, times in UTC.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import LocalPath
from moldau.products.pipelines.core.places import one_spelling
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import quoted as spark_quoted
from moldau.products.pipelines.databases.names import listed, quoted
from moldau.products.pipelines.databases.postgresql import TABLE
from moldau.products.pipelines.formats.json_text import json_of_column
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.pipelines.targets.rights import check_database
from moldau.products.pipelines.targets.sql_table import (
    BATCHES,
    BATCHES_COLUMNS,
    NESTED,
    OWNERS,
    OWNERS_COLUMNS,
    on_conflict,
    owner_in,
    primary_key,
)
from moldau.products.pipelines.targets.table_target import (
    TableTarget,
    check_keys,
    check_not_ahead,
    evaluate,
    is_committed,
)
from moldau.products.pipelines.targets.target import NANOSECOND_TIME, Owner, TargetError, TargetQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame
    from moldau.spark.frames.folders import Folder
    from moldau.spark.frames.parquet_parts import ParquetPart

BUSY_SECONDS = 60
"""How long another connection may lock the file."""

TYPES = {
    "boolean": "integer", "tinyint": "integer", "smallint": "integer", "int": "integer", "bigint": "integer",
    "float": "real", "double": "real", "binary": "blob",
}  # fmt: skip
"""All other types are text."""


SQLITE = LocalPath("sqlite", "An [SQLite file](targets.md#postgresql-and-sqlite).")


class SqliteTarget(TableTarget, frozen=True, kw_only=True):
    NAMED_BY = SQLITE
    KEYS = (*TableTarget.KEYS, TABLE)
    LACKS = ("interval", "variant", NANOSECOND_TIME)

    file: Path
    table: str

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> SqliteTarget:
        mode = cls.parse_mode(sink)
        file, table = SQLITE.of(sink, directory), TABLE.of(sink)
        key, changes = cls.parse_rows(sink, mode)
        return cls(mode=mode, key=key, changes=changes, file=file, table=table)

    def describe(self) -> tuple[str, str]:
        return f"table {self.table} of {self.file}", "exactly once: one transaction for each batch"

    def check(self) -> None:
        if self.file.exists():
            with self.connected() as connection:
                _exists(connection, self.table)

    def check_rights(self) -> None:
        check_database(self.file)

    def places(self) -> tuple[str, ...]:
        return (f"table {self.table} of {one_spelling(self.file)}",)

    def owner(self) -> Owner | None:
        if not self.file.exists():
            return None
        with self.connected() as connection:
            if not _exists(connection, OWNERS):
                return None
            sql = f'select pipeline from {OWNERS} where "table" = ?'
            return owner_in(connection.execute(sql, (self.table,)).fetchone(), self.table)

    def claim(self, pipeline: str) -> None:
        with self.connected() as connection:
            connection.execute(f"create table if not exists {OWNERS} {OWNERS_COLUMNS}")
            connection.execute(f"insert or ignore into {OWNERS} values (?, ?)", (self.table, pipeline))

    def rows_of(self, result: DataFrame) -> DataFrame:
        super().rows_of(result)
        if self.file.exists():
            with self.connected() as connection:
                self._check_takes(connection, result.drop(DELETED).columns)
        return result.selectExpr(*(_as_it_fits(result, name, kind) for name, kind in result.dtypes))

    def _check_takes(self, connection: sqlite3.Connection, columns: list[str]) -> None:
        """Lets SQLite check the INSERT."""
        if not _exists(connection, self.table):
            return
        try:
            connection.execute(f"explain {self.insert(columns)}", [None] * len(columns))
        except sqlite3.Error as error:
            raise FlowError(f"the table {self.table} of {self.file} cannot take it: {error}") from error

    def insert(self, columns: list[str]) -> str:
        values = ", ".join("?" * len(columns))
        return f"insert into {quoted(self.table)} ({listed(columns)}) values ({values})" + on_conflict(
            columns, self.key
        )

    def delete(self) -> str:
        return f"delete from {quoted(self.table)} where " + " and ".join(f"{quoted(name)} = ?" for name in self.key)

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        return _Writer(self, query).write

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """One transaction, committed at the end. Raises TargetError."""
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.file, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
                connection.execute("begin immediate")
                yield connection
                connection.execute("commit")
        except (sqlite3.Error, OSError) as error:
            raise TargetError(f"{self.file} took no batch: {error}") from error


class _Writer:
    def __init__(self, target: SqliteTarget, query: TargetQuery) -> None:
        """Raises TargetError."""
        self._target = target
        self._owner = (query.pipeline, query.checkpoint_id)
        self._staging = target.file.with_name(f".{target.file.name}-unfinished-{query.checkpoint_id}")
        with target.connected() as connection:
            connection.execute(f"create table if not exists {BATCHES} {BATCHES_COLUMNS}")
            check_not_ahead(self._newest(connection), query, str(target.file))

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """When it returns, the batch is committed."""
        from moldau.spark.frames.folders import local_folder
        from moldau.spark.frames.parquet_parts import write_parts

        with self._target.connected() as connection:
            is_there = is_committed(self._newest(connection), batch_id)
        if is_there:
            evaluate(batch)
            return
        staging = local_folder(self._staging)
        staging.clear()
        parts = write_parts(batch, staging, str(batch_id), self._target.key)
        with self._target.connected() as connection:
            if not is_committed(self._newest(connection), batch_id):
                self._make_table(connection, batch)
                self._insert(connection, staging, parts)
                connection.execute(f"replace into {BATCHES} values (?, ?, ?)", (*self._owner, batch_id))
        staging.clear()

    def _newest(self, connection: sqlite3.Connection) -> int | None:
        sql = f"select batch from {BATCHES} where pipeline = ? and checkpoint = ?"
        row = connection.execute(sql, self._owner).fetchone()
        return row[0] if row is not None else None

    def _make_table(self, connection: sqlite3.Connection, batch: DataFrame) -> None:
        stored = batch.drop(DELETED).dtypes
        columns = ", ".join(f"{quoted(name)} {TYPES.get(kind, 'text')}" for name, kind in stored)
        key = primary_key(self._target.key)
        connection.execute(f"create table if not exists {quoted(self._target.table)} ({columns}{key})")

    def _insert(self, connection: sqlite3.Connection, staging: Folder, parts: list[ParquetPart]) -> None:
        from moldau.spark.frames.parquet_parts import columns_of_parts, rows_of_parts

        if not parts:
            return
        key = self._target.key
        if key:
            keys = columns_of_parts(staging, parts, key)
            _check_no_nan(keys)
            check_keys(keys, key)
        for rows in rows_of_parts(staging, parts):
            self._take(connection, rows)

    def _take(self, connection: sqlite3.Connection, rows: pa.RecordBatch) -> None:
        import pyarrow.compute as pc

        if DELETED in rows.schema.names:
            is_deleted = rows.column(DELETED)
            gone = rows.filter(is_deleted).select(list(self._target.key))
            connection.executemany(self._target.delete(), _rows(gone))
            rows = rows.filter(pc.invert(is_deleted)).drop_columns([DELETED])
        connection.executemany(self._target.insert(rows.schema.names), _rows(rows))


def _exists(connection: sqlite3.Connection, table: str) -> bool:
    found = connection.execute("select 1 from sqlite_schema where type in ('table', 'view') and name = ?", (table,))
    return found.fetchone() is not None


def _check_no_nan(keys: pa.Table) -> None:
    """Raises TargetError: SQLite stores a NaN as NULL, and treats every NULL in a key as different, so a row would
    replace no older one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(keys.column_names, keys.columns, strict=True):
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise TargetError(f"a row has NaN as {name!r}, which `key` names: SQLite has no NaN, leave such rows out")


def _as_it_fits(result: DataFrame, name: str, kind: str) -> str:
    """Spark SQL: nested values as JSON."""
    column = spark_quoted(name)
    return f"{json_of_column(result, name)} as {column}" if kind.startswith(NESTED) else column


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[object, ...]]:
    return zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[object]:
    """In SQLite's types."""
    import pyarrow as pa

    kind = column.type
    is_stored = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if pa.types.is_decimal(kind):  # Arrow would write 1E-10
        return [None if value is None else f"{value:f}" for value in column.to_pylist()]
    if not is_stored and not pa.types.is_binary(kind):
        column = column.cast(pa.string())
    values: list[object] = column.to_pylist()
    return values
