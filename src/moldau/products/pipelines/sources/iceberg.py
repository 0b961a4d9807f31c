"""An Iceberg table as a source: the new rows of each snapshot, once.

    sources:
      orders: {iceberg: shop.orders, warehouse: lake}
      visits: {iceberg: shop.visits, warehouse: s3://lake/shop, catalog: shop.db}      # in an object store

The first batch has the rows of the table at that time; each later batch has the rows of the files that newer snapshots
added. A snapshot that only rewrites files (`replace`) adds no rows. A snapshot that removes rows (`overwrite`,
`delete`) has no meaning for a stream of rows. It is rejected, or with `removed_rows: skip` left out, including the rows
that it adds. (Iceberg's table specification, "Snapshots": `operation`.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.errors import MoldauError
from moldau.extras import require_extra
from moldau.products.pipelines.core.places import places_of_iceberg
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.databases.iceberg import ICEBERG, PLACE_KEYS, open_catalog, parse_table, store_properties
from moldau.products.pipelines.sources.feed_source import (
    FILES,
    REFUSE,
    REMOVED_ROWS,
    SKIP,
    FeedSource,
    as_spark_has,
    last_within,
    parse_removed_rows,
    spark_type,
    within_table,
)
from moldau.products.pipelines.sources.source import MAX_TABLE_FILES, SpecHead

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

NO_SNAPSHOT = -1


class IcebergSourceError(MoldauError):
    """The table cannot be read as a stream of rows; the message says why."""


class IcebergSource(FeedSource, frozen=True, kw_only=True):
    NAMED_BY = (ICEBERG,)
    KEYS = (REMOVED_ROWS, *PLACE_KEYS, MAX_TABLE_FILES)

    table: str
    warehouse: str
    catalog: Path
    removed_rows: str = REFUSE
    max_files: int | None = None

    @classmethod
    def parse(cls, source: Section, head: SpecHead) -> IcebergSource:
        common = cls.parse_common(source)
        table, warehouse, catalog = parse_table(source, head.directory)
        return cls(
            table=table,
            warehouse=warehouse,
            catalog=catalog,
            removed_rows=parse_removed_rows(source, as_table=common["as_table"]),
            max_files=cls.parse_limit(source, MAX_TABLE_FILES),
            **common,
        )

    def describe(self) -> str:
        return f"Iceberg table {self.table} in {self.warehouse}" + ("" if self.as_table else ", snapshot by snapshot")

    def facts(self) -> Facts:
        return {"iceberg": self.table, "warehouse": self.warehouse, "catalog": str(self.catalog)}

    def places(self) -> tuple[str, ...]:
        return places_of_iceberg(self.table, self.warehouse, self.catalog)

    def check(self) -> None:
        require_extra("`iceberg`", "iceberg")
        super().check()

    def feed(self, times: SourceTimes = DEFAULT_TIMES) -> IcebergFeed:
        table = _load(self.table, self.warehouse, self.catalog)
        return IcebergFeed(
            table=self.table,
            warehouse=self.warehouse,
            catalog=self.catalog,
            columns=_columns(table),
            skips_removals=self.removed_rows == SKIP,
            max_files=self.max_files,
        )


class IcebergFile(msgspec.Struct, frozen=True):
    """A data file with its delete files. `metadata`: the table's, as JSON without the history. A task cannot read the
    metadata file itself, because a writer that removes old ones may have removed it by then."""

    task: FileScanTask
    metadata: str


class IcebergFeed(msgspec.Struct, frozen=True):
    """A place is a snapshot: all rows up to it are read. -1: none are. With `files`, only that many files of the table
    in that snapshot are read, by the first batches. `max_files`: per batch; None: no bound."""

    table: str
    warehouse: str
    catalog: Path
    columns: Any  # pa.Schema
    skips_removals: bool
    max_files: int | None = None

    def beginning(self) -> Mapping[str, int]:
        return {"snapshot": NO_SNAPSHOT}

    def end(self, after: Mapping[str, int]) -> Mapping[str, int]:
        newest = self._load().current_snapshot()
        return after if newest is None else {"snapshot": newest.snapshot_id}

    def step(self, after: Mapping[str, int], end: Mapping[str, int]) -> Mapping[str, int]:
        """Reads each later snapshot whole, because its rows belong together. Raises IcebergSourceError."""
        if FILES in after or after["snapshot"] == NO_SNAPSHOT:
            snapshot = after["snapshot"] if FILES in after else end["snapshot"]
            read, most = after.get(FILES, 0), self.max_files
            return within_table({"snapshot": snapshot}, read, most, lambda: len(self._files_of(self._load(), snapshot)))
        if self.max_files is None:
            return end
        table = self._load()
        snapshots = self._between(table, after["snapshot"], end["snapshot"])
        added = ((snapshot.snapshot_id, len(self._added_by(table, snapshot))) for snapshot in snapshots)
        last = last_within(added, self.max_files)
        return end if last is None else {"snapshot": last}

    def parts(self, after: Mapping[str, int], end: Mapping[str, int]) -> Sequence[IcebergFile]:
        """Raises IcebergSourceError for snapshots that are gone, and for snapshots that a stream of rows cannot
        show."""
        from pyiceberg.table import FileScanTask

        if end["snapshot"] == NO_SNAPSHOT:
            return []  # Spark runs the first batch of a stream even without data
        table = self._load()
        if not _columns(table).equals(self.columns):
            raise IcebergSourceError(f"the Iceberg table {self.table} has other columns now: start the pipeline again")
        if FILES in after or after["snapshot"] == NO_SNAPSHOT:
            # a batch of the initial table ends within it or at its end
            return self._files_of(table, end["snapshot"])[after.get(FILES, 0) : end.get(FILES)]
        metadata = _without_history(table)
        return [
            IcebergFile(FileScanTask(file), metadata)
            for snapshot in self._between(table, after["snapshot"], end["snapshot"])
            for file in self._added_by(table, snapshot)
        ]

    def whole(self) -> Sequence[IcebergFile]:
        return self._files_of(self._load(), None)

    def read(self, part: IcebergFile) -> Iterator[pa.RecordBatch]:
        """Columns that were added to the table after the file are null."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io import load_file_io
        from pyiceberg.io.pyarrow import ArrowScan
        from pyiceberg.table.metadata import TableMetadataUtil

        metadata = TableMetadataUtil.parse_raw(part.metadata)
        io = load_file_io({**store_properties(), **metadata.properties}, part.task.file.file_path)
        scan = ArrowScan(metadata, io, metadata.schema(), AlwaysTrue())
        try:
            for batch in scan.to_record_batches([part.task]):
                yield as_spark_has(batch, self.columns)
        except FileNotFoundError as error:
            raise IcebergSourceError(
                f"the file {part.task.file.file_path} of the Iceberg table {self.table} is gone: somebody removed it "
                "before it was read"
            ) from error

    def _load(self) -> Table:
        return _load(self.table, self.warehouse, self.catalog)

    def _files_of(self, table: Table, snapshot: int | None) -> list[IcebergFile]:
        """All files of the table in that snapshot, sorted by name; None: in the current one."""
        if snapshot is not None and table.snapshot_by_id(snapshot) is None:
            raise self._gone(snapshot)
        metadata = _without_history(table)
        tasks = sorted(table.scan(snapshot_id=snapshot).plan_files(), key=lambda task: str(task.file.file_path))
        return [IcebergFile(task, metadata) for task in tasks]

    def _between(self, table: Table, after: int, end: int) -> list[Snapshot]:
        """The snapshots after `after` up to and including `end`, the oldest first."""
        snapshots: list[Snapshot] = []
        at: int | None = end
        while at != after:
            snapshot = None if at is None else table.snapshot_by_id(at)
            if snapshot is None:
                raise self._gone(after)
            snapshots.append(snapshot)
            at = snapshot.parent_snapshot_id
        return snapshots[::-1]

    def _added_by(self, table: Table, snapshot: Snapshot) -> list[DataFile]:
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
        from pyiceberg.table.snapshots import Operation

        operation = Operation.OVERWRITE if snapshot.summary is None else snapshot.summary.operation
        if operation is Operation.REPLACE:
            return []
        if operation is not Operation.APPEND:
            if self.skips_removals:
                return []
            raise IcebergSourceError(
                f"the snapshot {snapshot.snapshot_id} of the Iceberg table {self.table} takes rows away, which a "
                "stream of rows cannot show; `removed_rows: skip` leaves such snapshots out, with the rows that they "
                "add"
            )
        return [
            entry.data_file
            for manifest in snapshot.manifests(table.io)
            # with format version 1, the content is a plain number
            if manifest.added_snapshot_id == snapshot.snapshot_id and manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(table.io)
            # a merged manifest names files of older snapshots too
            if entry.status is ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
        ]

    def _gone(self, snapshot: int) -> IcebergSourceError:
        return IcebergSourceError(
            f"the snapshot {snapshot} is no longer in the history of the Iceberg table {self.table}: it has expired, "
            "or the table went back behind it; `moldau pipeline reset` begins again with the current table"
        )


