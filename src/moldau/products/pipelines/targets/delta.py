"""A pipeline's Delta table: its files are written by the tasks, and committed once for each batch, by `deltalake`.

    sink: {delta: lake/orders}                                  # append: every row is another one
    sink: {delta: lake/totals, mode: update, key: user}         # a row takes the place of the older one of its key

A commit carries Delta's own transaction of an application: the application is the pipeline with its checkpoint, the
version is the number of the batch. A batch whose number the table has is not written again, and of two drivers that
write the same batch at once, Delta refuses the second. (Delta protocol, "Transaction Identifiers")

A file that was written and never committed is in no version of the table: once the batch is in, it is removed.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.extras import require_extra
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.databases.names import quoted
from moldau.products.pipelines.targets.table_target import (
    DELETED,
    TableTarget,
    TableTargetError,
    check_keys,
    check_not_ahead,
    commit_again,
    is_committed,
)
from moldau.products.pipelines.targets.target import TargetQuery

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Field, Schema
    from deltalake.transaction import RemoveAction

    from moldau.spark import DataFrame

logger = logging.getLogger("moldau.pipelines")

COMMIT_ATTEMPTS = 3
"""Of one batch, where another writer changed the same rows meanwhile."""
COMPACT_EVERY = 100
MOST_BATCHES = 1_000_000


class DeltaTarget(TableTarget, frozen=True, kw_only=True):
    """`compact_every`: after so many batches small files are joined to large ones."""

    NAMED_BY = "delta"
    KEYS = (*TableTarget.KEYS, "compact_every")

    directory: Path
    compact_every: int = COMPACT_EVERY

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> DeltaTarget:
        mode = cls.parse_mode(sink)
        return cls(
            mode=mode,
            key=cls.parse_key(sink, mode),
            changes=cls.parse_changes(sink, mode),
            directory=sink.local_path("delta", directory),
            compact_every=sink.number("compact_every", COMPACT_EVERY, least=1, most=MOST_BATCHES),
        )

    def describe(self) -> tuple[str, str]:
        return f"Delta table {self.directory}", "exactly once: one version of the table for each batch"

    def check(self) -> None:
        require_extra("`delta`", "delta")
        if self.directory.exists() and not self.directory.is_dir():
            raise TableTargetError(f"{self.directory} is not a directory")

    def rows_of(self, result: DataFrame) -> DataFrame:
        from deltalake import DeltaTable

        from moldau.spark.parquet_parts import arrow_schema  # a page is checked without Spark

        self.check_columns(result.columns)
        if DeltaTable.is_deltatable(str(self.directory)):
            _check_takes(DeltaTable(self.directory), arrow_schema(result.drop(DELETED)))
        return result

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        return _Writer(self, query).write


class _Writer:
    def __init__(self, target: DeltaTarget, query: TargetQuery) -> None:
        """Raises TableTargetError."""
        from deltalake import DeltaTable

        self._target = target
        self._directory = target.directory
        self._name = f"the Delta table {target.directory}"
        self._application = f"moldau.{query.pipeline}.{query.checkpoint_id}"
        self._prefix = f"{query.pipeline}-{query.checkpoint_id}"
        self._staging = self._directory / f".unfinished-{self._prefix}"
        if DeltaTable.is_deltatable(str(self._directory)):
            newest = DeltaTable(self._directory).transaction_version(self._application)
            check_not_ahead(newest, query, self._name)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """When it returns, the batch is in a version of the table. A batch without rows makes none."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            self._make_table(batch)
            commit_again(
                lambda: self._write_once(batch, batch_id), CommitFailedError, COMMIT_ATTEMPTS, self._name, batch_id
            )
        except (DeltaError, OSError) as error:
            raise TableTargetError(f"{self._name} took no batch: {error}") from error

    def _make_table(self, batch: DataFrame) -> None:
        from deltalake import DeltaTable

        from moldau.spark.parquet_parts import arrow_schema

        self._directory.mkdir(parents=True, exist_ok=True)
        if not DeltaTable.is_deltatable(str(self._directory)):
            nullable = [column.with_nullable(True) for column in arrow_schema(batch.drop(DELETED))]
            DeltaTable.create(self._directory, _schema(nullable), mode="ignore")

    def _write_once(self, batch: DataFrame, batch_id: int) -> None:
        from deltalake import DeltaTable

        table = DeltaTable(self._directory)
        if is_committed(table.transaction_version(self._application), batch_id):
            return
        if self._target.mode == "append":
            self._append(table, batch, batch_id)
        else:
            self._merge(table, batch, batch_id)
        if (batch_id + 1) % self._target.compact_every == 0:
            self._compact()

    def _append(self, table: DeltaTable, batch: DataFrame, batch_id: int) -> None:
        from deltalake.transaction import AddAction

        from moldau.spark.parquet_parts import remove_other_parts, write_parts

        prefix = f"{self._prefix}-{batch_id:010}"
        parts = write_parts(batch, self._directory, prefix)
        if not parts:
            return
        now_ms = int(time.time() * 1_000)
        files: list[AddAction | RemoveAction] = [
            AddAction(part.path.name, part.size_bytes, {}, now_ms, True, json.dumps({"numRecords": part.rows}))
            for part in parts
        ]
        table.create_write_transaction(
            files, "append", table.schema(), commit_properties=self._commit_properties(batch_id)
        )
        remove_other_parts(self._directory, prefix, parts)

    def _merge(self, table: DeltaTable, batch: DataFrame, batch_id: int) -> None:
        import pyarrow.parquet as pq

        from moldau.spark.parquet_parts import write_parts

        shutil.rmtree(self._staging, ignore_errors=True)
        paths = [part.path for part in write_parts(batch, self._staging, str(batch_id))]
        if paths:
            key = self._target.key
            check_keys(pq.read_table(paths, columns=list(key)), key)
            same = " and ".join(f"older.{quoted(name)} = newer.{quoted(name)}" for name in key)
            merge = table.merge(
                _rows(paths),
                same,
                source_alias="newer",
                target_alias="older",
                commit_properties=self._commit_properties(batch_id),
            )
            if DELETED in batch.columns:
                merge.when_matched_delete(f"newer.{DELETED}")
                merge.when_matched_update_all(except_cols=[DELETED])
                merge.when_not_matched_insert_all(f"not newer.{DELETED}", except_cols=[DELETED])
                merge.execute()
            else:
                merge.when_matched_update_all().when_not_matched_insert_all().execute()
        shutil.rmtree(self._staging, ignore_errors=True)

    def _commit_properties(self, batch_id: int) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(app_transactions=[Transaction(self._application, batch_id)])

    def _compact(self) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            DeltaTable(self._directory).optimize.compact()
        except DeltaError as error:
            logger.warning("the files of %s stay small for now: %s", self._directory, error)


