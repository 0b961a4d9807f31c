"""Schemas and rows of Spark as those of Kafka Connect, and the other way round.

A TIMESTAMP has microseconds in Spark and milliseconds in Kafka Connect: the rest is cut. As in Spark's rows, a
TIMESTAMP without a zone is in the zone of the process.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    Row,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type

PRECISION: Final = "connect.decimal.precision"
"""The parameter of a Decimal's schema that keeps Spark's precision, as Confluent's converters name it."""
MAX_PRECISION: Final = 38

_TO_CONNECT: Final[tuple[tuple[type[DataType], Type, str | None], ...]] = (
    (BooleanType, Type.BOOLEAN, None),
    (ByteType, Type.INT8, None),
    (ShortType, Type.INT16, None),
    (IntegerType, Type.INT32, None),
    (LongType, Type.INT64, None),
    (FloatType, Type.FLOAT32, None),
    (DoubleType, Type.FLOAT64, None),
    (StringType, Type.STRING, None),
    (CharType, Type.STRING, None),
    (VarcharType, Type.STRING, None),
    (BinaryType, Type.BYTES, None),
    (DateType, Type.INT32, DATE),
    (TimestampType, Type.INT64, TIMESTAMP),
    (TimestampNTZType, Type.INT64, TIMESTAMP),
)
_TO_SPARK: Final[Mapping[Type, Callable[[], DataType]]] = {
    Type.BOOLEAN: BooleanType,
    Type.INT8: ByteType,
    Type.INT16: ShortType,
    Type.INT32: IntegerType,
    Type.INT64: LongType,
    Type.FLOAT32: FloatType,
    Type.FLOAT64: DoubleType,
    Type.STRING: StringType,
    Type.BYTES: BinaryType,
}
_LOGICAL: Final[Mapping[str, Callable[[], DataType]]] = {DATE: DateType, TIMESTAMP: TimestampType}


class SchemaError(ValueError):
    """A type that the other side lacks."""


def to_connect(kind: DataType, optional: bool = True, name: str | None = None) -> Schema:
    """`name`: of the struct. Raises SchemaError for a type that Kafka Connect lacks, such as VARIANT."""
    if isinstance(kind, StructType):
        fields = tuple(Field(one.name, to_connect(one.dataType, one.nullable)) for one in kind.fields)
        return Schema(Type.STRUCT, optional, name=name, fields=fields)
    if isinstance(kind, ArrayType):
        return Schema(Type.ARRAY, optional, values=to_connect(kind.elementType, kind.containsNull))
    if isinstance(kind, MapType):
        values = to_connect(kind.valueType, kind.valueContainsNull)
        return Schema(Type.MAP, optional, keys=to_connect(kind.keyType, False), values=values)
    if isinstance(kind, DecimalType):
        parameters = {"scale": str(kind.scale), PRECISION: str(kind.precision)}
        return Schema(Type.BYTES, optional, name=DECIMAL, version=1, parameters=parameters)
    for spark, made, logical in _TO_CONNECT:
        if isinstance(kind, spark):
            return Schema(made, optional, name=logical, version=1 if logical else None)
    raise SchemaError(f"Kafka Connect has no type for {kind.simpleString()}")


def to_spark(schema: Schema | None) -> DataType:
    """None, a value without a schema, is VARIANT; its rows have plain Python values. Raises SchemaError for a Decimal
    without scale."""
    if schema is None:
        return VariantType()
    if schema.type is Type.STRUCT:
        made = StructType()
        for one in schema.fields:
            made.add(StructField(one.name, to_spark(one.schema), one.schema.optional))
        return made
    if schema.type is Type.ARRAY:
        return ArrayType(to_spark(schema.values), schema.values is None or schema.values.optional)
    if schema.type is Type.MAP:
        return MapType(to_spark(schema.keys), to_spark(schema.values), schema.values is None or schema.values.optional)
    if schema.name == DECIMAL:
        return _decimal(schema)
    if schema.name == TIME:
        return LongType()
    return _LOGICAL.get(schema.name or "", _TO_SPARK[schema.type])()


