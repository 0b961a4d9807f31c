"""Files of an object store as a feed: each is found and read once, in order of arrival.

The driver lists the store, and logs new files in the checkpoint (`checkpoints.found_files`) before a batch may read
them; the tasks read. A store cannot list only new files, so a listing costs a request for every thousand files.
Therefore one listing takes all new files, for as many batches as they need. The next one waits until those batches have
begun, and for ten times as long as the last one took.

A file that is gone when its batch is read gives no rows, as on disk. A file that was replaced by then is rejected
(`object_form`), because a batch that is repeated after a crash would have other rows. A file that is replaced later is
not read again, because its name was read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from moldau.products.pipelines.core.patience import keep_trying
from moldau.products.pipelines.sources.feed_source import ROWS_A_BATCH, spark_type, with_texts_of_uuids
from moldau.products.pipelines.sources.file_patterns import fits, split_pattern
from moldau.products.pipelines.sources.object_form import ObjectFilesError, OneForm, ReplacedError

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.products.pipelines.checkpoints.found_files import FoundFile, FoundFiles
    from moldau.spark.source.feeds import Place

logger = logging.getLogger("moldau.pipelines")

FILE_COLUMN = "_file"
LIST_EVERY_SECONDS = 5.0
"""Listing an empty directory costs a request, which the owner of the store pays for."""
LOOK_SHARE = 10
"""Listing takes at most one part in this many of the time between two listings."""
BLOCK_BYTES = 8 << 20
"""Of a file of lines, per request to the store."""
LONGEST_LINE_BYTES = 64 << 20
"""The limit for one Arrow batch of a topic's records. A task holds a line several times."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PARQUET: Mapping[str, Any] = {"coerce_int96_timestamp_unit": "us", "pre_buffer": True}
"""Options to open a Parquet file."""


def check_store(address: str) -> None:
    """Raises ObjectFilesError if the store does not answer, has no such bucket, or the address is a file."""
    from pyarrow import fs

    from moldau.spark.frames.folders import opened, said_by_store  # a pipeline file is checked without this import

    folder, _ = split_pattern(address)
    bucket = "/".join(folder.split("/")[:3])
    try:
        system, root = opened(folder)
        kind = system.get_file_info(root).type
        if kind == fs.FileType.NotFound and folder != bucket:
            kind = system.get_file_info(opened(bucket)[1]).type
    except OSError as error:
        raise ObjectFilesError(f"{address} cannot be read: {said_by_store(error)}") from error
    if kind == fs.FileType.File:
        raise ObjectFilesError(f"{folder} is a file: name its directory, or a pattern")
    if kind == fs.FileType.NotFound:
        raise ObjectFilesError(f"{address} cannot be read: there is no bucket {bucket}")


