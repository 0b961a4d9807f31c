"""A Delta table as a source: the new rows of each version, once.

    sources:
      orders: {delta: lake/orders}
      visits: {delta: s3://lake/visits}                         # in an object store

The first batch has the rows of the table at that time; each later batch has the rows of the files that newer versions
added. Versions that only compact small files add no rows. A version that removes rows (a merge, an update, a delete)
has no meaning for a stream of rows. It is rejected, or with `removed_rows: skip` left out, including the rows that it
adds. (Delta protocol, "Add File and Remove File": `dataChange`.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from moldau.errors import MoldauError
from moldau.extras import require_extra
from moldau.products.pipelines.core.keys import PathOrAddress
from moldau.products.pipelines.core.places import one_spelling
from moldau.products.pipelines.core.plan import Facts
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.core.times import DEFAULT_TIMES, SourceTimes
from moldau.products.pipelines.sources.feed_source import (
    FILES,
    REFUSE,
    REMOVED_ROWS,
    ROWS_A_BATCH,
    SKIP,
    FeedSource,
    last_within,
    parse_removed_rows,
    within_table,
)
from moldau.products.pipelines.sources.source import MAX_TABLE_FILES, SpecHead

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark.frames.folders import Folder
    from moldau.spark.source.feeds import Place

DELTA = PathOrAddress("delta", "A [Delta table](sources.md#delta-tables).")
READ_FEATURES = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Reader features of Delta that do not change the files."""


COMMIT = "commit"
"""In a place: a hash of the version's entry in the table's log, which differs between tables."""
COMMIT_BYTES = 64 << 10


class DeltaSourceError(MoldauError):
    """The table cannot be read as a stream of rows; the message says why."""


class DeltaSource(FeedSource, frozen=True, kw_only=True):
    NAMED_BY = (DELTA,)
    KEYS = (REMOVED_ROWS, MAX_TABLE_FILES)

    location: str
    removed_rows: str = REFUSE
    max_files: int | None = None

    @classmethod
    def parse(cls, source: Section, head: SpecHead) -> DeltaSource:
        common = cls.parse_common(source)
        return cls(
            location=DELTA.of(source, head.directory),
            removed_rows=parse_removed_rows(source, as_table=common["as_table"]),
            max_files=cls.parse_limit(source, MAX_TABLE_FILES),
            **common,
        )

    def describe(self) -> str:
        return f"Delta table {self.location}" + ("" if self.as_table else ", version by version")

    def facts(self) -> Facts:
        return {"delta": self.location}

    def places(self) -> tuple[str, ...]:
        return (one_spelling(self.location),)

    def check(self) -> None:
        require_extra("`delta`", "delta")
        super().check()

    def feed(self, times: SourceTimes = DEFAULT_TIMES) -> DeltaFeed:
        import pyarrow as pa
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(self.location)
        except (DeltaError, OSError) as error:
            raise DeltaSourceError(f"{self.location} is no Delta table that can be read: {error}") from error
        metadata, protocol = table.metadata(), table.protocol()
        unknown = sorted(set(protocol.reader_features or ()) - READ_FEATURES)
        if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            unknown.append("columnMapping")
        if unknown:
            raise DeltaSourceError(f"the Delta table {self.location} has {unknown[0]}, which a pipeline cannot read")
        return DeltaFeed(
            location=self.location,
            columns=pa.schema(table.schema()),
            partitioned_by=tuple(metadata.partition_columns),
            skips_removals=self.removed_rows == SKIP,
            max_files=self.max_files,
        )


class DeltaFile(msgspec.Struct, frozen=True):
    """A Parquet file of the table, by its path in it. `partition`: the values of the partition columns, as text."""

    path: str
    partition: Mapping[str, str | None]


