"""Rows of a source as records of topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from moldau.connect.configuration import ConfigError
from moldau.connect.contract.columns import ENVELOPE_FIELDS, SOURCE_COLUMNS, gives_records, is_envelope
from moldau.connect.contract.schemas import SchemaError, to_connect, value_maker
from moldau.connect.contract.shared_settings import TOPIC
from moldau.connect.converting.converter import Converted, Converter, Role
from moldau.connect.converting.named import new_converter
from moldau.connect.data.record import Header, Record
from moldau.connect.data.schema import Field, Schema, Type
from moldau.connect.running.conversion import Conversion, keeps_bytes, keeps_texts, to_ms
from moldau.connect.running.transactions import Outgoing

Encode = Callable[[Any], Outgoing | None]
Cell = Callable[[Any], Converted]
"""The schema and the value of a key or a value in a row."""

_OPTIONAL_BYTES: Final = Schema(Type.BYTES, optional=True)


def encoder(
    schema: StructType, key_columns: Sequence[str], config: Mapping[str, str], conversion: Conversion
) -> Encode:
    """The function that makes a record of a row; None for a row that a transform leaves out. Raises ConfigError.

    The function raises DataError and SchemaError for a row that does not fit.
    """
    if not gives_records(schema):
        return _values(schema, key_columns, config, conversion)
    places = [schema.names.index(name) for name in SOURCE_COLUMNS]
    kinds = {name: schema[name].dataType for name in SOURCE_COLUMNS}
    general = _records(places, kinds, conversion)
    if conversion.chain.steps or not _is_kept(kinds["value"], conversion.value):
        return general
    return _plain(places, _is_kept(kinds["key"], conversion.key), general)


def rows_of(found: Iterator[Any]) -> Iterator[Any]:
    """Single rows: a reader may give record batches of Arrow."""
    for one in found:
        if type(one) is not tuple and hasattr(one, "to_pylist"):
            yield from one.to_pylist()
        else:
            yield one


def _values(
    schema: StructType, key_columns: Sequence[str], config: Mapping[str, str], conversion: Conversion
) -> Encode:
    topic = config.get(TOPIC, "").strip()
    if not topic:
        raise ConfigError({TOPIC: (f'Missing required configuration "{TOPIC}": the rows of this source name none',)})
    try:
        value_schema = to_connect(schema, optional=False)
    except SchemaError as error:
        raise ConfigError({"connector.class": (f"the schema of the source: {error}",)}) from error
    make, key_of = value_maker(schema), _key_of(value_schema, key_columns)

    def encode(row: Any) -> Outgoing | None:
        value = make(row)
        key_schema, key = key_of(value)
        return conversion.encode(Record(topic, value, value_schema, key, key_schema))

    return encode


def _key_of(schema: Schema, key_columns: Sequence[str]) -> Callable[[dict[str, Any]], Converted]:
    """One column is the key itself, several are a struct."""
    fields = [_field(schema, name) for name in key_columns]
    if not fields:
        return lambda value: (None, None)
    if len(fields) == 1:
        only = fields[0]
        return lambda value: (only.schema, value[only.name])
    key_schema = Schema(Type.STRUCT, fields=tuple(fields))
    return lambda value: (key_schema, {one.name: value[one.name] for one in fields})


def _field(schema: Schema, name: str) -> Field:
    found = schema.get_field(name)
    if found is None:
        columns = ", ".join(one.name for one in schema.fields)
        raise ConfigError({"connector.class": (f"the key column {name} is not in the schema: {columns}",)})
    return found


def _is_kept(kind: DataType, converter: Converter) -> bool:
    """Whether the converter gives keys or values of this type as they are."""
    if isinstance(kind, BinaryType):
        return keeps_bytes(converter)
    return isinstance(kind, StringType) and keeps_texts(converter)


def _plain(places: Sequence[int], is_key_kept: bool, general: Encode) -> Encode:
    """For rows whose values, and keys where `is_key_kept`, need no conversion. Gives the others to `general`."""
    names = list(SOURCE_COLUMNS)
    is_ordered = list(places) == list(range(len(places)))

    def encode(row: Any) -> Outgoing | None:
        cells = row
        if isinstance(row, dict):
            cells = [row[name] for name in names]
        elif not is_ordered:
            cells = [row[place] for place in places]
        topic, partition, key, value, headers, timestamp = cells
        if key is not None and not is_key_kept:
            return general(row)
        pairs = [_pair(one) for one in headers] if headers else ()
        if key is not None:
            key = _sendable(key)
        return topic, _sendable(value), key, partition, to_ms(timestamp) if timestamp is not None else None, pairs

    return encode


def _sendable(kept: bytes | bytearray | str | None) -> bytes | str | None:
    """The producer takes no text with half of a surrogate pair, and no bytearray."""
    if isinstance(kept, str):
        return kept if kept.isascii() else kept.encode("utf-8", "replace")
    return bytes(kept) if isinstance(kept, bytearray) else kept


def _records(places: Sequence[int], kinds: Mapping[str, DataType], conversion: Conversion) -> Encode:
    names = list(SOURCE_COLUMNS)
    key_cell, value_cell = _cell(kinds["key"]), _cell(kinds["value"])

    def encode(row: Any) -> Outgoing | None:
        cells = [row[name] for name in names] if isinstance(row, dict) else [row[place] for place in places]
        topic, partition, key, value, headers, timestamp = cells
        key_schema, made_key = key_cell(key)
        value_schema, made_value = value_cell(value)
        made = tuple(Header(name, _OPTIONAL_BYTES, one) for name, one in map(_pair, headers or ()))
        record = Record(topic, made_value, value_schema, made_key, key_schema, partition, to_ms(timestamp), made)
        return conversion.encode(record)

    return encode


def _cell(kind: DataType) -> Cell:
    if is_envelope(kind):
        converter = new_converter({}, Role.VALUE, "json")
        return lambda value: (None, None) if value is None else converter.to_value("", (), _envelope(value))
    schema, make = to_connect(kind), value_maker(kind)
    return lambda value: (None, None) if value is None else (schema, make(value))


def _envelope(value: Any) -> bytes:
    """`value`: a Row, a tuple or a dict."""
    schema, payload = (value[name] for name in ENVELOPE_FIELDS) if isinstance(value, dict) else value
    return f'{{"schema":{schema or "null"},"payload":{payload or "null"}}}'.encode()


def _pair(header: Any) -> tuple[str, bytes | None]:
    """A header in a row: a Row, a tuple or a dict."""
    name, value = (header["key"], header["value"]) if isinstance(header, dict) else (header[0], header[1])
    return name, bytes(value) if isinstance(value, bytearray) else value
