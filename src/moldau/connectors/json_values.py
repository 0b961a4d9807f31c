"""Values of rows as JSON, and values of JSON as those of rows.

BINARY is base64, DATE and TIMESTAMP are texts of ISO 8601 (TIMESTAMP in UTC), DECIMAL is a text, because a JSON number
loses digits in most programs. A value without a schema (VARIANT) has plain Python values.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
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
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

Make = Callable[[Any], Any]
"""Raises ValueError for a value that does not fit."""

_BITS: Final[Mapping[type[DataType], int]] = {ByteType: 7, ShortType: 15, IntegerType: 31, LongType: 63}


def to_json(value: object) -> str:
    """Compact JSON. Raises ValueError for a number that JSON lacks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)


def free_text(value: str | bytes | bytearray | None) -> bytes:
    if value is None:
        return b"null"
    return value.encode() if isinstance(value, str) else bytes(value)


def json_text(value: str | bytes | bytearray | None) -> bytes:
    """A text that is JSON already, on one line. Raises ValueError for another text."""
    text = free_text(value)
    try:
        found = json.loads(text)
    except ValueError:
        raise ValueError(f"the text is not JSON: {text[:100]!r}") from None
    return to_json(found).encode() if b"\n" in text or b"\r" in text else text


def json_maker(kind: DataType) -> Make:
    """The function that makes what `to_json` takes of a value in a row."""
    if isinstance(kind, StructType):
        parts = [(one.name, index, json_maker(one.dataType)) for index, one in enumerate(kind.fields)]
        return _if_present(lambda value: {name: make(_part(value, name, index)) for name, index, make in parts})
    if isinstance(kind, ArrayType):
        element = json_maker(kind.elementType)
        return _if_present(lambda value: [element(one) for one in value])
    if isinstance(kind, MapType):
        item = json_maker(kind.valueType)
        return _if_present(lambda value: {str(name): item(one) for name, one in value.items()})
    if isinstance(kind, TimestampType):
        return _if_present(lambda value: _utc_text(value.astimezone(dt.UTC)))
    return lambda value: value


def row_maker(kind: StructType) -> Callable[[Any], tuple[Any, ...]]:
    """The function that makes a row of a JSON object. Names that the schema lacks are left out."""
    parts = [(one.name, one.nullable, value_maker(one.dataType)) for one in kind.fields]

    def make(record: Any) -> tuple[Any, ...]:
        if not isinstance(record, dict):
            raise ValueError(f"{_shown(record)} is not an object")
        row = []
        for name, is_nullable, maker in parts:
            value = record.get(name)
            if value is None and not is_nullable:
                raise ValueError(f"{name} is NOT NULL and has no value")
            try:
                row.append(None if value is None else maker(value))
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{name}: {error}") from None
        return tuple(row)

    return make


def value_maker(kind: DataType) -> Make:
    """The function that makes a value in a row of a JSON value that is not null. Raises ValueError for a type that has
    no form in JSON."""
    if isinstance(kind, StructType):
        return row_maker(kind)
    if isinstance(kind, ArrayType):
        element = _or_null(value_maker(kind.elementType))
        return lambda value: [element(one) for one in _of(list, value, kind)]
    if isinstance(kind, MapType):
        item = _or_null(value_maker(kind.valueType))
        if not isinstance(kind.keyType, StringType):
            raise ValueError("the keys of a MAP are STRING in JSON")
        return lambda value: {name: item(one) for name, one in _of(dict, value, kind).items()}
    for one, bits in _BITS.items():
        if isinstance(kind, one):
            return lambda value: _whole(value, bits, kind)
    if isinstance(kind, StringType | CharType | VarcharType):
        return lambda value: value if isinstance(value, str) else to_json(value)
    if isinstance(kind, BooleanType):
        return lambda value: _of(bool, value, kind)
    if isinstance(kind, FloatType | DoubleType):
        return lambda value: _float(value, kind)
    if isinstance(kind, DecimalType):
        return lambda value: _decimal(value, kind)
    if isinstance(kind, DateType):
        return lambda value: dt.date.fromisoformat(_of(str, value, kind))
    if isinstance(kind, TimestampType | TimestampNTZType):
        return lambda value: _moment(_of(str, value, kind), isinstance(kind, TimestampNTZType))
    if isinstance(kind, BinaryType):
        return lambda value: base64.b64decode(_of(str, value, kind), validate=True)
    raise ValueError(f"{kind.simpleString()} has no form in JSON")


def _if_present(make: Make) -> Make:
    return lambda value: None if value is None else make(value)


_or_null = _if_present


def _part(value: Any, name: str, index: int) -> Any:
    return value.get(name) if isinstance(value, Mapping) else value[index]


def _plain(value: object) -> object:
    match value:
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case Decimal():
            return format(value, "f")
        case dt.datetime():
            return value.isoformat() if value.tzinfo is None else _utc_text(value.astimezone(dt.UTC))
        case dt.date() | dt.time():
            return value.isoformat()
        case _ if hasattr(value, "toPython"):  # VariantVal
            return value.toPython()
    raise ValueError(f"{type(value).__name__} has no form in JSON")


def _utc_text(moment: dt.datetime) -> str:
    return moment.replace(tzinfo=None).isoformat() + "Z"


def _of(wanted: type, value: Any, kind: DataType) -> Any:
    if not isinstance(value, wanted):
        raise ValueError(f"{_shown(value)} is not {kind.simpleString()}")
    return value


def _whole(value: Any, bits: int, kind: DataType) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"{_shown(value)} is not {kind.simpleString()}")
    return value


def _float(value: Any, kind: DataType) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_shown(value)} is not {kind.simpleString()}")
    return float(value)


def _decimal(value: Any, kind: DecimalType) -> Decimal:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidOperation
        made = Decimal(str(value))
        if not made.is_finite() or math.floor(made.copy_abs()) >= 10 ** (kind.precision - kind.scale):
            raise InvalidOperation
        return made.quantize(Decimal(1).scaleb(-kind.scale))
    except InvalidOperation:
        raise ValueError(f"{_shown(value)} is not {kind.simpleString()}") from None


def _moment(text: str, is_local: bool) -> dt.datetime:
    """A text without a zone is in UTC."""
    moment = dt.datetime.fromisoformat(text)
    if is_local:
        return moment.replace(tzinfo=None)
    return moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment


def _shown(value: Any) -> str:
    return to_json(value)[:100]