class DeltaFeed(msgspec.Struct, frozen=True):
    """A place is a version: all rows up to it are read. -1: none are. With `files`, only that many files of the table
    in that version are read, by the first batches. `commit` detects a version of the same number in a table that was
    created again. `max_files`: per batch; None: no bound."""

    location: str
    columns: Any  # pa.Schema
    partitioned_by: tuple[str, ...]
    skips_removals: bool
    max_files: int | None = None

    def beginning(self) -> Place:
        return {"version": -1}

    def end(self, after: Place) -> Place:
        """Raises DeltaSourceError if the table is not the one that was read before: its versions up to that one would
        never be read."""
        found = (re.fullmatch(r"(\d{20})\.json", name) for name in self._log.names())
        newest = max((int(name[1]) for name in found if name), default=-1)
        if newest < after["version"]:
            now = "has no version now" if newest < 0 else f"has version {newest} as its newest one now"
            raise DeltaSourceError(
                f"the Delta table {self.location} {now}, and version {after['version']} of it was read before: it was "
                "made anew, or put back; `moldau pipeline reset` begins again with the current table"
            )
        # places of older releases have no commit; after log cleanup, nothing is left to compare with
        if COMMIT in after and self._commit_of(after["version"]) not in (None, after[COMMIT]):
            raise DeltaSourceError(
                f"version {after['version']} of the Delta table {self.location} is another one than was read before: "
                "the table was created again, or put back; `moldau pipeline reset` begins again with the current table"
            )
        return after if newest == after["version"] and FILES not in after else self._place(newest)

    def step(self, after: Place, end: Place) -> Place:
        """Reads each later version whole, because its rows belong together. Raises DeltaSourceError."""
        if FILES in after or after["version"] < 0:
            version = after["version"] if FILES in after else end["version"]
            read, most = after.get(FILES, 0), self.max_files
            return within_table(self._place(version), read, most, lambda: len(self._files_of(version)))
        if self.max_files is None:
            return end
        versions = range(after["version"] + 1, end["version"] + 1)
        last = last_within(((version, len(self._added_by(version))) for version in versions), self.max_files)
        return end if last is None else self._place(last)

    def parts(self, after: Place, end: Place) -> Sequence[DeltaFile]:
        """Raises DeltaSourceError for versions that are gone, and for versions that a stream of rows cannot show."""
        if FILES in after or after["version"] < 0:
            # a batch of the initial table ends within it or at its end
            return self._files_of(end["version"])[after.get(FILES, 0) : end.get(FILES)]
        versions = range(after["version"] + 1, end["version"] + 1)
        return [file for version in versions for file in self._added_by(version)]

    def whole(self) -> Sequence[DeltaFile]:
        return self._files_of(None)

    def read(self, part: DeltaFile) -> Iterator[pa.RecordBatch]:
        """Columns that were added to the table after the file are null."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        from moldau.spark.frames.folders import opened

        stored = pa.schema([column for column in self.columns if column.name not in self.partitioned_by])
        options = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
        is_elsewhere = "://" in part.path or part.path.startswith("/")  # a cloned table names files of others
        files, path = opened(part.path if is_elsewhere else self.location)
        path = path if is_elsewhere else f"{path}/{part.path}"
        try:
            file = ds.dataset(path, schema=stored, format=ds.ParquetFileFormat(read_options=options), filesystem=files)
            for batch in file.to_batches(batch_size=ROWS_A_BATCH):
                yield pa.RecordBatch.from_arrays(
                    [
                        _repeated(part.partition.get(column.name), column.type, batch.num_rows)
                        if column.name in self.partitioned_by
                        else batch.column(column.name)
                        for column in self.columns
                    ],
                    schema=self.columns,
                )
        except FileNotFoundError as error:
            raise DeltaSourceError(
                f"the file {part.path} of the Delta table is gone: a vacuum removed it before it was read"
            ) from error

    @property
    def _log(self) -> Folder:
        from moldau.spark.frames.folders import Folder  # a pipeline file is checked without this import

        return Folder(self.location).inside("_delta_log")

    def _place(self, version: int) -> Place:
        commit = self._commit_of(version)
        return {"version": version} if commit is None else {"version": version, COMMIT: commit}

    def _commit_of(self, version: int) -> str | None:
        """None if the log lacks the version, such as one older than the log's retention.

        The size and the first bytes suffice, because they hold the names of the version's files, each with a unique id.
        """
        if version < 0:
            return None
        try:
            with self._log.open(f"{version:020}.json") as file:
                return blake2b(b"%d " % file.size() + file.read(COMMIT_BYTES), digest_size=8).hexdigest()
        except FileNotFoundError:
            return None

    def _files_of(self, version: int | None) -> list[DeltaFile]:
        """All files of the table in that version; None: in the newest one."""
        import pyarrow as pa
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        try:
            table = DeltaTable(self.location, version=version)
        except (DeltaError, OSError) as error:
            raise DeltaSourceError(f"version {version} of {self.location} cannot be read: {error}") from error
        files = sorted(pa.table(table.get_add_actions()).to_pylist(), key=lambda file: str(file["path"]))
        return [self._file(file["path"], file.get("partition") or {}) for file in files]

    def _added_by(self, version: int) -> list[DeltaFile]:
        try:
            with self._log.open(f"{version:020}.json") as file:
                text = file.read().decode()
        except FileNotFoundError as error:
            raise DeltaSourceError(
                f"version {version} is gone from the log of the Delta table {self.location}: it was not read for "
                "longer than the table keeps its log; `moldau pipeline reset` begins again with the current table"
            ) from error
        actions = [json.loads(line) for line in text.splitlines()]
        if any(one["remove"].get("dataChange", True) for one in actions if "remove" in one):
            if self.skips_removals:
                return []
            raise DeltaSourceError(
                f"version {version} of the Delta table {self.location} takes rows away, which a stream of rows cannot "
                "show; `removed_rows: skip` leaves such versions out, with the rows that they add"
            )
        for one in actions:
            if "metaData" in one:
                self._check_columns(version, one["metaData"]["schemaString"])
        added = [one["add"] for one in actions if "add" in one and one["add"].get("dataChange", True)]
        return [self._file(one["path"], one["partitionValues"]) for one in added]

    def _check_columns(self, version: int, schema: str) -> None:
        import pyarrow as pa
        from deltalake import Schema

        if not pa.schema(Schema.from_json(schema)).equals(self.columns):
            raise DeltaSourceError(
                f"version {version} of the Delta table {self.location} has other columns: start the pipeline again"
            )

    def _file(self, path: str, partition: Mapping[str, object]) -> DeltaFile:
        texts = {name: None if value is None else str(value) for name, value in partition.items()}
        return DeltaFile(unquote(path), texts)


def _repeated(text: str | None, kind: pa.DataType, count: int) -> pa.Array:
    import pyarrow as pa

    return pa.repeat(pa.scalar(text, pa.string()).cast(kind), count)
