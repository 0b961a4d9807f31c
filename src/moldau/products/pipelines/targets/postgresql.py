"""A PostgreSQL table as a target: tasks fill a staging table, one transaction moves its rows.

    sink: {postgresql: "postgresql://ann@db.example/shop", table: totals, mode: update, key: user}

That transaction also writes the batch number into `moldau_batches`, in the table's schema. A batch whose number is
there is not written again. A row of the staging table names the task attempt that copied it, and the rows of lost tasks
are not moved.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from moldau.extras import require_extra
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.patience import keep_trying
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.statement import quoted as spark_quoted
from moldau.products.pipelines.databases.names import listed, path_of, quoted
from moldau.products.pipelines.databases.postgresql import (
    POSTGRESQL,
    TABLE,
    UnreachableError,
    connect,
    connected,
    execute,
    sentence,
    server_of,
    table_of,
)
from moldau.products.pipelines.formats.json_text import json_of_column
from moldau.products.pipelines.targets.changes import DELETED
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
    check_not_ahead,
    evaluate,
    is_committed,
    no_key,
    several_rows_of_a_key,
)
from moldau.products.pipelines.targets.target import NANOSECOND_TIME, Owner, TargetError, TargetQuery

if TYPE_CHECKING:
    import pyarrow as pa
    from psycopg import Connection

    from moldau.spark import DataFrame

logger = logging.getLogger("moldau.pipelines")

LOCK_SECONDS = 3
"""How long a check of the table waits for another connection's lock."""
ATTEMPT = "moldau_attempt"
"""The column of a staging table for the task attempt."""

TYPES = {
    "string": "text", "boolean": "boolean", "tinyint": "smallint", "smallint": "smallint", "int": "integer",
    "bigint": "bigint", "float": "real", "double": "double precision", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp", "binary": "bytea",
}  # fmt: skip


class PostgresqlTarget(TableTarget, frozen=True, kw_only=True):
    """`server`: libpq's connection string. `table`: its name, after its schema if the pipeline file names one."""

    NAMED_BY = POSTGRESQL
    KEYS = (*TableTarget.KEYS, TABLE)
    LACKS = (NANOSECOND_TIME,)

    server: str
    table: tuple[str, ...]

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> PostgresqlTarget:
        mode = cls.parse_mode(sink)
        key, changes = cls.parse_rows(sink, mode)
        return cls(mode=mode, key=key, changes=changes, server=server_of(sink), table=table_of(sink))

    def describe(self) -> tuple[str, str]:
        return f"PostgreSQL table {'.'.join(self.table)}", "exactly once: one transaction for each batch"

    def check(self) -> None:
        require_extra("`postgresql`", "postgresql")
        with self.connected():
            pass

    def places(self) -> tuple[str, ...]:
        """Leaves the user out of the address, because it does not change the place."""
        server = re.sub(r"^postgres(ql)?://([^/@]*@)?", "postgresql://", self.server)
        schema, table = ("public", *self.table)[-2:]
        return (f"table {schema}.{table} of {server}",)

    def owner(self) -> Owner | None:
        with self.connected() as connection:
            (found,) = execute(connection, "select to_regclass($1)", self._owners()).fetchone() or (None,)
            if found is None:
                return None
            sql = f'select pipeline from {self._owners()} where "table" = $1'
            return owner_in(execute(connection, sql, self.table[-1]).fetchone(), self.table[-1])

    def claim(self, pipeline: str) -> None:
        with self.connected() as connection:
            execute(connection, f"create table if not exists {self._owners()} {OWNERS_COLUMNS}")
            note = f"insert into {self._owners()} values ($1, $2) on conflict do nothing"
            execute(connection, note, self.table[-1], pipeline)

    def _owners(self) -> str:
        """In the table's schema."""
        return path_of((*self.table[:-1], OWNERS))

    def rows_of(self, result: DataFrame) -> DataFrame:
        super().rows_of(result)
        for name, kind in result.dtypes:
            if _type_of(kind) is None:
                raise FlowError(f"the column {name!r} has the type {kind}, which PostgreSQL lacks: cast it to another")
        with self.connected() as connection:
            if self.exists(connection):
                self._check_takes(connection, result.drop(DELETED).columns)
        return result

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        return _Writer(self, query).write

    def connected(self) -> AbstractContextManager[Connection[Any]]:
        """One transaction, committed at the end. Raises PostgresqlError."""
        return connected(self.server, "PostgreSQL took no batch")

    def exists(self, connection: Connection[Any]) -> bool:
        return execute(connection, "select to_regclass($1)", path_of(self.table)).fetchone() != (None,)

    def _check_takes(self, connection: Connection[Any], columns: list[str]) -> None:
        """Lets PostgreSQL check the INSERT. While the table is locked, it cannot: the first batch waits for the lock,
        and is checked then."""
        import psycopg

        names, table = listed(columns), path_of(self.table)
        insert = f"explain insert into {table} ({names}) select {names} from {table}"
        try:
            execute(connection, f"set local lock_timeout = '{LOCK_SECONDS}s'")
            execute(connection, insert + on_conflict(columns, self.key))
        except psycopg.errors.LockNotAvailable:
            logger.warning("%s is locked: whether it takes the rows shows at the first batch", table)
        except psycopg.Error as error:
            raise FlowError(f"the PostgreSQL table {'.'.join(self.table)} cannot take it: {sentence(error)}") from error


