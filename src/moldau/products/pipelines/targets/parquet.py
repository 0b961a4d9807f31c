"""A directory of Parquet files as a target: one file for each batch, complete or absent.

    sink: {path: out/visits}
    sink: {path: s3://lake/visits}                              # in an object store

A batch is written to a hidden directory, joined into one file, and renamed to `<pipeline>-<checkpoint's
id>-<batch>.parquet`. If a killed driver had written a batch, the repeated batch replaces that file, so any reader of
`*.parquet` sees each batch once. (Spark's own file sink leaves empty and duplicate files, which only readers of its
`_spark_metadata` skip.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.products.pipelines.core.keys import PathOrAddress
from moldau.products.pipelines.core.places import one_spelling
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.targets import folder_owner
from moldau.products.pipelines.targets.rights import check_folder
from moldau.products.pipelines.targets.target import (
    MODE,
    NANOSECOND_TIME,
    Owner,
    Target,
    TargetError,
    TargetQuery,
    refuse_double_columns,
    refuse_empty_structs,
    refuse_types,
)

if TYPE_CHECKING:
    from moldau.spark import DataFrame
    from moldau.spark.frames.folders import Folder
    from moldau.spark.frames.parquet_parts import ParquetPart

PATH = PathOrAddress("path", "A directory of [Parquet files](targets.md#parquet-files); only `mode: append`.")
SPARK_SINK_DIRECTORY = "_spark_metadata"
JOINED = "joined.parquet"
_LACKS = ("variant", "interval(?! (?:day|hour|minute|second))", NANOSECOND_TIME)
"""Spark types, for `refuse_types`: Arrow cannot write intervals of months."""


class FilesTarget(Target, frozen=True, kw_only=True):
    NAMED_BY = PATH

    location: str

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> FilesTarget:
        mode = cls.parse_mode(sink)
        if mode == "update":
            sink.refuse(MODE, "update cannot go to files, which only grow; use append, or a topic")
        return cls(mode=mode, location=PATH.of(sink, directory))

    def describe(self) -> tuple[str, str]:
        return f"Parquet files in {self.location}", "exactly once: one file for each batch"

    def check(self) -> None:
        check_target(self.location)

    def check_rights(self) -> None:
        check_folder(self.location)

    def places(self) -> tuple[str, ...]:
        return (one_spelling(self.location),)

    def owner(self) -> Owner | None:
        return folder_owner.owner_of(self.location)

    def claim(self, pipeline: str) -> None:
        folder_owner.claim(self.location, pipeline)

    def rows_of(self, result: DataFrame) -> DataFrame:
        refuse_double_columns(result.columns)
        refuse_empty_structs(result.dtypes, "Parquet")
        refuse_types(result, _LACKS, self.NAMED_BY)
        return result

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        return ParquetTarget(self.location, query.pipeline, query.checkpoint_id).write


class ParquetTarget:
    """Writes the batches of one pipeline. `checkpoint_id`: part of the file name, so another checkpoint's batch 0 is a
    different file."""

    def __init__(self, location: str, pipeline: str, checkpoint_id: str) -> None:
        """Creates the directory, and removes unfinished files of a killed driver. Raises TargetError."""
        from moldau.spark.frames.folders import Folder  # a pipeline file is checked without this import

        check_target(location)
        self._folder = Folder(location)
        self._prefix = f"{pipeline}-{checkpoint_id}"
        self._unfinished = self._folder.inside(f".unfinished-{self._prefix}")
        try:
            self._folder.make()
            self._unfinished.clear()
        except OSError as error:
            raise folder_owner.cannot_be_made(location, error) from error

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """When it returns, the batch is readable. A batch without rows creates no file."""
        from moldau.spark.frames.parquet_parts import write_parts

        parts = write_parts(batch, self._unfinished, f"part-{batch_id}")
        target = f"{self._prefix}-{batch_id:010}.parquet"
        if parts:
            self._unfinished.move(_join(self._unfinished, parts), self._folder, target)
        else:
            # removes the file of a first attempt, whose rows the repeated batch no longer has
            self._folder.remove(target)
        self._unfinished.clear()


def check_target(location: str) -> None:
    """Raises TargetError for a directory of Spark's own file sink, which Spark reads only by its list of files."""
    if Path(location, SPARK_SINK_DIRECTORY).exists():
        raise TargetError(
            f"{location} was written by Spark's own file sink, and Spark would not see what is added to it; "
            "name another directory with `path`"
        )
    if Path(location).is_file():
        raise TargetError(f"{location} is not a directory")


def _join(folder: Folder, parts: Sequence[ParquetPart]) -> str:
    """The name of one file with all parts. A single part already is that file."""
    import pyarrow.parquet as pq

    from moldau.spark.frames.parquet_parts import rows_of_parts

    if len(parts) == 1:
        return parts[0].name
    rows = rows_of_parts(folder, parts)
    with (
        folder.new_file(JOINED) as file,
        pq.ParquetWriter(file, rows.schema, compression="snappy", store_schema=False) as writer,
    ):
        for batch in rows:
            writer.write_batch(batch)
    return JOINED