def _check_takes(table: DeltaTable, wanted: pa.Schema) -> None:
    """Raises FlowError unless files with these columns can become part of the table as they are."""
    uri, metadata = table.table_uri, table.metadata()
    if metadata.partition_columns:
        raise FlowError(f"the Delta table {uri} is partitioned, which a pipeline does not write; name another one")
    kept_by_writers = [
        name
        for name in metadata.configuration
        if name.startswith("delta.constraints.") or name == "delta.columnMapping.mode"
    ]
    if kept_by_writers:
        raise FlowError(
            f"the Delta table {uri} has {kept_by_writers[0]}, which a pipeline does not keep; name another one"
        )
    has = {field.name: field for field in table.schema().fields}
    gives = {field.name: field for field in _schema(list(wanted)).fields}
    if {name: field.type for name, field in has.items()} != {name: field.type for name, field in gives.items()}:
        raise FlowError(
            f"the Delta table {uri} has the columns {_columns(has.values())}, but the SQL gives "
            f"{_columns(gives.values())}"
        )
    strict = [name for name, field in has.items() if not field.nullable and gives[name].nullable]
    if strict:
        raise FlowError(
            f"the column {strict[0]!r} of the Delta table {uri} must not be null, but the SQL may give null"
        )


def _schema(columns: list[pa.Field]) -> Schema:
    import pyarrow as pa
    from deltalake import Schema

    return Schema.from_arrow(pa.schema(columns))


def _columns(fields: Iterable[Field]) -> str:
    # a primitive type says its name only as JSON
    return ", ".join(f"{field.name} {json.loads(field.type.to_json())}" for field in fields)


def _rows(paths: list[Path]) -> pa.RecordBatchReader:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches()

    return pa.RecordBatchReader.from_batches(pq.read_schema(paths[0]), batches())
