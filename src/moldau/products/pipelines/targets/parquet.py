"""A pipeline's Parquet directory: one file for each batch, there whole or not at all.

A batch is written below a hidden directory, joined to one file, flushed to disk, and renamed to
`<pipeline>-<checkpoint's id>-<batch>.parquet`. A batch that a killed driver had written is run again and takes the
place of its own file: any reader of `*.parquet` sees each batch once. (Spark's own file sink leaves empty and doubled
files behind, which only readers that know its `_spark_metadata` leave out.)
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.errors import MoldauError
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.targets.target import Target, TargetQuery

if TYPE_CHECKING:
    from moldau.spark import DataFrame

SPARK_SINK_DIRECTORY = "_spark_metadata"


class ParquetTargetError(MoldauError):
    """The directory cannot be this pipeline's target; the message says why."""


class FilesTarget(Target, frozen=True, kw_only=True):
    NAMED_BY = "path"

    path: Path

    @classmethod
    def parse(cls, sink: Section, directory: Path) -> FilesTarget:
        mode = cls.parse_mode(sink)
        if mode == "update":
            sink.refuse("mode", "update cannot go to files, which only grow; use append, or a topic")
        return cls(mode=mode, path=sink.local_path("path", directory))

    def describe(self) -> tuple[str, str]:
        return f"Parquet files in {self.path}", "exactly once: one file for each batch"

    def check(self) -> None:
        check_target(self.path)

    def writer(self, query: TargetQuery) -> Callable[[DataFrame, int], None]:
        return ParquetTarget(self.path, query.pipeline, query.checkpoint_id).write


class ParquetTarget:
    """Where one pipeline's batches go. `checkpoint_id`: another checkpoint's batch 0 is another file."""

    def __init__(self, directory: Path, pipeline: str, checkpoint_id: str) -> None:
        """Makes the directory, and takes away what a killed driver left half written. Raises ParquetTargetError."""
        check_target(directory)
        self._directory = directory
        self._prefix = f"{pipeline}-{checkpoint_id}"
        self._unfinished = directory / f".unfinished-{self._prefix}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ParquetTargetError(f"{directory} cannot be made: {error.strerror}") from error
        shutil.rmtree(self._unfinished, ignore_errors=True)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """When it returns, the batch is readable. A batch without rows makes no file."""
        import pyarrow.parquet as pq  # a page is checked without it

        from moldau.spark.parquet_parts import flush

        parts_directory = self._unfinished / str(batch_id)
        batch.write.mode("overwrite").parquet(str(parts_directory))
        parts = [path for path in sorted(parts_directory.glob("part-*.parquet")) if pq.read_metadata(path).num_rows]
        target = self._directory / f"{self._prefix}-{batch_id:010}.parquet"
        if parts:
            _join(parts).replace(target)
            flush(self._directory)
        else:
            # what was there of a first try had rows that this one does not have: the batch is what Spark says now
            target.unlink(missing_ok=True)
        shutil.rmtree(self._unfinished, ignore_errors=True)


def check_target(directory: Path) -> None:
    """Raises ParquetTargetError for a directory of Spark's own file sink: Spark reads such a one by its list only."""
    if (directory / SPARK_SINK_DIRECTORY).exists():
        raise ParquetTargetError(
            f"{directory} was written by Spark's own file sink, and Spark would not see what is added to it; "
            "name another directory with `path`"
        )
    if directory.exists() and not directory.is_dir():
        raise ParquetTargetError(f"{directory} is not a directory")


def _join(parts: list[Path]) -> Path:
    """One file of all parts, on disk. A single part is that file already."""
    import pyarrow.parquet as pq

    from moldau.spark.parquet_parts import flush

    joined = parts[0]
    if len(parts) > 1:
        joined = parts[0].with_name("joined.parquet")
        with pq.ParquetFile(parts[0]) as first:
            schema = first.schema_arrow
        with pq.ParquetWriter(joined, schema, compression="snappy") as writer:
            for part in parts:
                with pq.ParquetFile(part) as file:
                    for rows in file.iter_batches():
                        writer.write_batch(rows)
    flush(joined)
    return joined
