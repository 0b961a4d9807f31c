"""Logs the files of an object store that a query has found, in order.

Spark logs local files (see `file_log`), but not those of a store, so the reader keeps this log in the checkpoint. It
has a line of JSON for each file that was found, `["s3://lake/in/a.json", 1234, 1764216000]`, with its size in bytes and
the second in which it was written, to detect that it was replaced. A place in the source is a number of lines, and the
name of the log: {"log": "8c1f...", "files": 12}. Spark writes it to `offsets/<batch>`. Lines are on disk before a place
counts them, and never change, so two places always have the same files between them. A driver that was killed may leave
lines that no place counts; the next driver reads their files next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan, CheckpointError, source_offsets

LOG, FILES = "log", "files"
"""In a place."""


class FoundFile(msgspec.Struct, frozen=True, array_like=True):
    """The size and the time of a file when a look found it. `size`: in bytes. `modified_s`: since 1970; None if the
    store does not give it, and in the lines of older logs, which have two values."""

    address: str
    size: int
    modified_s: int | None = None


class FoundFiles:
    """The log of one reader, its only writer. `path`: None if the log ends with this process. `files`: all that were
    found."""

    def __init__(self, path: Path | None) -> None:
        """Raises CheckpointError."""
        self._path = path
        self.files: list[FoundFile] = []
        self._bytes = 0
        if path is not None:
            self.files, self._bytes = _read(path)
        self._addresses = {file.address for file in self.files}

    def has(self, address: str) -> bool:
        return address in self._addresses

    def add(self, files: Iterable[FoundFile]) -> None:
        """The files are on disk when this returns. Raises CheckpointError."""
        new = list(files)
        if self._path is not None and new:
            lines = msgspec.json.Encoder().encode_lines(new)
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with open(self._path, "r+b" if self._path.exists() else "xb") as log:
                    # overwrites a line that a full disk or a kill has cut
                    log.truncate(self._bytes)
                    log.seek(self._bytes)
                    log.write(lines)
                    log.flush()
                    os.fsync(log.fileno())
            except OSError as error:
                raise CheckpointError(f"{self._path} cannot be written: {error.strerror or error}") from error
            self._bytes += len(lines)
        self.files += new
        self._addresses.update(file.address for file in new)


def found_between(span: BatchSpan, logs: Path) -> list[FoundFile]:
    """The files that the batches of the span have read, from all logs of the query. `logs`: their directory. Raises
    CheckpointError."""
    ends = _places(span.checkpoint, span.last)
    starts = _places(span.checkpoint, span.first - 1) if span.first > 0 else {}
    return [file for log, end in ends.items() for file in FoundFiles(logs / log).files[starts.get(log, 0) : end]]


def _places(checkpoint: Path, batch_id: int) -> dict[str, int]:
    """The number of files that were read, by log."""
    path = checkpoint / "offsets" / str(batch_id)
    if not path.exists():  # Spark keeps the newest hundred batches
        return {}
    places: Iterable[Mapping[str, Any]] = (offset for offset in source_offsets(path) if offset is not None)
    return {str(place[LOG]): int(place[FILES]) for place in places if LOG in place and FILES in place}


def _read(path: Path) -> tuple[list[FoundFile], int]:
    """The files, and the number of bytes of their lines in the log, without an incomplete last line."""
    try:
        whole, end, _ = path.read_bytes().rpartition(b"\n")
        return msgspec.json.Decoder(FoundFile).decode_lines(whole), len(whole + end)
    except FileNotFoundError:
        return [], 0
    except (OSError, msgspec.MsgspecError) as error:
        raise CheckpointError(f"{path}: not the log of a source of files: {error}") from error
