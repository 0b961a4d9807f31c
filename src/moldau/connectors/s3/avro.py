"""Schemas of Avro and their values, for rows of Spark. TIMESTAMP is timestamp-micros, DECIMAL is bytes."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from moldau.connect.contract.schemas import SchemaError

_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_PLAIN: Final[tuple[tuple[type[DataType], Any], ...]] = (
    (BooleanType, "boolean"),
    (ByteType, "int"),
    (ShortType, "int"),
    (IntegerType, "int"),
    (LongType, "long"),
    (FloatType, "float"),
    (DoubleType, "double"),
    (StringType, "string"),
    (BinaryType, "bytes"),
    (DateType, {"type": "int", "logicalType": "date"}),
    (TimestampType, {"type": "long", "logicalType": "timestamp-micros"}),
    (TimestampNTZType, {"type": "long", "logicalType": "local-timestamp-micros"}),
)


def avro_schema(kind: DataType, name: str = "Value") -> Any:
    """`name`: of a record. Raises SchemaError."""
    if isinstance(kind, StructType):
        fields = [_field(one.name, one.dataType, one.nullable, name) for one in kind.fields]
        return {"type": "record", "name": name, "fields": fields}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _optional(kind.elementType, kind.containsNull, f"{name}_item")}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": _optional(kind.valueType, kind.valueContainsNull, f"{name}_value")}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    for spark, made in _PLAIN:
        if isinstance(kind, spark):
            return made
    raise SchemaError(f"Avro has no type for {kind.simpleString()}: the values need a converter with schemas")


def avro_maker(kind: DataType) -> Callable[[Any], Any]:
    """The function that makes what fastavro takes of a value in a row."""
    if isinstance(kind, StructType):
        parts = [(one.name, index, avro_maker(one.dataType)) for index, one in enumerate(kind.fields)]
        return _if_present(lambda value: {name: make(_part(value, name, index)) for name, index, make in parts})
    if isinstance(kind, ArrayType):
        element = avro_maker(kind.elementType)
        return _if_present(lambda value: [element(one) for one in value])
    if isinstance(kind, MapType):
        item = avro_maker(kind.valueType)
        return _if_present(lambda value: {name: item(one) for name, one in value.items()})
    if isinstance(kind, TimestampType):
        return _if_present(lambda value: value.astimezone(dt.UTC))
    if isinstance(kind, BinaryType):
        return _if_present(bytes)
    return lambda value: value


def _field(name: str, kind: DataType, is_optional: bool, record: str) -> dict[str, Any]:
    if not _NAME.fullmatch(name):
        raise SchemaError(f"{name!r} is not a name of Avro: letters, digits and _, without a digit in front")
    made = {"name": name, "type": _optional(kind, is_optional, f"{record}_{name}")}
    return made | ({"default": None} if is_optional else {})


def _optional(kind: DataType, is_optional: bool, name: str) -> Any:
    made = avro_schema(kind, name)
    return ["null", made] if is_optional else made


def _if_present(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(value)


def _part(value: Any, name: str, index: int) -> Any:
    return value.get(name) if isinstance(value, Mapping) else value[index]