class ObjectFilesFeed:
    """A place is the name of a log of found files and a number: that many files of the log are read.

    `columns`: of a Parquet file, and FILE_COLUMN; None: files are lines. `logs`: the directory of the logs; None: the
    log ends with this process. `max_files`: per batch. `tasks`: the number that run at once."""

    def __init__(
        self,
        address: str,
        columns: pa.Schema | None = None,
        *,
        logs: Path | None,
        max_files: int,
        tasks: int,
        patience_ms: int,
    ) -> None:
        import pyarrow as pa

        lines = pa.schema([("value", pa.string()), (FILE_COLUMN, pa.string())])
        self.columns = lines if columns is None else columns
        self._address = address
        self._is_parquet = columns is not None
        self._logs = logs
        self._max_files = max_files
        self._tasks = tasks
        self._patience_ms = patience_ms
        self._found: tuple[str, FoundFiles] | None = None
        self._next_look = 0.0

    def beginning(self) -> Place:
        return {"files": 0}

    def end(self, after: Place) -> Place:
        """Raises ObjectFilesError and CheckpointError."""
        log, found = self._log_of(after)
        if len(found.files) <= after["files"] and time.monotonic() >= self._next_look:
            begin = time.monotonic()
            found.add(file for file in self._listed() if not found.has(file.address))
            end = time.monotonic()
            self._next_look = end + max(LIST_EVERY_SECONDS, LOOK_SHARE * (end - begin))
        return after if len(found.files) == after["files"] else {"log": log, "files": len(found.files)}

    def step(self, after: Place, end: Place) -> Place:
        return {**end, "files": min(end["files"], after["files"] + self._max_files)}

    def parts(self, after: Place, end: Place) -> Sequence[list[FoundFile]]:
        """Parts have about the same number of bytes."""
        return self._dealt(self._log_of(end)[1].files[after["files"] : end["files"]])

    def whole(self) -> Sequence[list[FoundFile]]:
        return self._dealt(self._listed())

    def read(self, part: Sequence[FoundFile]) -> Iterator[pa.RecordBatch]:
        """Raises ObjectFilesError."""
        from moldau.spark.frames.folders import said_by_store

        for file in part:
            try:
                yield from self._with_patience(file)
            except (OSError, ValueError) as error:  # Arrow's own errors are among them
                raise ObjectFilesError(f"the file {file.address} cannot be read: {said_by_store(error)}") from error

    def read_again(self, part: Sequence[FoundFile]) -> Iterator[pa.RecordBatch]:
        """The rows that `read` gave, without those of files that were replaced since then. Raises ObjectFilesError."""
        for file in part:
            batches = self.read([file])
            try:
                first = next(batches, None)
            except ReplacedError:
                logger.warning("%s was replaced after it was read: its records are not read again", file.address)
                continue
            if first is not None:
                yield first
                yield from batches

    def _listed(self) -> list[FoundFile]:
        return listed(self._address, self._patience_ms)

    def _log_of(self, place: Place) -> tuple[str, FoundFiles]:
        """The log of a place; for a place without one, the beginning of this process's log. Each reader has its own
        log, because Spark may read a source by two readers in one query."""
        from moldau.products.pipelines.checkpoints.checkpoint import CheckpointError
        from moldau.products.pipelines.checkpoints.found_files import FoundFiles

        name = place.get("log")
        if self._found is None or name not in (None, self._found[0]):
            name = name or uuid4().hex
            self._found = (name, FoundFiles(None if self._logs is None else self._logs / name))
        if len(self._found[1].files) < place["files"]:
            raise CheckpointError(
                f"the checkpoint does not have the first {place['files']:,} files of {self._address} that were read: "
                f"{self._logs}/{name} is cut or gone; `moldau pipeline reset` begins again with the current files"
            )
        return self._found

    def _dealt(self, files: Iterable[FoundFile]) -> list[list[FoundFile]]:
        by_size = sorted(files, key=lambda file: (-file.size, file.address))
        return [by_size[first :: self._tasks] for first in range(min(self._tasks, len(by_size)))]

    def _with_patience(self, file: FoundFile) -> Iterator[pa.RecordBatch]:
        """The batches of a file; none if it is gone. If the store becomes unavailable, opens the file again and skips
        the batches that were already given."""
        from moldau.spark.frames.folders import is_away

        given = 0
        form = OneForm(file)
        batches: Iterator[pa.RecordBatch] | None = None

        def next_batch() -> pa.RecordBatch | None:
            nonlocal batches
            if batches is None:
                batches = islice(self._batches(file.address, form), given, None)
            try:
                return next(batches, None)
            except OSError as error:
                batches = None
                if isinstance(error, FileNotFoundError) and not given:
                    return None
                raise

        while (batch := keep_trying(next_batch, is_away, self._patience_ms, f"the file {file.address}")) is not None:
            yield batch
            given += 1

    def _batches(self, address: str, form: OneForm) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from moldau.spark.frames.folders import opened

        rows = self._rows_of_parquet if self._is_parquet else _lines
        for columns in rows(address, form):
            name = pa.repeat(pa.scalar(address, pa.string()), len(columns[0]))
            yield pa.RecordBatch.from_arrays([*columns, name], schema=self.columns)
        # each piece was a separate request, and Arrow cannot make them conditional (`If-Match`)
        system, path = opened(address)
        with system.open_input_file(path) as stream:
            form.check(stream)

    def _rows_of_parquet(self, address: str, form: OneForm) -> Iterator[list[pa.Array]]:
        """A column that the file lacks is null."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        from moldau.spark.frames.folders import opened

        system, path = opened(address)
        wanted = [column for column in self.columns if column.name != FILE_COLUMN]
        with system.open_input_file(path) as stream:
            form.check(stream)
            with pq.ParquetFile(stream, **PARQUET) as file:
                names = set(file.schema_arrow.names)
                for batch in file.iter_batches(ROWS_A_BATCH, columns=[one.name for one in wanted if one.name in names]):
                    yield [
                        pc.cast(
                            with_texts_of_uuids(batch.column(one.name)),
                            options=pc.CastOptions(one.type, allow_time_truncate=True),
                        )
                        if one.name in names
                        else pa.nulls(batch.num_rows, one.type)
                        for one in wanted
                    ]


def listed(address: str, patience_ms: int) -> list[FoundFile]:
    """All files that exist now, the oldest first. `patience_ms`: for an unavailable store. Raises ObjectFilesError."""
    from moldau.spark.frames.folders import is_away, said_by_store  # a pipeline file is checked without this import

    try:
        return keep_trying(lambda: _listed(address), is_away, patience_ms, f"the list of {address}")
    except OSError as error:
        raise ObjectFilesError(f"{address} cannot be listed: {said_by_store(error)}") from error


def parquet_columns(files: Sequence[FoundFile]) -> pa.Schema:
    """The columns of the newest file with Spark's types, and FILE_COLUMN. Raises ObjectFilesError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from moldau.spark.frames.folders import opened, said_by_store

    if not files:
        raise ObjectFilesError("there is no Parquet file yet")
    system, path = opened(files[-1].address)
    try:
        with system.open_input_file(path) as stream, pq.ParquetFile(stream, **PARQUET) as file:
            schema, stored = file.schema_arrow, file.schema
    except (OSError, ValueError) as error:
        raise ObjectFilesError(f"the file {files[-1].address} cannot be read: {said_by_store(error)}") from error
    if FILE_COLUMN in schema.names:
        raise ObjectFilesError(f"the file {files[-1].address} has a column {FILE_COLUMN}, which is the source's own")
    # the old time type, which Spark writes, has no zone in Arrow but is an instant in Spark
    instants = {one.path for one in map(stored.column, range(len(stored))) if one.physical_type == "INT96"}
    kinds = [pa.timestamp("us", "UTC") if one.name in instants else spark_type(one.type) for one in schema]
    columns = [pa.field(name, kind) for name, kind in zip(schema.names, kinds, strict=True)]
    return pa.schema([*columns, (FILE_COLUMN, pa.string())])


