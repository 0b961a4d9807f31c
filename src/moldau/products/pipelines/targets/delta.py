"""A Delta table as a target: tasks write the files, `deltalake` commits them once for each batch.

    sink: {delta: lake/orders}                                  # append: every row is a new one
    sink: {delta: lake/totals, mode: update, key: user}         # a row replaces the older one of its key
    sink: {delta: s3://lake/orders}                             # in an object store

A commit has a transaction identifier of Delta: the application is the pipeline with its checkpoint, the version is the
batch number. A batch whose number the table has is not written again. If two drivers write the same batch at once,
Delta rejects the second. (Delta protocol, "Transaction Identifiers")

A file that was written but not committed is in no version of the table. It is removed once the batch is committed.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.extras import require_extra
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.keys import PathOrAddress
from moldau.products.pipelines.core.places import one_spelling
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.databases.names import quoted
from moldau.products.pipelines.targets import folder_owner
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.pipelines.targets.rights import check_folder
from moldau.products.pipelines.targets.table_columns import TableColumn, check_columns, refuse_partitions
from moldau.products.pipelines.targets.table_target import (
    COMPACT_EVERY,
    TableTarget,
    check_keys,
    check_not_ahead,
    commit_again,
    evaluate,
    is_committed,
    refuse_nested_key,
)
from moldau.products.pipelines.targets.target import Owner, TargetError, TargetQuery, refuse_empty_structs

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import CommitProperties, DeltaTable, Schema
    from deltalake.transaction import RemoveAction

    from moldau.spark import DataFrame

logger = logging.getLogger("moldau.pipelines")

DELTA = PathOrAddress("delta", "A [Delta table](targets.md#delta).")
COMMIT_ATTEMPTS = 3
"""The most attempts to commit one batch if another writer changes the same rows meanwhile."""


class DeltaTarget(TableTarget, frozen=True, kw_only=True):
    """`compact_every`: the number of batches after which small files are compacted into large ones."""

    NAMED_BY = DELTA
    KEYS = (*TableTarget.KEYS, COMPACT_EVERY)
    LACKS = ("void", "interval", "variant", "time")

    location: str
    compact_every: int = COMPACT_EVERY.number

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> DeltaTarget:
        mode = cls.parse_mode(sink)
        key, changes = cls.parse_rows(sink, mode)
        return cls(
            mode=mode,
            key=key,
            changes=changes,
            location=DELTA.of(sink, directory),
            compact_every=COMPACT_EVERY.of(sink),
        )

    def describe(self) -> tuple[str, str]:
        return f"Delta table {self.location}", "exactly once: one version of the table for each batch"

    def check(self) -> None:
        require_extra("`delta`", "delta")
        if Path(self.location).is_file():
            raise TargetError(f"{self.location} is not a directory")

    def check_rights(self) -> None:
        check_folder(self.location)

    def places(self) -> tuple[str, ...]:
        return (one_spelling(self.location),)

    def owner(self) -> Owner | None:
        """In a file next to the table's log, because a table property would need a version without a batch."""
        return folder_owner.owner_of(self.location)

    def claim(self, pipeline: str) -> None:
        folder_owner.claim(self.location, pipeline)

    def rows_of(self, result: DataFrame) -> DataFrame:
        from deltalake import DeltaTable

        from moldau.spark.frames.parquet_parts import arrow_schema  # a pipeline file is checked without Spark

        super().rows_of(result)
        refuse_empty_structs(result.dtypes, "Delta")
        refuse_nested_key(result, self.key)
        if _is_table(self.location):
            _check_takes(DeltaTable(self.location), arrow_schema(result.drop(DELETED)))
        return result

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        return _Writer(self, query).write


