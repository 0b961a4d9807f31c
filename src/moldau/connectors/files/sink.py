"""Writes a batch to a staged file next to the target, and publishes it: as a file of its own, or appended to one."""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Final

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import Row, StructType

from moldau.connect.contract.columns import SINK_COLUMNS
from moldau.connectors.files.appending import publish, sync_folder
from moldau.connectors.files.formats import CSV, csv_header, writer_of
from moldau.connectors.files.lines import FileError, TargetError
from moldau.connectors.written_batch import WrittenBatch, written_batch

ROWS_OF_A_CHUNK: Final = 10_000
"""Rows whose text is in memory at once."""
_STAGED: Final = ".moldau-staged-"
ENDINGS: Final = {"lines": "txt", "json": "jsonl", "csv": "csv"}


@dataclass(slots=True)
class Staged(WriterCommitMessage):
    """A staged file; `path` None: the partition had no rows."""

    path: str | None
    query: str
    partition: int


class FileWriter(DataSourceStreamWriter):
    """`is_folder`: each batch of a partition is a file in `target`, with the batch in its name; else `target` is one
    file, to which batches are appended. Raises ValueError if the values do not have the form."""

    def __init__(self, target: Path, is_folder: bool, form: str, schema: StructType, delimiter: str = ",") -> None:
        self._target = target
        self._is_folder = is_folder
        self._form = form
        names = schema.names
        is_record = set(SINK_COLUMNS) <= set(names) or names == ["value"]
        self._at = names.index("value") if is_record else None
        value = schema["value"].dataType if self._at is not None else schema
        self._text = writer_of(form, value, delimiter)
        has_columns = form == CSV and isinstance(value, StructType)
        self._header = csv_header(value, delimiter) if has_columns and isinstance(value, StructType) else b""

    def write(self, iterator: Iterator[Row]) -> Staged:
        return self._staged(lambda path: self._stage(path, iterator))

    def _staged(self, stage: Callable[[Path], int]) -> Staged:
        """`stage` writes a file, and returns its number of rows."""
        found = written_batch() or WrittenBatch(uuid.uuid4().hex, 0, 0)
        folder = self._target if self._is_folder else self._target.parent
        mine = f"{_STAGED}{self._target.name}-{_short(found.query)}-{found.part}-"
        path = folder / f"{mine}{found.batch}-{uuid.uuid4().hex}"
        try:
            self._remove_old(folder, mine, path.name)
            count = stage(path)
        except OSError as error:
            raise TargetError(f"{path} cannot be written: {error.strerror}") from error
        return Staged(str(path) if count else None, found.query, found.part)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        for one in messages:
            if isinstance(one, Staged) and one.path is not None:
                self._publish(one, Path(one.path), batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        for one in messages:
            if isinstance(one, Staged) and one.path is not None:
                Path(one.path).unlink(missing_ok=True)

    def _remove_old(self, folder: Path, mine: str, name: str) -> None:
        """What killed attempts of this partition have left."""
        for old in folder.glob(f"{mine}*"):
            if old.name != name:
                old.unlink(missing_ok=True)

    def _stage(self, path: Path, rows: Iterator[Row]) -> int:
        count = 0
        with path.open("wb") as file:
            while chunk := list(islice(rows, ROWS_OF_A_CHUNK)):
                # tuple's own method, because that of a Row is in Python
                values = chunk if self._at is None else list(map(tuple.__getitem__, chunk, repeat(self._at)))
                if self._is_folder and not count:
                    file.write(self._header)
                file.write(self._text(values))
                count += len(values)
            file.flush()
            os.fsync(file.fileno())
        return count

    def _publish(self, message: Staged, staged: Path, batch: int) -> None:
        if not self._is_folder:
            owner = f"{message.query}/{message.partition}"
            publish(self._target, staged, owner, batch, self._header)
            return
        name = f"part-{_short(message.query)}-{message.partition:05}-{batch:010}.{ENDINGS[self._form]}"
        final = self._target / name
        try:
            if staged.exists():
                staged.replace(final)
                sync_folder(self._target)
            elif not final.exists():
                raise FileError(f"{staged} is gone, and {final} is not there")
        except OSError as error:
            raise TargetError(f"{final} cannot be written: {error.strerror}") from error


def _short(query: str) -> str:
    """Eight characters for the name of a file."""
    return f"{zlib.crc32(query.encode()):08x}"