def _listed(address: str) -> list[FoundFile]:
    from pyarrow import fs

    from moldau.products.pipelines.checkpoints.found_files import FoundFile
    from moldau.spark.frames.folders import opened

    folder, pattern = split_pattern(address)
    system, root = opened(folder)
    is_deep = "/" in pattern
    found = system.get_file_info(fs.FileSelector(root, allow_not_found=True, recursive=is_deep))
    ours = [one for one in found if one.is_file and fits(one.path[len(root) + 1 :], pattern)]
    ours.sort(key=lambda one: (one.mtime_ns or 0, one.path))
    return [FoundFile(f"{folder}{one.path[len(root) :]}", one.size, _second(one.mtime_ns)) for one in ours]


def _second(time_ns: int | None) -> int | None:
    return None if time_ns is None else time_ns // 1_000_000_000


def _lines(address: str, form: OneForm) -> Iterator[list[pa.Array]]:
    """Lines as in Spark's `text`: they end with LF, CR LF or CR. Invalid UTF-8 stays as it is."""
    import pyarrow as pa

    from moldau.spark.frames.folders import opened

    system, path = opened(address)
    with system.open_input_stream(path, compression="detect", buffer_size=BLOCK_BYTES) as stream:
        form.check(stream)
        for block in whole_lines(lambda: bytes(stream.read(BLOCK_BYTES))):
            yield [pa.array(block.splitlines(), pa.binary()).view(pa.string())]


def whole_lines(read: Callable[[], bytes]) -> Iterator[bytes]:
    """Blocks of whole lines. `read` gives the next bytes, and b"" at the end. Raises ValueError."""
    open_line: list[bytes] = []
    size = 0
    is_first = True
    while block := read():
        block = block.removeprefix(BYTE_ORDER_MARK) if is_first else block
        is_first = False
        # a CR at the end of the block may be the first half of a CR LF
        end = 1 + max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1))
        if end:
            yield b"".join([*open_line, block[:end]])
            open_line, size = [], 0
        open_line.append(block[end:])
        size += len(open_line[-1])
        if size > LONGEST_LINE_BYTES:
            raise ValueError(f"one of its lines is longer than {LONGEST_LINE_BYTES >> 20} MiB")
    if size:
        yield b"".join(open_line)