class _Writer:
    def __init__(self, target: DeltaTarget, query: TargetQuery) -> None:
        """Raises TargetError."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        from moldau.spark.frames.folders import Folder

        self._target = target
        self._folder = Folder(target.location)
        self._name = f"the Delta table {target.location}"
        self._application = f"moldau.{query.pipeline}.{query.checkpoint_id}"
        self._prefix = f"{query.pipeline}-{query.checkpoint_id}"
        self._staging = self._folder.inside(f".unfinished-{self._prefix}")
        if _is_table(target.location):
            try:
                newest = DeltaTable(target.location).transaction_version(self._application)
            except (DeltaError, OSError) as error:
                raise TargetError(f"{self._name} cannot be read: {error}") from error
            check_not_ahead(newest, query, self._name)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """When it returns, the batch is in a version of the table. A batch without rows creates none."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        try:
            self._make_table(batch)
            commit_again(
                lambda: self._write_once(batch, batch_id), CommitFailedError, COMMIT_ATTEMPTS, self._name, batch_id
            )
        except (DeltaError, OSError) as error:
            raise TargetError(f"{self._name} took no batch: {error}") from error

    def _make_table(self, batch: DataFrame) -> None:
        from deltalake import DeltaTable

        from moldau.spark.frames.parquet_parts import arrow_schema

        self._folder.make()
        if not _is_table(self._target.location):
            nullable = [column.with_nullable(True) for column in arrow_schema(batch.drop(DELETED))]
            DeltaTable.create(self._target.location, _schema(nullable), mode="ignore")

    def _write_once(self, batch: DataFrame, batch_id: int) -> None:
        from deltalake import DeltaTable

        table = DeltaTable(self._target.location)
        if is_committed(table.transaction_version(self._application), batch_id):
            evaluate(batch)
            return
        if self._target.mode == "append":
            self._append(table, batch, batch_id)
        else:
            self._merge(table, batch, batch_id)
        if (batch_id + 1) % self._target.compact_every == 0:
            self._compact()

    def _append(self, table: DeltaTable, batch: DataFrame, batch_id: int) -> None:
        from deltalake.transaction import AddAction

        from moldau.spark.frames.parquet_parts import remove_other_parts, write_parts

        prefix = f"{self._prefix}-{batch_id:010}"
        parts = write_parts(batch, self._folder, prefix)
        if not parts:
            return
        now_ms = int(time.time() * 1_000)
        files: list[AddAction | RemoveAction] = [
            AddAction(part.name, part.size_bytes, {}, now_ms, True, json.dumps({"numRecords": part.rows}))
            for part in parts
        ]
        table.create_write_transaction(
            files, "append", table.schema(), commit_properties=self._commit_properties(batch_id)
        )
        remove_other_parts(self._folder, prefix, parts)

    def _merge(self, table: DeltaTable, batch: DataFrame, batch_id: int) -> None:
        from moldau.spark.frames.parquet_parts import columns_of_parts, rows_of_parts, write_parts

        self._staging.clear()
        parts = write_parts(batch, self._staging, str(batch_id), self._target.key)
        if parts:
            key = self._target.key
            check_keys(columns_of_parts(self._staging, parts, key), key)
            same = " and ".join(f"older.{quoted(name)} = newer.{quoted(name)}" for name in key)
            merge = table.merge(
                rows_of_parts(self._staging, parts),
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
        self._staging.clear()

    def _commit_properties(self, batch_id: int) -> CommitProperties:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(app_transactions=[Transaction(self._application, batch_id)])

    def _compact(self) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            DeltaTable(self._target.location).optimize.compact()
        except DeltaError as error:
            logger.warning("the files of %s stay small for now: %s", self._target.location, error)


def _is_table(location: str) -> bool:
    """Raises TargetError if that cannot be determined."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        return DeltaTable.is_deltatable(location)
    except (DeltaError, OSError) as error:
        raise TargetError(f"the Delta table {location} cannot be reached: {error}") from error


def _check_takes(table: DeltaTable, wanted: pa.Schema) -> None:
    """Raises FlowError unless the table accepts files with these columns unchanged."""
    name, metadata = f"the Delta table {table.table_uri}", table.metadata()
    refuse_partitions(name, bool(metadata.partition_columns))
    kept_by_writers = [
        key
        for key in metadata.configuration
        if key.startswith("delta.constraints.") or key == "delta.columnMapping.mode"
    ]
    if kept_by_writers:
        raise FlowError(f"{name} has {kept_by_writers[0]}, which a pipeline does not keep; name another one")
    check_columns(name, _columns(table.schema()), _columns(_schema(list(wanted))))


def _schema(columns: list[pa.Field]) -> Schema:
    import pyarrow as pa
    from deltalake import Schema

    return Schema.from_arrow(pa.schema(columns))


def _columns(schema: Schema) -> dict[str, TableColumn]:
    # a primitive type gives its name only as JSON
    return {one.name: TableColumn(one.type, str(json.loads(one.type.to_json())), one.nullable) for one in schema.fields}
