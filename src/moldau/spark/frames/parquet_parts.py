"""Writes a batch as Parquet files, one for each task, for tables that commit lists of files.

Returns only the files of the attempts whose results Spark counted. The file of a lost task remains, but is not
returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema

from moldau.columnar.equal_keys import with_equal_keys
from moldau.columnar.nested import rebuilt
from moldau.columnar.texts import with_valid_texts
from moldau.spark.frames.columns import map_in_arrow
from moldau.spark.frames.folders import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROW_GROUP_BYTES = 64 * 1024 * 1024
"""The most bytes of Arrow columns that a task holds, besides the incoming batch."""
FILE_BYTES = 4 * ROW_GROUP_BYTES
"""The approximate bytes of Arrow columns in one file that this process writes."""


class ParquetPart(msgspec.Struct, frozen=True):
    """One file, on disk or in its store."""

    name: str
    size_bytes: int
    rows: int


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The columns of the files. Raises PySparkTypeError for a type that Arrow lacks."""
    found = to_arrow_schema(frame.schema, timezone="UTC")
    return pa.schema([field.with_type(_with_microseconds(pa.array([], field.type)).type) for field in found])


def write_parts(frame: DataFrame, folder: Folder, prefix: str, key: Collection[str] = ()) -> list[ParquetPart]:
    """Writes the rows to files `<prefix>-<unique>.parquet` in `folder`, which all tasks must see. A task without rows
    creates none. When it returns, the files are durable. `key`: the columns by which rows replace others; values that
    are equal in SQL are written as one value. Invalid UTF-8 in texts is replaced."""
    folder.make()
    write = partial(_write_stored, folder, prefix, tuple(key))
    found = map_in_arrow(frame, write, "name string, size bigint, rows bigint")
    parts = [ParquetPart(row.name, row.size, row.rows) for row in found.collect()]
    if parts:
        folder.flush()
    return sorted(parts, key=lambda part: part.name)


def write_rows(folder: Folder, prefix: str, batches: Iterator[pa.RecordBatch]) -> list[ParquetPart]:
    """As `write_parts`, for rows in this process."""
    parts = []
    while (first := next(batches, None)) is not None:
        for found in _write_part(folder, prefix, _rows_of_a_file(first, batches)):
            name, size_bytes, rows = (column[0].as_py() for column in found.columns)
            parts.append(ParquetPart(name, size_bytes, rows))
    if parts:
        folder.flush()
    return parts


def _rows_of_a_file(first: pa.RecordBatch, more: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    size, batch = 0, first
    while True:
        size += batch.nbytes
        yield batch
        following = next(more, None) if size < FILE_BYTES else None
        if following is None:
            return
        batch = following


def rows_of_parts(folder: Folder, parts: Sequence[ParquetPart]) -> pa.RecordBatchReader:
    """All rows of the parts (at least one), read lazily."""
    with folder.open(parts[0].name) as source, pq.ParquetFile(source) as first:
        schema = first.schema_arrow

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parts:
            with folder.open(part.name) as source, pq.ParquetFile(source) as file:
                yield from file.iter_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def columns_of_parts(folder: Folder, parts: Sequence[ParquetPart], columns: Sequence[str]) -> pa.Table:
    """These columns of all `parts` (at least one)."""
    tables = []
    for part in parts:
        with folder.open(part.name) as source, pq.ParquetFile(source) as file:
            tables.append(file.read(columns=list(columns)))
    return pa.concat_tables(tables)


def remove_other_parts(folder: Folder, prefix: str, parts: Sequence[ParquetPart]) -> None:
    """Removes the files of other attempts with this prefix. Call it after the commit of `parts`, never before, because
    another attempt could still commit its files."""
    for name in set(folder.names(f"{prefix}-")) - {part.name for part in parts}:
        if name.endswith(".parquet"):
            folder.remove(name)


def _write_stored(
    folder: Folder, prefix: str, key: Collection[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    stored = (_stored(with_valid_texts(with_equal_keys(rows, key), key)) for rows in batches)
    return _write_part(folder, prefix, stored)


def _stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [_with_microseconds(column) for column in rows.columns]
    fields = [field.with_type(column.type) for field, column in zip(rows.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _with_microseconds(column: pa.Array) -> pa.Array:
    """Spark's Arrow times of day have nanoseconds, but many readers support only microseconds."""
    return rebuilt(column, pa.types.is_time64, lambda times: times.cast(pa.time64("us"), safe=False))


def _write_part(folder: Folder, prefix: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with_rows = (batch for batch in batches if batch.num_rows)
    first = next(with_rows, None)
    if first is None:
        return
    name, rows = f"{prefix}-{uuid4().hex}.parquet", 0
    with folder.new_file(name) as file:
        # without Arrow's own schema, readers take a timestamp as UTC, whatever the session's time zone
        with pq.ParquetWriter(file, first.schema, compression="snappy", store_schema=False) as writer:
            group, size = [first], first.nbytes
            for batch in with_rows:
                if size + batch.nbytes > ROW_GROUP_BYTES:
                    rows += _write_group(writer, group)
                    group, size = [], 0
                group.append(batch)
                size += batch.nbytes
            rows += _write_group(writer, group)
        size = file.tell()
    yield pa.RecordBatch.from_pylist([{"name": name, "size": size, "rows": rows}])


def _write_group(writer: pq.ParquetWriter, batches: list[pa.RecordBatch]) -> int:
    table = pa.Table.from_batches(batches)
    writer.write_table(table, row_group_size=table.num_rows)
    return int(table.num_rows)