class _Writer:
    def __init__(self, target: PostgresqlTarget, query: TargetQuery) -> None:
        """Raises TargetError."""
        self._target = target
        self._query = query
        self._table = path_of(target.table)
        self._batches = path_of((*target.table[:-1], BATCHES))
        self._staging = path_of((*target.table[:-1], f"moldau_staging_{query.checkpoint_id}"))
        with target.connected() as connection:
            execute(connection, f"create table if not exists {self._batches} {BATCHES_COLUMNS}")
            check_not_ahead(self._newest(connection), query, f"PostgreSQL's {self._batches}")

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """When it returns, the batch is committed."""

        def may_pass(error: Exception) -> bool:
            # a task's error is in Spark's report
            return isinstance(error, UnreachableError) or UnreachableError.__name__ in str(error)

        patience_ms = self._query.times.retry_timeout_ms
        keep_trying(lambda: self._write_once(batch, batch_id), may_pass, patience_ms, f"batch {batch_id}")

    def _write_once(self, batch: DataFrame, batch_id: int) -> None:
        columns = batch.drop(DELETED).columns
        with self._target.connected() as connection:
            is_there = is_committed(self._newest(connection), batch_id)
            if not is_there:
                self._make_tables(connection, batch)
        if is_there:
            evaluate(batch)
            return
        copied = _copied(batch, self._target.server, self._staging, self._target.key)
        with self._target.connected() as connection:
            self._take_over(connection, columns, copied, batch_id)

    def _make_tables(self, connection: Connection[Any], batch: DataFrame) -> None:
        """Creates the pipeline's table if it is missing, and an empty staging table."""
        rows = batch.drop(DELETED)
        if not self._target.exists(connection):
            columns = ", ".join(f"{quoted(name)} {_type_of(kind)}" for name, kind in rows.dtypes)
            execute(connection, f"create table if not exists {self._table} ({columns}{primary_key(self._target.key)})")
        execute(connection, f"drop table if exists {self._staging}")
        execute(
            connection,
            f"create unlogged table {self._staging} as "
            f"select {listed(rows.columns)}, false as {DELETED}, ''::text as {ATTEMPT} "
            f"from {self._table} with no data",
        )

    def _take_over(
        self, connection: Connection[Any], columns: list[str], copied: dict[str, int], batch_id: int
    ) -> None:
        """`copied`: the number of rows of each attempt."""
        attempts = list(copied)
        owner = (self._query.pipeline, self._query.checkpoint_id)
        execute(connection, f"insert into {self._batches} values ($1, $2, -1) on conflict do nothing", *owner)
        # locks the row: of two drivers, the second sees the first one's batch
        if is_committed(self._newest(connection, " for update"), batch_id):
            return
        if self._target.key:
            self._check_keys(connection, attempts)
        names, mine = listed(columns), f"{ATTEMPT} = any($1)"
        gone = 0
        if self._target.changes is not None:
            deleted = f"from {self._staging} newer where {mine} and {DELETED}"
            same = " and ".join(f"older.{quoted(name)} = newer.{quoted(name)}" for name in self._target.key)
            execute(
                connection, f"delete from {self._table} older using (select * {deleted}) newer where {same}", attempts
            )
            (gone,) = execute(connection, f"select count(*) {deleted}", attempts).fetchone() or (0,)
        insert = (
            f"insert into {self._table} ({names}) select {names} from {self._staging} "
            f"where {mine} and {DELETED} is not true"
        )
        taken = gone + execute(connection, insert + on_conflict(columns, self._target.key), attempts).rowcount
        if taken != sum(copied.values()):
            raise TargetError(f"{self._staging} lost rows: another driver runs on the same checkpoint")
        execute(
            connection,
            f"update {self._batches} set batch = $1 where pipeline = $2 and checkpoint = $3",
            batch_id,
            *owner,
        )
        execute(connection, f"drop table {self._staging}")

    def _newest(self, connection: Connection[Any], lock: str = "") -> int | None:
        row = execute(
            connection,
            f"select batch from {self._batches} where pipeline = $1 and checkpoint = $2{lock}",
            self._query.pipeline,
            self._query.checkpoint_id,
        ).fetchone()
        return row[0] if row is not None else None

    def _check_keys(self, connection: Connection[Any], attempts: list[str]) -> None:
        key = self._target.key
        rows = f"select {listed(key)} from {self._staging} where {ATTEMPT} = any($1)"
        for name in key:
            if execute(connection, f"{rows} and {quoted(name)} is null limit 1", attempts).fetchone():
                raise no_key(name)
        several = f"{rows} group by {listed(key)} having count(*) > 1 limit 1"
        row = execute(connection, several, attempts).fetchone()
        if row is not None:
            raise several_rows_of_a_key(key, row)


