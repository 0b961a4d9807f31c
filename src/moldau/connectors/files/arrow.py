"""Lines as record batches of Arrow, and back: whole blocks of bytes, without an object for each line.

The records are those of the reader and the writer of rows, byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.connectors.files.lines import Folder
from moldau.connectors.files.sink import FileWriter, Staged
from moldau.connectors.files.source import FileReader, Place, Reading, RowsOfRecords

if TYPE_CHECKING:
    import pyarrow as pa


class LinesReader(FileReader):
    """Each line is the value of a record."""

    def __init__(self, folder: Folder, rows: RowsOfRecords, reading: Reading) -> None:
        super().__init__(folder, rows, reading)
        self._topic = rows.topic

    def readArrow(self, start: Place, most: int) -> tuple[list[pa.RecordBatch], Place]:  # noqa: N802 - as Spark's names
        """As `read`: record batches with the columns `topic` and `value`."""
        found, end = self.read_lines(start, most)
        return [_values(block, self._topic) for lines in found for block in lines.blocks], end


class LinesWriter(FileWriter):
    """A line for each value."""

    def writeArrow(self, batches: Iterator[pa.RecordBatch]) -> Staged:  # noqa: N802
        """As `write`, of record batches with the column `value`, which is text or bytes."""
        return self._staged(lambda path: _write(path, batches))


def _values(block: bytes, topic: str) -> pa.RecordBatch:
    """`block`: whole lines, each with its end."""
    import numpy as np
    import pyarrow as pa

    if not block.isascii():
        try:
            block.decode()
        except UnicodeDecodeError:
            block = block.decode("utf-8", "replace").encode()
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    count = len(ends)
    offsets = np.zeros(count + 1, np.int32)
    offsets[1:] = ends - np.arange(count)  # without the ends of the lines before
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block.replace(b"\n", b""))]
    values = pa.Array.from_buffers(pa.binary(), count, buffers)
    return pa.RecordBatch.from_arrays([pa.repeat(pa.scalar(topic), count), values], names=["topic", "value"])


def _write(path: Path, batches: Iterator[pa.RecordBatch]) -> int:
    count = 0
    with path.open("wb") as file:
        for batch in batches:
            file.write(_lines(batch.column("value")))
            count += batch.num_rows
        file.flush()
        os.fsync(file.fileno())
    return count


def _lines(values: Any) -> memoryview:
    """The values with their ends of lines. A null is `null`, as in Kafka's FileStreamSink."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    found = values.cast(pa.binary())
    nothing, end = pa.scalar(b"", pa.binary()), pa.scalar(b"\n", pa.binary())
    joined = pc.binary_join_element_wise(found, nothing, end, null_handling="replace", null_replacement="null")
    _, offsets, data = joined.buffers()
    places = np.frombuffer(offsets, np.int32, len(joined) + 1, joined.offset * 4)
    return memoryview(data)[int(places[0]) : int(places[-1])]
