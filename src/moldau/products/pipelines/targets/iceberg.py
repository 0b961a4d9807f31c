"""An Iceberg table as a target: tasks write the files, `pyiceberg` commits them once for each batch.

    sink: {iceberg: shop.orders, warehouse: lake}               # append: every row is a new one
    sink: {iceberg: shop.totals, mode: update, key: user}       # a row replaces the older one of its key
    sink: {iceberg: shop.orders, warehouse: s3://lake/shop, catalog: shop.db}      # in an object store

The catalogue is an SQL catalogue that other Iceberg readers can open: `catalog.db` in the warehouse directory, or the
file in `catalog`. It cannot be in an object store.

The commit of a batch also sets a property of the table: its name is the pipeline with its checkpoint, its value the
batch number. A batch whose number is there is not written again. (The usual place would be a snapshot's summary, but
snapshots expire, and a pipeline may have been stopped for longer.) A commit requires the snapshot that was read before:
if two drivers write the same batch at once, the second has to read the table again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from moldau.extras import require_extra
from moldau.products.pipelines.core.places import places_of_iceberg
from moldau.products.pipelines.core.section import OBJECT_STORE, Section
from moldau.products.pipelines.databases.iceberg import ICEBERG, PLACE_KEYS, open_catalog, parse_table
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.pipelines.targets.rights import check_database, check_folder
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
from moldau.products.pipelines.targets.target import (
    NANOSECOND_TIME,
    Owner,
    TargetError,
    TargetQuery,
    refuse_empty_structs,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from moldau.spark import DataFrame
    from moldau.spark.frames.folders import Folder
    from moldau.spark.frames.parquet_parts import ParquetPart

COMMIT_ATTEMPTS = 5
"""The most attempts to commit one batch if another writer commits meanwhile."""
BATCH_PROPERTY = r"moldau\.(.+)\.[^.]+"
"""With the pipeline, and the id of its checkpoint."""
NEW_TABLE = {
    # a stream commits often: removes old metadata, and merges manifests instead of adding one per batch
    "write.metadata.delete-after-commit.enabled": "true",
    "commit.manifest-merge.enabled": "true",
}


class IcebergTarget(TableTarget, frozen=True, kw_only=True):
    """`compact_every`: in update mode, the number of batches after which small files are compacted into large ones. (In
    append mode, compaction would need `replace` snapshots for readers of new rows, which pyiceberg cannot write.)"""

    NAMED_BY = ICEBERG
    KEYS = (*TableTarget.KEYS, COMPACT_EVERY, *PLACE_KEYS)
    LACKS = ("void", "interval", "variant", NANOSECOND_TIME)

    table: str
    warehouse: str
    catalog: Path
    compact_every: int = COMPACT_EVERY.number

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> IcebergTarget:
        mode = cls.parse_mode(sink)
        if mode == "append" and sink.has(COMPACT_EVERY):
            sink.refuse(COMPACT_EVERY, "is for the mode update; with append another engine joins small files")
        table, warehouse, catalog = parse_table(sink, directory)
        key, changes = cls.parse_rows(sink, mode)
        return cls(
            mode=mode,
            key=key,
            changes=changes,
            table=table,
            warehouse=warehouse,
            catalog=catalog,
            compact_every=COMPACT_EVERY.of(sink),
        )

    def describe(self) -> tuple[str, str]:
        return f"Iceberg table {self.table} in {self.warehouse}", "exactly once: one snapshot for each batch"

    def check(self) -> None:
        require_extra("`iceberg`", "iceberg")
        if Path(self.warehouse).is_file():
            raise TargetError(f"{self.warehouse} is not a directory")

    def check_rights(self) -> None:
        check_folder(self.warehouse)
        check_database(self.catalog)

    def places(self) -> tuple[str, ...]:
        return places_of_iceberg(self.table, self.warehouse, self.catalog)

    def owner(self) -> Owner | None:
        """The pipeline in the first property that counts batches."""
        from pyiceberg.exceptions import NoSuchTableError
        from sqlalchemy.exc import SQLAlchemyError

        if not self.catalog.exists():
            return None
        try:
            properties = self.open_catalog().load_table(self.table).properties
        except NoSuchTableError:
            return None
        except (SQLAlchemyError, OSError) as error:
            raise TargetError(f"the Iceberg table {self.table} cannot be read: {error}") from error
        counted = (re.fullmatch(BATCH_PROPERTY, name) for name in properties)
        owners = (Owner(one[1], f"remove the property {one[0]} of the table", is_query=True) for one in counted if one)
        return next(owners, None)

    def rows_of(self, result: DataFrame) -> DataFrame:
        from moldau.spark.frames.parquet_parts import arrow_schema  # a pipeline file is checked without Spark

        super().rows_of(result)
        refuse_empty_structs(result.dtypes, "Iceberg")
        refuse_nested_key(result, self.key)
        if self.catalog.exists():
            catalog = self.open_catalog()
            if catalog.table_exists(self.table):
                _check_takes(catalog.load_table(self.table), arrow_schema(result.drop(DELETED)))
        return result

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        return _Writer(self, query).write

    def open_catalog(self) -> SqlCatalog:
        """Creates the warehouse and its catalogue if they are missing."""
        self.catalog.parent.mkdir(parents=True, exist_ok=True)
        return open_catalog(self.warehouse, self.catalog)


class _Writer:
    def __init__(self, target: IcebergTarget, query: TargetQuery) -> None:
        """Raises TargetError."""
        from sqlalchemy.exc import SQLAlchemyError

        self._target = target
        self._name = f"the Iceberg table {target.table}"
        self._property = f"moldau.{query.pipeline}.{query.checkpoint_id}"
        self._prefix = f"{query.pipeline}-{query.checkpoint_id}"
        try:
            self._catalog = target.open_catalog()
            is_there = self._catalog.table_exists(target.table)
            newest = self._newest(self._catalog.load_table(target.table)) if is_there else None
        except (SQLAlchemyError, OSError) as error:
            raise TargetError(f"{self._name} cannot be read: {error}") from error
        check_not_ahead(newest, query, self._name)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """When it returns, the batch is in a snapshot of the table. A batch without rows creates none."""
        from pyiceberg.exceptions import CommitFailedException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self._make_table(batch)
            commit_again(
                lambda: self._write_once(batch, batch_id), CommitFailedException, COMMIT_ATTEMPTS, self._name, batch_id
            )
        except (SQLAlchemyError, OSError) as error:
            raise TargetError(f"{self._name} took no batch: {error}") from error

    def _make_table(self, batch: DataFrame) -> None:
        if not self._catalog.table_exists(self._target.table):
            self._catalog.create_namespace_if_not_exists(self._target.table.rpartition(".")[0])
            self._catalog.create_table_if_not_exists(self._target.table, _columns(batch), properties=NEW_TABLE)

    def _write_once(self, batch: DataFrame, batch_id: int) -> None:
        table = self._catalog.load_table(self._target.table)
        if is_committed(self._newest(table), batch_id):
            evaluate(batch)
        elif self._target.mode == "append":
            self._append(table, batch, batch_id)
        else:
            self._merge(table, batch, batch_id)

    def _append(self, table: Table, batch: DataFrame, batch_id: int) -> None:
        from moldau.spark.frames.parquet_parts import remove_other_parts, write_parts

        folder, prefix = _data_folder(table), f"{self._prefix}-{batch_id:010}"
        parts = write_parts(batch, folder, prefix)
        if not parts:
            return
        with _once(table).transaction() as transaction:
            transaction.add_files(
                _addresses(table, parts),
                snapshot_properties={"moldau.batch": str(batch_id)},
                check_duplicate_files=False,
            )
            transaction.set_properties({self._property: str(batch_id)})
        remove_other_parts(folder, prefix, parts)

    def _merge(self, table: Table, batch: DataFrame, batch_id: int) -> None:
        """All rows pass through this process: those of the batch, and the remaining rows of the rewritten files."""
        from moldau.products.pipelines.targets.iceberg_upsert import files_to_replace, join_manifests, replace_files
        from moldau.spark.frames.parquet_parts import columns_of_parts, remove_other_parts, write_parts, write_rows

        folder, prefix = _data_folder(table), f"{self._prefix}-{batch_id:010}"
        staging = folder.inside(f".unfinished-{self._prefix}")
        staging.clear()
        parts = write_parts(batch, staging, str(batch_id), self._target.key)
        if parts:
            keys = columns_of_parts(staging, parts, self._target.key)
            check_keys(keys, self._target.key)
            is_due = (batch_id + 1) % self._target.compact_every == 0
            old, columns = files_to_replace(table, keys, also_small=is_due), _columns(batch, table)
            staying = (rows for file in old for rows in file.rows(columns))
            new = write_rows(folder, prefix, chain(_newer(staging, parts, columns), staying))
            properties = {"moldau.batch": str(batch_id)}
            with _once(table).transaction() as transaction:
                replace_files(transaction, table, old, _addresses(table, new), properties)
                if is_due:
                    join_manifests(transaction, properties)
                transaction.set_properties({self._property: str(batch_id)})
            remove_other_parts(folder, prefix, new)
        staging.clear()

    def _newest(self, table: Table) -> int | None:
        value = table.properties.get(self._property)
        return None if value is None else int(value)


def _addresses(table: Table, parts: list[ParquetPart]) -> list[str]:
    return [f"{table.location()}/data/{part.name}" for part in parts]


def _columns(batch: DataFrame, table: Table | None = None) -> pa.Schema:
    """The columns in the files of the table; None: of the table that the batch creates."""
    import pyarrow as pa

    from moldau.spark.frames.parquet_parts import arrow_schema

    required = {field.name for field in table.schema().fields if field.required} if table else ()
    wanted = arrow_schema(batch.drop(DELETED))
    return pa.schema([column.with_nullable(column.name not in required) for column in wanted])


def _newer(folder: Folder, parts: list[ParquetPart], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a batch, without those that only remove a row."""
    import pyarrow.compute as pc

    from moldau.spark.frames.parquet_parts import rows_of_parts

    for batch in rows_of_parts(folder, parts):
        rows = batch.filter(pc.invert(batch.column(DELETED))) if DELETED in batch.schema.names else batch
        yield rows.select(columns.names).cast(columns)


