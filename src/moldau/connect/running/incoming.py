"""Records of topics as rows of a sink."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final

from confluent_kafka import Message
from pyspark.sql.types import Row, StructType

from moldau.connect.contract.columns import SINK_COLUMNS, sink_schema
from moldau.connect.contract.describing import RowColumns
from moldau.connect.contract.schemas import row_maker, row_value_maker, to_spark
from moldau.connect.converting.converter import Converter
from moldau.connect.data.record import Record
from moldau.connect.data.schema import Schema, Type
from moldau.connect.running.conversion import Conversion, keeps_bytes, keeps_texts
from moldau.errors import MoldauError

_row_of: Final = row_maker(list(SINK_COLUMNS))
_header_of: Final = row_maker(["key", "value"])
ROWS_AT_ONCE: Final = 1_000
"""Rows that are made at once."""


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


@dataclass(slots=True)
class Incoming:
    """Records that are read together, in parallel lists. A record that is None is left out. Records that converters
    keep as they are stay messages."""

    messages: list[Message] = field(default_factory=list)
    records: list[Record | Message | None] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(self.sizes)

    def ranges(self) -> Mapping[tuple[str, int], tuple[int, int]]:
        """The first offset of each partition, and the one after its last."""
        return positions_of(self)

    def add(self, other: Incoming) -> None:
        self.messages += other.messages
        self.records += other.records
        self.sizes += other.sizes
        self.shapes += other.shapes

    def cut(self, count: int) -> tuple[Incoming, Incoming]:
        """The first `count` records, and the others."""
        return self._columns(lambda column: column[:count]), self._columns(lambda column: column[count:])

    def present(self) -> Incoming:
        """Without those that are left out."""
        if None not in self.records:
            return self
        is_present = [one is not None for one in self.records]
        return self._columns(lambda column: list(compress(column, is_present)))

    def without(self, places: Collection[int]) -> Incoming:
        is_kept = [place not in places for place in range(len(self))]
        return self._columns(lambda column: list(compress(column, is_kept)))

    def ordered(self) -> Incoming:
        """By partition. The client mixes partitions as they arrive, and a batch that is read again must have the order
        that it had."""
        places = [(one.topic(), one.partition()) for one in self.messages]
        if len(set(places)) < 2:
            return self
        order = sorted(range(len(self)), key=places.__getitem__)
        return self._columns(lambda column: [column[place] for place in order])

    def _columns(self, of: Callable[[list[Any]], list[Any]]) -> Incoming:
        return Incoming(of(self.messages), of(self.records), of(self.sizes), of(self.shapes))


class Decoder:
    """Makes `Incoming` of messages."""

    def __init__(self, conversion: Conversion, columns: RowColumns) -> None:
        self._conversion = conversion
        self._keeps_headers = keeps_bytes(conversion.header)
        key, value = _kept(conversion.key), _kept(conversion.value)
        is_kept = columns is RowColumns.RECORD and not conversion.chain.steps and key is not None and value is not None
        self._shape = Shape(key, value) if is_kept else None
        """Of messages that stay as they are."""

    def decode(self, messages: list[Message]) -> Incoming:
        values, keys = [one.value() for one in messages], [one.key() for one in messages]
        sizes = [len(value or b"") + len(key or b"") for value, key in zip(values, keys, strict=True)]
        if self._shape is not None and (self._keeps_headers or not any(one.headers() for one in messages)):
            return Incoming(messages, list(messages), sizes, [self._shape] * len(messages))
        records = [self._conversion.decode(one) for one in messages]
        return Incoming(messages, list(records), sizes, [_shape(one) for one in records])


def _kept(converter: Converter) -> Schema | None:
    """The schema of keys or values that a row has as they are, or as a text in UTF-8."""
    if keeps_bytes(converter):
        return _BYTES
    return _TEXT if keeps_texts(converter) else None


def _shape(record: Record | None) -> Shape:
    return _OPEN if record is None else Shape(_side(record.key_schema, record.key), _value_side(record))


def _side(schema: Schema | None, value: object) -> Side:
    return OPEN if value is None and schema is None else schema


def _value_side(record: Record) -> Side:
    return _side(record.value_schema, record.value)


_OPEN: Final = Shape()
_BYTES: Final = Schema(Type.BYTES, optional=True)
_TEXT: Final = Schema(Type.STRING, optional=True)


class RowMaker:
    """Rows of one shape, with their schema."""

    def __init__(self, shape: Shape, columns: RowColumns, conversion: Conversion) -> None:
        self._conversion = conversion
        self._key = _maker(shape.key)
        self._value = _maker(shape.value)
        self._plain_key, self._plain_value = _plain_maker(shape.key), _plain_maker(shape.value)
        self._is_value = columns is RowColumns.VALUE
        self.schema = _value_schema(shape) if self._is_value else _record_schema(shape)

    def rows(self, batch: Incoming) -> Iterator[Row]:
        """Raises RowError for a record that has no columns."""
        for start in range(0, len(batch), ROWS_AT_ONCE):
            part = batch.records[start : start + ROWS_AT_ONCE]
            messages = [one for one in part if isinstance(one, Message)]
            if len(messages) == len(part):
                yield from self._plain_rows(messages)
            else:
                yield from (self._row(one) for one in part if one is not None)

    def _plain_rows(self, messages: list[Message]) -> Iterator[Row]:
        times = [one.timestamp()[1] for one in messages]
        moments = {one: _local(one) for one in set(times)}
        columns = zip(
            self._plain_key([one.key() for one in messages]),
            self._plain_value([one.value() for one in messages]),
            [one.topic() for one in messages],
            [one.partition() for one in messages],
            [one.offset() for one in messages],
            [moments[one] for one in times],
            [_header_rows(one.headers()) for one in messages],
            strict=True,
        )
        return map(_row_of, columns)

    def _row(self, found: Record | Message) -> Row:
        if isinstance(found, Message):
            return next(self._plain_rows([found]))
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
        return _row_of(values)


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


def _plain_maker(side: Side) -> Callable[[list[bytes | None]], Sequence[bytes | str | None]]:
    if isinstance(side, Schema) and side.type is Type.STRING:
        return lambda found: [None if one is None else one.decode("utf-8", "replace") for one in found]
    return lambda found: found


def _header_rows(headers: Sequence[tuple[str, bytes | None]] | None) -> list[Row] | None:
    return [_header_of(one) for one in headers] if headers else None


def _local(milliseconds: int | None) -> dt.datetime | None:
    """As in Spark's rows: in the zone of the process, without saying so. None for no time."""
    if milliseconds is None or milliseconds < 0:
        return None
    return dt.datetime.fromtimestamp(milliseconds / 1000)


def positions_of(batch: Incoming) -> Mapping[tuple[str, int], tuple[int, int]]:
    """The first offset of each partition, and the one after its last."""
    messages = batch.messages
    last = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
    if len(last) == 1:
        return {place: (messages[0].offset(), end) for place, end in last.items()}
    first = {(one.topic(), one.partition()): one.offset() for one in reversed(messages)}
    return {place: (first[place], end) for place, end in last.items()}
