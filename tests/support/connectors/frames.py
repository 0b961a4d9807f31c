"""A sink that takes Arrow: each batch is a file with its rows. It rejects rows with the value `refused`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from moldau.connect.handling.stages import RowsRejectedError


class Frames(DataSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return FramesWriter(Path(self.options["folder"]))


class FramesWriter(DataSourceStreamArrowWriter):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows = pa.table({})

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        self._rows = pa.Table.from_batches(iterator)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        refused = [
            (place, "refused rows are refused")
            for place, value in enumerate(self._rows.column("value").to_pylist())
            if value in ("refused", b"refused")
        ]
        if refused:
            raise RowsRejectedError(refused)
        pyarrow.feather.write_feather(self._rows, self._folder / str(batchId))