def _once(table: Table) -> Table:
    """The table for a transaction that commits at most once. By default pyiceberg retries after another writer's
    commit, without our check of that commit."""
    from pyiceberg.table import Table

    properties = {**table.properties, "commit.retry.num-retries": "0"}
    metadata = table.metadata.model_copy(update={"properties": properties})
    return Table(table.name(), metadata, table.metadata_location, table.io, table.catalog, table.config)


def _data_folder(table: Table) -> Folder:
    """Raises TargetError for a table in a location that a pipeline cannot write to."""
    from moldau.spark.frames.folders import Folder, local_folder

    location = table.location()
    if location.startswith("file:"):
        return local_folder(Path(urlsplit(location).path) / "data")
    if not re.match(OBJECT_STORE, location):
        raise TargetError(f"the Iceberg table lies in {location}, which a pipeline does not write")
    return Folder(f"{location}/data")


def _check_takes(table: Table, wanted: pa.Schema) -> None:
    """Raises FlowError unless the table accepts files with these columns unchanged."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema

    name, schema = f"the Iceberg table {'.'.join(table.name())}", table.schema()
    refuse_partitions(name, not table.spec().is_unpartitioned())
    try:
        gives = _table_columns(pyarrow_to_schema(wanted, name_mapping=schema.name_mapping))
    except ValueError:  # a column that the table lacks
        gives = None
    shown = ", ".join(f"{field.name} {field.type}" for field in wanted)
    check_columns(name, _table_columns(schema), gives, shown=shown)


def _table_columns(schema: Schema) -> dict[str, TableColumn]:
    return {
        field.name: TableColumn(field.field_type, str(field.field_type), not field.required) for field in schema.fields
    }
