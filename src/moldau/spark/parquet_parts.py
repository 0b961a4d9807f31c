"""The rows of a batch as Parquet files, one for each task, for tables whose list of files is committed elsewhere.

Only the files of the attempts whose results Spark counted are named. What a task that was lost had written stays as a
file that nobody names.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_GROUP_BYTES = 64 * 1024 * 1024
"""Of Arrow columns: what a task holds at most, beside the batch that comes in."""


class ParquetPart(msgspec.Struct, frozen=True):
    """One file, on disk."""

    path: Path
    size_bytes: int
    rows: int


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """As which columns the files will be read. Raises PySparkTypeError for a type that Arrow lacks."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def write_parts(frame: DataFrame, directory: Path, prefix: str) -> list[ParquetPart]:
    """Writes the rows to files `<prefix>-<unique>.parquet` of `directory`, which all tasks see. A task without rows
    makes none. When it returns, the files are on disk."""
    directory.mkdir(parents=True, exist_ok=True)
    found = frame.mapInArrow(partial(_write_part, str(directory), prefix), "path string, size bigint, rows bigint")
    parts = [ParquetPart(Path(row.path), row.size, row.rows) for row in found.collect()]
    if parts:
        flush(directory)
    return sorted(parts, key=lambda part: part.path)


def remove_other_parts(directory: Path, prefix: str, parts: Sequence[ParquetPart]) -> None:
    """Removes what other tries with this prefix have left. Call it behind the commit of `parts`, never before: one of
    the others could still commit its own files."""
    named = {part.path.name for part in parts}
    for path in directory.glob(f"{glob.escape(prefix)}-*.parquet"):
        if path.name not in named:
            path.unlink(missing_ok=True)


def _write_part(directory: str, prefix: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with_rows = (batch for batch in batches if batch.num_rows)
    first = next(with_rows, None)
    if first is None:
        return
    path, rows = Path(directory) / f"{prefix}-{uuid4().hex}.parquet", 0
    with path.open("xb") as file:
        # without Arrow's own schema, a timestamp is read as UTC, whatever the time zone of the session
        with pq.ParquetWriter(file, first.schema, compression="snappy", store_schema=False) as writer:
            group, size = [first], first.nbytes
            for batch in with_rows:
                if size + batch.nbytes > ROW_GROUP_BYTES:
                    rows += _write_group(writer, group)
                    group, size = [], 0
                group.append(batch)
                size += batch.nbytes
            rows += _write_group(writer, group)
        file.flush()
        os.fsync(file.fileno())
    yield pa.RecordBatch.from_pylist([{"path": str(path), "size": path.stat().st_size, "rows": rows}])


def _write_group(writer: pq.ParquetWriter, batches: list[pa.RecordBatch]) -> int:
    table = pa.Table.from_batches(batches)
    writer.write_table(table, row_group_size=table.num_rows)
    return int(table.num_rows)


def flush(path: Path) -> None:
    """A file, or the names in a directory, are on disk then."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
