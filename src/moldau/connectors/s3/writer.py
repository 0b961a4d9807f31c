"""The sink: `write` makes the objects of a task's rows, `commit` writes them to the store.

The objects are in the message of the task until then, so a store never has what is not committed. A repeated batch has
the same objects, and they replace those that a crash has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import DataType, StructType

from moldau.connect.contract.columns import SINK_COLUMNS
from moldau.connectors.s3.formats import Encode, encoder
from moldau.connectors.s3.layout import Layout
from moldau.connectors.s3.store import Store
from moldau.connectors.written_batch import WrittenBatch, written_batch
from moldau.errors import MoldauError

MAX_OPEN_OBJECTS: Final = 1_000
"""Objects of a batch that get rows at the same time, in one task."""
MAX_STAGED_BYTES: Final = 512 << 20
"""Bytes of the objects of a batch, in one task."""


class BatchError(MoldauError):
    """A batch that cannot be written."""


@dataclass
class Staged(WriterCommitMessage):
    objects: list[tuple[str, bytes]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Written:
    """What is written of a row. `form`, `compression`: of `formats.encoder`."""

    form: str
    compression: str
    with_record: bool
    max_rows: int


class _Row(NamedTuple):
    """`origin`: topic and partition; None for a row without."""

    content: Any
    value: Any
    origin: tuple[str, int] | None
    offset: int
    timestamp: Any


@dataclass(slots=True)
class _Open:
    first: int
    rows: list[Any]


class S3Writer(DataSourceStreamWriter):
    def __init__(self, store: Store, layout: Layout, written: Written, schema: StructType) -> None:
        self._store = store
        self._layout = layout
        self._written = written
        self._schema = schema
        self._encoder()  # raises for a type that the format lacks, before any row comes

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Raises BatchError, LayoutError."""
        batch = written_batch()
        if batch is None:
            raise BatchError("objects have the number of a batch in their names, and this is no batch of a stream")
        return _Staging(self._layout, self._encoder(), self._written.max_rows, batch).stage(self._rows(iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Raises StoreError."""
        objects = [one for message in messages if isinstance(message, Staged) for one in message.objects]
        if objects:
            self._store.put_all(objects)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """The store has nothing of the batch, or a part that the repeated batch replaces."""

    @property
    def _is_record(self) -> bool:
        return sorted(self._schema.names) == sorted(SINK_COLUMNS)

    def _encoder(self) -> Encode:
        kind: DataType = self._schema
        if self._is_record and not self._written.with_record:
            kind = self._schema["value"].dataType
        return encoder(self._written.form, self._written.compression, kind)

    def _rows(self, rows: Iterator[Any]) -> Iterator[_Row]:
        if not self._is_record:
            for row in rows:
                yield _Row(row, row, None, 0, None)
            return
        names = self._schema.names
        places = [names.index(name) for name in ("value", "topic", "partition", "offset", "timestamp")]
        for row in rows:
            value, topic, partition, offset, timestamp = (row[place] for place in places)
            if self._written.with_record:
                yield _Row(row, value, (topic, partition), offset, timestamp)
            elif value is not None:
                yield _Row(value, value, (topic, partition), offset, timestamp)


class _Staging:
    def __init__(self, layout: Layout, encode: Encode, max_rows: int, batch: WrittenBatch) -> None:
        self._layout = layout
        self._encode = encode
        self._max_rows = max_rows
        self._batch = batch
        self._open: dict[tuple[tuple[str, int] | None, str], _Open] = {}
        self._staged = Staged()
        self._keys: set[str] = set()
        self._size = 0

    def stage(self, rows: Iterator[_Row]) -> Staged:
        counts: dict[str, int] = {}
        for row in rows:
            folders = self._layout.folders(row.value, row.timestamp)
            place = (row.origin, folders)
            found = self._open.get(place)
            if found is None:
                if len(self._open) >= MAX_OPEN_OBJECTS:
                    raise BatchError(f"a batch has more than {MAX_OPEN_OBJECTS} folders: choose coarser ones")
                number = row.offset if row.origin is not None else counts.setdefault(folders, 0)
                found = self._open[place] = _Open(number, [])
            found.rows.append(row.content)
            if len(found.rows) >= self._max_rows:
                self._close(place)
                counts[folders] = counts.get(folders, 0) + 1
        for place in list(self._open):
            self._close(place)
        return self._staged

    def _close(self, place: tuple[tuple[str, int] | None, str]) -> None:
        origin, folders = place
        found = self._open.pop(place)
        if origin is None:
            key = self._layout.of_rows(folders, found.first, self._batch)
        else:
            topic, partition = origin
            key = self._layout.of_record(topic, folders, partition, found.first, self._batch)
        try:
            content = self._encode(found.rows)
        except (ValueError, TypeError, OverflowError) as error:
            raise BatchError(f"{key}: its {len(found.rows)} rows cannot be encoded: {error}") from error
        self._size += len(content)
        if self._size > MAX_STAGED_BYTES:
            raise BatchError(f"a batch has more than {MAX_STAGED_BYTES >> 20} MiB in one task: make batches smaller")
        if key in self._keys:  # transforms have joined two topics, which have equal offsets
            key = f"{key.removesuffix(self._layout.extension)}{len(self._keys)}.{self._layout.extension}"
        self._keys.add(key)
        self._staged.objects.append((key, content))
