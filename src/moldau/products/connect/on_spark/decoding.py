"""What the tasks of Spark do for a sink: records become rows, and the connector's writer gets them."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message

from moldau.connect.contract.describing import RowColumns
from moldau.connect.handling.dead_letters import DeadLetter
from moldau.connect.handling.stages import RetriableError, error_settings
from moldau.connect.running.arrow import record_batches
from moldau.connect.running.contexts import set_batch
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import Errors
from moldau.connect.running.incoming import Decoder, Incoming, RowMaker, Shape
from moldau.connect.running.partitions import Partition
from moldau.connect.running.protocol import Task
from moldau.products.connect.on_spark.reports import report_of
from moldau.spark.definitions.data_sources import takes_arrow

_NAMES: Final = ("topic", "partition", "offset", "key", "value", "headers")

Run = tuple[int, Shape]
"""The offset of the first of some records, one after the other, and their shape."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Converters and transforms, as in the light task."""

    task: Task
    columns: RowColumns

    def open(self) -> tuple[Conversion, Errors]:
        errors = Errors(error_settings(self.task.config), self.task, threading.Event())
        return Conversion(self.task.config, self.task.defaults, errors), errors


class ShapeError(Exception):
    """A record does not fit the shape of the batch."""


@dataclass(frozen=True, slots=True)
class Looking:
    """Finds the shapes of the records of a batch: a list of Run for each partition of a topic."""

    decoding: Decoding

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        runs: dict[Partition, list[Run]] = {}
        conversion, _ = self.decoding.open()
        decoder = Decoder(conversion, self.decoding.columns)
        try:
            for batch in batches:
                found = decoder.decode(_messages(batch))
                for message, shape in zip(found.messages, found.shapes, strict=True):
                    _extend(runs.setdefault((message.topic(), message.partition()), []), message.offset(), shape)
        finally:
            conversion.close()
        yield report_of(runs)


def _extend(runs: list[Run], offset: int, shape: Shape) -> None:
    joined = runs[-1][1].joined(shape) if runs else None
    if joined is None:
        runs.append((offset, shape))
    else:
        runs[-1] = runs[-1][0], joined


@dataclass(frozen=True, slots=True)
class Written:
    """`message`: of the connector's writer. `differs`: a record does not fit the shape. `retriable`: the words of an
    error that may be gone at the next try. `size`: bytes of keys and values."""

    message: Any = None
    letters: list[DeadLetter] = field(default_factory=list)
    records: int = 0
    size: int = 0
    differs: bool = False
    retriable: str | None = None

    def without_letters(self) -> Written:
        return replace(self, letters=[])


@dataclass(frozen=True, slots=True)
class Writing:
    """Gives the rows of a partition of Spark to the writer. `rejected`: reasons of the target, by the places of rows
    that the writer does not get any more."""

    decoding: Decoding
    shape: Shape
    writer: Any
    query_id: str
    number: int
    rejected: dict[int, str] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        set_batch(self.query_id, self.number)
        conversion, errors = self.decoding.open()
        rows = _Rows(self.decoding.columns, self.shape, conversion, self.rejected)
        try:
            yield report_of(self._written(rows, errors, batches))
        finally:
            conversion.close()

    def _written(self, rows: _Rows, errors: Errors, batches: Iterator[pa.RecordBatch]) -> Written:
        found, name = rows.of(batches), type(self.writer).__qualname__
        try:
            message = self.writer.write(record_batches(found, rows.maker.schema) if takes_arrow(self.writer) else found)
            for _ in found:
                pass  # a writer that stops early gets no say in what is counted
        except RetriableError as error:
            return Written(retriable=str(error))
        except Exception:
            if not rows.differs:
                raise
            return Written(differs=True)
        for one, reason in [*rows.left_out, *((rows.given[place], why) for place, why in _rejected(message))]:
            errors.reject(name, reason, one)
        return Written(message, errors.take_letters(), rows.records, rows.size)


def _rejected(message: Any) -> Collection[tuple[int, str]]:
    return getattr(message, "rejected", ())


class _Rows:
    """`given`: the messages whose rows the writer got. `left_out`: those that the target rejects, with its reasons."""

    def __init__(self, columns: RowColumns, shape: Shape, conversion: Conversion, rejected: dict[int, str]) -> None:
        self.maker = RowMaker(shape, columns, conversion)
        self.given: list[Message] = []
        self.left_out: list[tuple[Message, str]] = []
        self.records = self.size = 0
        self.differs = False
        self._shape = shape
        self._fits = shape
        """The last shape that was compared."""
        self._decoder = Decoder(conversion, columns)
        self._rejected = rejected

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        for batch in batches:
            found = self._decoder.decode(_messages(batch))
            self.records += len(found)
            self.size += sum(found.sizes)
            present = self._without_rejected(found.present())
            for shape in present.shapes:
                self._check(shape)
            self.given += present.messages
            yield from self.maker.rows(present)

    def _without_rejected(self, batch: Incoming) -> Incoming:
        first = len(self.given) + len(self.left_out)
        places = {place - first for place in self._rejected if first <= place < first + len(batch)}
        if not places:
            return batch
        self.left_out += [(batch.messages[place], self._rejected[first + place]) for place in sorted(places)]
        return batch.without(places)

    def _check(self, shape: Shape) -> None:
        if shape is self._fits or (shape.key is self._fits.key and shape.value is self._fits.value):
            return
        if self._shape.joined(shape) != self._shape:
            self.differs = True
            raise ShapeError
        self._fits = shape


def _messages(batch: pa.RecordBatch) -> list[Message]:
    columns = [batch.column(name).to_pylist() for name in _NAMES]
    times = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000).to_pylist()
    return [
        Message(
            topic=topic,
            partition=partition,
            offset=offset,
            key=key,
            value=value,
            headers=[(one["key"], one["value"]) for one in headers] if headers else None,
            timestamp=(TIMESTAMP_CREATE_TIME, time_ms),
        )
        for topic, partition, offset, key, value, headers, time_ms in zip(*columns, times, strict=True)
    ]
