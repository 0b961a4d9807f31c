"""A source that gives record batches of Arrow, and a sink that takes them: the tasks of `idle-tasks`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

ROWS = 10_000


class Batches(DataSource):
    """As a source, one record batch of ROWS rows and then nothing; as a sink, a Parquet file in `folder` for each
    batch."""

    def schema(self) -> str:
        return "number BIGINT, text STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return Once()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return Parquet(Path(self.options["folder"]))


class Once(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - the form before Spark 4.2
        return {"rows": ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(end["rows"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        numbers = pa.array(range(partition.value), pa.int64())
        yield pa.RecordBatch.from_arrays([numbers, numbers.cast(pa.string())], names=["number", "text"])


class Parquet(DataSourceStreamArrowWriter):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written: pa.Table | None = None

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._written = pa.Table.from_batches(iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        pq.write_table(self._written, self._folder / f"{batchId}.parquet")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._written = None
