"""One form for the three readers of a source: batches from a place to the next one.

A place is what the topic of offsets has: the reader's own offset, or of a batch reader
{"partition": i, "rows": n, "finished": false}.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Protocol

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from moldau.connect.contract.describing import Reading

Place = dict[str, Any]
FINISHED: Final = "finished"
FIRST_OF_BATCH: Final[Place] = {"partition": 0, "rows": 0, FINISHED: False}
"""The place of a batch reader that has never run."""


@dataclass(slots=True)
class Batch:
    """`rows` is read once, and then `end` gives the place after them."""

    rows: Iterator[Any]
    end: Callable[[], Place]


class Reader(Protocol):
    def first(self) -> Place:
        """The place of a source that has never run."""

    def next(self, place: Place) -> Batch | None:
        """None: nothing is new."""

    def committed(self, place: Place) -> None:
        """The records before this place are in their topics."""

    def close(self) -> None: ...


def open_reader(source: DataSource, reading: Reading, schema: StructType, max_rows: int) -> Reader:
    match reading:
        case Reading.STREAM:
            return StreamReading(source.streamReader(schema))
        case Reading.SIMPLE:
            return SimpleReading(source.simpleStreamReader(schema), max_rows)
        case Reading.BATCH:
            is_repeatable = bool(getattr(source, "is_repeatable", False))
            return BatchReading(source.reader(schema), max_rows, is_repeatable)


def takes_start(reader: DataSourceStreamReader) -> bool:
    """Whether `latestOffset` takes a start and a limit, as since Spark 4.2."""
    return len(inspect.signature(reader.latestOffset).parameters) > 0


def limit_for(reader: SimpleDataSourceStreamReader, max_rows: int) -> tuple[ReadMaxRows, ...]:
    """The further arguments of `read`: a limit, if it has a second parameter."""
    return (ReadMaxRows(max_rows),) * (len(inspect.signature(reader.read).parameters) > 1)


class StreamReading:
    """`streamReader`. Spark 4.2 gives `latestOffset` the start and a limit; readers written before take nothing."""

    def __init__(self, reader: DataSourceStreamReader) -> None:
        self._reader: Any = reader
        self._has_start = takes_start(reader)

    def first(self) -> Place:
        return dict(self._reader.initialOffset())

    def next(self, place: Place) -> Batch | None:
        end = self._latest(place)
        if end == place:
            return None
        parts: Sequence[InputPartition] = self._reader.partitions(place, end)
        return Batch((row for part in parts for row in self._reader.read(part)), lambda: end)

    def _latest(self, place: Place) -> Place:
        if self._has_start:
            return dict(self._reader.latestOffset(place, self._reader.getDefaultReadLimit()))
        return dict(self._reader.latestOffset())

    def committed(self, place: Place) -> None:
        self._reader.commit(place)

    def close(self) -> None:
        self._reader.stop()


class SimpleReading:
    """`simpleStreamReader`. A `read` with a second parameter gets the limit of rows."""

    def __init__(self, reader: SimpleDataSourceStreamReader, max_rows: int) -> None:
        self._reader: Any = reader
        self._limit = limit_for(reader, max_rows)

    def first(self) -> Place:
        return dict(self._reader.initialOffset())

    def next(self, place: Place) -> Batch | None:
        rows, end = self._reader.read(place, *self._limit)
        if end == place:
            return None
        return Batch(iter(rows), lambda: dict(end))

    def committed(self, place: Place) -> None:
        self._reader.commit(place)

    def close(self) -> None:
        stop = getattr(self._reader, "stop", None)
        if callable(stop):
            stop()


class ArrowReading:
    """`simpleStreamReader` with `readArrow`: as `read` with the most rows, but gives record batches."""

    def __init__(self, reader: SimpleDataSourceStreamReader, max_rows: int) -> None:
        self._simple = SimpleReading(reader, max_rows)
        self._reader: Any = reader
        self._max_rows = max_rows

    def first(self) -> Place:
        return self._simple.first()

    def next(self, place: Place) -> Batch | None:
        batches, end = self._reader.readArrow(place, self._max_rows)
        return None if end == place else Batch(iter(batches), lambda: dict(end))

    def committed(self, place: Place) -> None:
        self._simple.committed(place)

    def close(self) -> None:
        self._simple.close()


class BatchReading:
    """`reader`, from its first partition to its last, once.

    A batch is a partition. With `is_repeatable` (each read of a partition gives the same rows in the same order) a
    batch is at most `max_rows` of them, and a task that begins within a partition leaves out the rows before its place.
    """

    def __init__(self, reader: Any, max_rows: int, is_repeatable: bool) -> None:
        self._reader = reader
        self._parts: Sequence[InputPartition] | None = None
        self._max_rows = max_rows if is_repeatable else None
        self._open: Iterator[Any] | None = None
        self._open_at: Place | None = None

    def first(self) -> Place:
        return dict(FIRST_OF_BATCH)

    def next(self, place: Place) -> Batch | None:
        """None once the place is the end."""
        if place[FINISHED]:
            return None
        if self._parts is None:
            self._parts = list(self._reader.partitions())
        if place["partition"] >= len(self._parts):
            return Batch(iter(()), lambda: {**place, FINISHED: True})
        if self._open is None or self._open_at != place:
            self._open = iter(self._reader.read(self._parts[place["partition"]]))
            _skip(self._open, place["rows"])
        self._open_at = None  # a batch that fails is read again from the beginning of its partition
        chunk = _Chunk(self._open, self._max_rows)
        return Batch(iter(chunk), lambda: self._end(place, chunk, len(self._parts or ())))

    def _end(self, place: Place, chunk: _Chunk, parts: int) -> Place:
        if chunk.has_more:
            self._open_at = {**place, "rows": place["rows"] + chunk.count}
            return self._open_at
        self._open = None
        following = place["partition"] + 1
        return {"partition": following, "rows": 0, FINISHED: following >= parts}

    def committed(self, place: Place) -> None:
        """A batch reader is told nothing."""

    def close(self) -> None:
        self._open = None


class _Chunk:
    """At most `most` elements of an iterator. An element of Arrow (a record batch) is one too."""

    def __init__(self, rows: Iterator[Any], most: int | None) -> None:
        self._rows = rows
        self._most = most
        self.count = 0

    @property
    def has_more(self) -> bool:
        """Whether the iterator may have more: the chunk is full."""
        return self._most is not None and self.count >= self._most

    def __iter__(self) -> Iterator[Any]:
        for row in islice(self._rows, self._most):
            self.count += 1
            yield row


def _skip(rows: Iterator[Any], count: int) -> None:
    for _ in islice(rows, count):
        pass
