"""What the tasks of Spark do for a source: rows become records, and one task sends them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.transactions import TransactionalProducer
from moldau.columnar.writer import TopicWriter
from moldau.connect.handling.stages import error_settings
from moldau.connect.running.conversion import Conversion
from moldau.connect.running.errors import Errors
from moldau.connect.running.outgoing import encoder
from moldau.connect.running.protocol import Task
from moldau.connect.running.transactions import Outgoing
from moldau.errors import InvalidProducerEpochError, ProducerFencedError
from moldau.products.connect.on_spark.reports import report_of
from moldau.spark.definitions.data_sources import rows_of_arrow

if TYPE_CHECKING:
    from moldau.spark import StructType

FENCING: Final = (InvalidProducerEpochError, ProducerFencedError)
"""Errors of a producer that another one has replaced."""
RECORDS: Final = (
    "topic string, partition int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, timestamp timestamp"
)
"""The columns of records, for Spark."""
_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Encoding:
    """Converters and transforms, as in the light task."""

    task: Task
    schema: StructType
    key_columns: Sequence[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        config = self.task.config
        errors = Errors(error_settings(config), self.task, threading.Event())
        conversion = Conversion(config, self.task.defaults, errors)
        try:
            encode = encoder(self.schema, self.key_columns, config, conversion)
            for batch in batches:
                made = map(encode, rows_of_arrow(iter((batch,)), self.schema))
                yield _columns([one for one in made if one is not None])
        finally:
            conversion.close()


def _columns(records: Sequence[Outgoing]) -> pa.RecordBatch:
    topics, values, keys, partitions, times, headers = zip(*records, strict=True) if records else ((),) * 6
    columns: list[list[Any]] = [
        list(topics),
        list(partitions),
        [_as_bytes(one) for one in keys],
        [_as_bytes(one) for one in values],
        [[{"key": name, "value": value} for name, value in one] for one in headers],
        [None if one is None else one * 1000 for one in times],
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _as_bytes(found: bytes | str | None) -> bytes | None:
    return found.encode() if isinstance(found, str) else found


@dataclass(frozen=True, slots=True)
class Sent:
    """What a task has sent. `size`: bytes of keys and values. `is_fenced`: another producer has taken over."""

    records: int = 0
    size: int = 0
    topics: frozenset[str] = frozenset()
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class Sending:
    """Sends the records in the open transaction of this producer, and gives a report when all are acknowledged."""

    access: ClusterAccess
    producer: TransactionalProducer
    compression: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            sent = self._send(batches)
        except FENCING:
            sent = Sent(is_fenced=True)
        yield report_of(sent)

    def _send(self, batches: Iterator[pa.RecordBatch]) -> Sent:
        records = size = 0
        topics: set[str] = set()
        with TopicWriter(self.access, compression=self.compression, had_contact=True, producer=self.producer) as writer:
            for batch in batches:
                writer.write(batch)
                records += batch.num_rows
                size += sum(_size(batch.column(name)) for name in ("key", "value"))
                topics.update(batch.column("topic").unique().to_pylist())
        return Sent(records, size, frozenset(topics))


def _size(column: pa.Array) -> int:
    import pyarrow.compute as pc

    return pc.sum(pc.binary_length(column)).as_py() or 0
