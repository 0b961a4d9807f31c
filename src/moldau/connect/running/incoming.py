"""Records of topics as rows of a sink."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import Message
from pyspark.sql.types import Row, StructType

from moldau.connect.contract.columns import SINK_COLUMNS, sink_schema
from moldau.connect.contract.describing import RowColumns
from moldau.connect.contract.schemas import new_row, row_value_maker, to_spark
from moldau.connect.data.record import Record
from moldau.connect.data.schema import Schema, Type
from moldau.connect.running.conversion import Conversion, keeps_bytes
from moldau.errors import MoldauError

_COLUMNS: Final = list(SINK_COLUMNS)
_HEADER: Final = ["key", "value"]


class RowError(MoldauError):
    """A record that has no row."""


class Open:
    """The schema of a null: it fits every other one."""


OPEN: Final = Open()
Side = Schema | None | Open
"""The schema of keys or of values; None is a value without a schema."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The schemas of a batch."""

    key: Side = OPEN
    value: Side = OPEN

    def joined(self, other: Shape) -> Shape | None:
        """The shape of both. None: they differ."""
        key, value = _joined(self.key, other.key), _joined(self.value, other.value)
        if isinstance(key, _Differ) or isinstance(value, _Differ):
            return None
        if key is other.key and value is other.value:
            return other  # the same object for all records of a schema, so that the next comparison is short
        return self if key is self.key and value is self.value else Shape(key, value)


class _Differ:
    pass


_DIFFER: Final = _Differ()


def _joined(one: Side, other: Side) -> Side | _Differ:
    if other is one or isinstance(other, Open):
        return one
    if isinstance(one, Open):
        return other
    return one if one == other else _DIFFER


class Incoming(NamedTuple):
    """A record that is read. `record` None: it is left out. With converters that keep bytes it is the message."""

    topic: str
    partition: int
    offset: int
    size: int
    message: Message
    record: Record | Message | None
    shape: Shape


class Decoder:
    """Makes `Incoming` of messages. With converters that keep bytes, and without transforms, messages stay as they
    are."""

    def __init__(self, conversion: Conversion, columns: RowColumns) -> None:
        self._conversion = conversion
        self._is_plain = (
            columns is RowColumns.RECORD
            and keeps_bytes(conversion.key)
            and keeps_bytes(conversion.value)
            and not conversion.chain.steps
        )

    def decode(self, message: Message) -> Incoming:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        size = len(message.value() or b"") + len(message.key() or b"")
        if self._is_plain:
            return Incoming(topic, partition, offset, size, message, message, _BYTES)
        record = self._conversion.decode(message)
        shape = _OPEN if record is None else Shape(_side(record.key_schema, record.key), _value_side(record))
        return Incoming(topic, partition, offset, size, message, record, shape)


def _side(schema: Schema | None, value: object) -> Side:
    return OPEN if value is None and schema is None else schema


def _value_side(record: Record) -> Side:
    return _side(record.value_schema, record.value)


_OPEN: Final = Shape()
_BYTES: Final = Shape(Schema(Type.BYTES, optional=True), Schema(Type.BYTES, optional=True))


class RowMaker:
    """Rows of one shape, with their schema."""

    def __init__(self, shape: Shape, columns: RowColumns, conversion: Conversion) -> None:
        self._conversion = conversion
        self._key = _maker(shape.key)
        self._value = _maker(shape.value)
        self._is_value = columns is RowColumns.VALUE
        self.schema = _value_schema(shape) if self._is_value else _record_schema(shape)

    def row(self, found: Record | Message) -> Row:
        """Raises RowError for a record that has no columns."""
        if isinstance(found, Message):
            return _plain_row(found)
        if self._is_value:
            if found.value is None:
                raise RowError(f"a tombstone has no columns: row.columns is {RowColumns.VALUE}, and the value is null")
            return self._value(found.value)  # type: ignore[no-any-return]
        values = (
            self._key(found.key),
            self._value(found.value),
            found.topic,
            found.partition,
            found.offset,
            _local(found.timestamp_ms),
            _header_rows(self._conversion.encode_headers(found)),
        )
        return new_row(_COLUMNS, values)


def _record_schema(shape: Shape) -> StructType:
    key, value = (None if isinstance(one, Open) else to_spark(one) for one in (shape.key, shape.value))
    return sink_schema(key, value)


def _value_schema(shape: Shape) -> StructType:
    if isinstance(shape.value, Schema):
        found = to_spark(shape.value)
        if isinstance(found, StructType):
            return found
    raise RowError(
        f"row.columns is {RowColumns.VALUE}, and a value is no struct with a schema: use a converter with schemas, "
        f"or {RowColumns.RECORD}"
    )


def _maker(side: Side) -> Callable[[Any], Any]:
    return row_value_maker(None if isinstance(side, Open) else side)


def _plain_row(message: Message) -> Row:
    values = (
        message.key(),
        message.value(),
        message.topic(),
        message.partition(),
        message.offset(),
        _local(message.timestamp()[1]),
        _header_rows(message.headers()),
    )
    return new_row(_COLUMNS, values)


def _header_rows(headers: Sequence[tuple[str, bytes | None]] | None) -> list[Row] | None:
    return [new_row(_HEADER, one) for one in headers] if headers else None


def _local(milliseconds: int | None) -> dt.datetime | None:
    """As in Spark's rows: in the zone of the process, without saying so. None for no time."""
    if milliseconds is None or milliseconds < 0:
        return None
    return dt.datetime.fromtimestamp(milliseconds / 1000)


def positions_of(batch: list[Incoming]) -> Mapping[tuple[str, int], tuple[int, int]]:
    """The first offset of each partition, and the one after its last."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for one in batch:
        place = (one.topic, one.partition)
        found[place] = (found[place][0] if place in found else one.offset, one.offset + 1)
    return found