def _load(name: str, warehouse: str, catalog: Path) -> Table:
    """The table as it is now. Raises IcebergSourceError."""
    from pyiceberg.exceptions import NoSuchTableError
    from sqlalchemy.exc import SQLAlchemyError

    if not catalog.is_file():
        raise IcebergSourceError(f"there is no Iceberg table {name}: the catalogue {catalog} is missing")
    try:
        return open_catalog(warehouse, catalog).load_table(name)
    except NoSuchTableError as error:
        raise IcebergSourceError(f"the catalogue {catalog} has no Iceberg table {name}") from error
    except (SQLAlchemyError, OSError) as error:
        raise IcebergSourceError(f"the Iceberg table {name} cannot be read: {error}") from error


def _without_history(table: Table) -> str:
    """The table's metadata, without the parts that grow with each commit."""
    history: dict[str, Any] = {
        "current_snapshot_id": None,
        "snapshots": [],
        "snapshot_log": [],
        "metadata_log": [],
        "refs": {},
        "statistics": [],
        "partition_statistics": [],
    }
    return table.metadata.model_copy(update=history).model_dump_json()


def _columns(table: Table) -> pa.Schema:
    """With Spark's types, without field ids."""
    import pyarrow as pa
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    columns = schema_to_pyarrow(table.schema(), include_field_ids=False)
    return pa.schema([pa.field(column.name, spark_type(column.type), column.nullable) for column in columns])