def _copied(batch: DataFrame, server: str, staging: str, key: Sequence[str]) -> dict[str, int]:
    """The tasks copy the rows into the table `staging`; returns the number of rows of each attempt that Spark
    counts."""
    from moldau.spark.frames.columns import map_in_arrow

    copy = f"copy {staging} ({listed(batch.columns)}, {ATTEMPT}) from stdin (format csv)"
    as_text = batch.selectExpr(*(_as_text(batch, name, kind) for name, kind in batch.dtypes))
    nested = [name for name, kind in batch.dtypes if kind.startswith(NESTED)]
    copy_rows = partial(_copy_rows, server, copy, tuple(key), nested)
    found = map_in_arrow(as_text, copy_rows, "attempt string, rows bigint")
    return {row.attempt: row.rows for row in found.collect()}


def _copy_rows(
    server: str, copy: str, key: Sequence[str], json: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Copies a task's rows into the staging table, in one transaction; yields the name of this attempt and the number
    of rows. `json`: the JSON columns. Replaces characters that PostgreSQL allows in no text, such as NUL."""
    import psycopg
    import pyarrow as pa
    from pyarrow import csv

    from moldau.columnar.texts import with_valid_texts

    with_rows = (batch for batch in batches if batch.num_rows)
    first = next(with_rows, None)
    if first is None:
        return
    attempt, copied = uuid4().hex, 0
    # null is an empty field without quotes, an empty text one with quotes
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    try:
        with (
            connect(server) as connection,
            connection.cursor() as cursor,
            cursor.copy(copy) as out,
        ):
            for batch in chain((first,), with_rows):
                rows = pa.Table.from_batches([with_valid_texts(batch, key, takes_zero=False, json=json)])
                lines = io.BytesIO()
                csv.write_csv(rows.append_column(ATTEMPT, pa.repeat(attempt, rows.num_rows)), lines, options)
                out.write(lines.getbuffer())
                copied += rows.num_rows
    except psycopg.OperationalError as error:
        # psycopg has a different class for each reason, but the driver looks for one name in Spark's report
        raise UnreachableError(f"PostgreSQL took no rows: {sentence(error)}") from error
    yield pa.RecordBatch.from_pylist([{"attempt": attempt, "rows": copied}])


def _type_of(kind: str) -> str | None:
    """The column type of a new table for Spark's type `kind`; None without one."""
    if kind.startswith("decimal"):
        return kind.replace("decimal", "numeric")
    if kind.startswith("time("):
        return "time"
    return "jsonb" if kind.startswith(NESTED) else TYPES.get(kind)


def _as_text(batch: DataFrame, name: str, kind: str) -> str:
    """SQL for the text of a column, in PostgreSQL's syntax, if CSV cannot hold its values."""
    column = spark_quoted(name)
    if kind.startswith(NESTED):
        return f"{json_of_column(batch, name)} as {column}"
    return f"concat('\\\\x', hex({column})) as {column}" if kind == "binary" else column