def _decimal(schema: Schema) -> DecimalType:
    try:
        scale = int(schema.parameters["scale"])
        precision = int(schema.parameters.get(PRECISION, MAX_PRECISION))
        return DecimalType(min(max(precision, scale), MAX_PRECISION), scale)
    except (KeyError, ValueError) as error:
        raise SchemaError(f"the schema of a Decimal has the parameters {dict(schema.parameters)}") from error


def value_maker(kind: DataType) -> Callable[[Any], Any]:
    """The function that makes a value of Kafka Connect of a value in a row of Spark."""
    if isinstance(kind, StructType):
        parts = [(one.name, index, value_maker(one.dataType)) for index, one in enumerate(kind.fields)]
        return lambda value: None if value is None else _struct(value, parts)
    if isinstance(kind, ArrayType):
        element = value_maker(kind.elementType)
        return lambda value: None if value is None else [element(one) for one in value]
    if isinstance(kind, MapType):
        key, item = value_maker(kind.keyType), value_maker(kind.valueType)
        return lambda value: None if value is None else {key(name): item(one) for name, one in value.items()}
    if isinstance(kind, DecimalType):
        unit = Decimal(1).scaleb(-kind.scale)
        return lambda value: None if value is None else Decimal(value).quantize(unit)
    if isinstance(kind, TimestampType):
        return lambda value: None if value is None else _to_milliseconds(value.astimezone(dt.UTC))
    if isinstance(kind, TimestampNTZType):
        return lambda value: None if value is None else _to_milliseconds(value.replace(tzinfo=dt.UTC))
    if isinstance(kind, BinaryType):
        return lambda value: bytes(value) if isinstance(value, bytearray | memoryview) else value
    return lambda value: value


def row_value_maker(schema: Schema | None) -> Callable[[Any], Any]:
    """The function that makes a value in a row of Spark of a value of Kafka Connect. A struct becomes a Row."""
    if schema is None:
        return lambda value: value
    if schema.type is Type.STRUCT:
        return _row_maker(schema)
    if schema.type is Type.ARRAY:
        element = row_value_maker(schema.values)
        return lambda value: None if value is None else [element(one) for one in value]
    if schema.type is Type.MAP:
        key, item = row_value_maker(schema.keys), row_value_maker(schema.values)
        return lambda value: None if value is None else {key(name): item(one) for name, one in value.items()}
    if schema.name == TIME:
        return lambda value: None if value is None else _milliseconds_of_day(value)
    if schema.name == TIMESTAMP:
        return lambda value: None if value is None else value.astimezone().replace(tzinfo=None)
    return lambda value: value


def _struct(value: Any, parts: list[tuple[str, int, Callable[[Any], Any]]]) -> dict[str, Any]:
    """`value`: a Row, a tuple in the order of the columns, or a dict."""
    if isinstance(value, Mapping):
        return {name: make(value.get(name)) for name, _, make in parts}
    if len(value) != len(parts):
        raise SchemaError(f"a row has {len(value)} values, its schema {len(parts)} columns")
    return {name: make(value[index]) for name, index, make in parts}


def _row_maker(schema: Schema) -> Callable[[Any], Any]:
    parts = [(one.name, row_value_maker(one.schema)) for one in schema.fields]
    new_row = row_maker([one.name for one in schema.fields])
    return lambda value: None if value is None else new_row([make(value.get(name)) for name, make in parts])


def row_maker(names: list[str]) -> Callable[[Iterable[object]], Row]:
    """Makes rows with these fields of values. `Row(*names)(*values)` costs several times as much."""
    made: Callable[[Iterable[object]], Row] = partial(tuple.__new__, type("Row", (Row,), {"__fields__": names}))
    return made


def _to_milliseconds(moment: dt.datetime) -> dt.datetime:
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _milliseconds_of_day(value: dt.time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
