"""A table of odd values of every Avro type. It must include each new type.

`read`: an encoded value, below its logical type, and its cell, or NoCell. `refused`: values of a column that the type
does not have, each with the type of that column."""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from tests.avro_pairs.encoding import Json

MEGABYTE = 1_000_000
INT, LONG = 1 << 31, 1 << 63
DAY_MS = 86_400_000
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
FIRST_MS, LAST_MS = FIRST_DAY * DAY_MS, (LAST_DAY + 1) * DAY_MS - 1
FIRST = datetime.datetime(1, 1, 1)
LAST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
ID = "123e4567-E89B-12d3-a456-426614174000"
NOT_UTF8 = b"a\xff\xfe"
_WIDE = Context(prec=60)
FLOAT_MOST, DOUBLE_MOST = 3.4028234663852886e38, 1.7976931348623157e308


class NoCell(NamedTuple):
    """The record is a dead letter whose reason has this text."""

    reason: str


class Odd(NamedTuple):
    schema: Json
    read: list[tuple[Any, Any]]
    refused: list[tuple[pa.DataType, Any]]


def utc(moment: datetime.datetime) -> datetime.datetime:
    return moment.replace(tzinfo=datetime.UTC)


def logical(kind: str, name: str, **more: int) -> Json:
    return {"type": kind, "logicalType": name, **more}


def _moments(name: str, per_ms: int, *, is_local: bool) -> Odd:
    last = LAST if per_ms > 1 else LAST.replace(microsecond=999_000)
    of = (lambda moment: moment) if is_local else utc
    first, end = FIRST_MS * per_ms, (LAST_MS + 1) * per_ms - 1
    far = [(one, NoCell("outside of the years 1 to 9999")) for one in (first - 1, end + 1, LONG - 1, -LONG)]
    near = [(0, of(datetime.datetime(1970, 1, 1))), (-1, of(datetime.datetime(1970, 1, 1)) - _one(per_ms))]
    other = pa.timestamp("us", "UTC") if is_local else pa.timestamp("us")
    refused = [(other, FIRST), (pa.string(), "1970-01-01"), (pa.date32(), datetime.date(1970, 1, 1))]
    return Odd(logical("long", name), [*near, (first, of(FIRST)), (end, of(last)), *far], refused)


def _one(per_ms: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=1) / per_ms


def _times(kind: str, name: str, per_ms: int) -> Odd:
    last = datetime.time(23, 59, 59, 999_999 if per_ms > 1 else 999_000)
    far = [(one, NoCell("outside of the day")) for one in (-1, DAY_MS * per_ms)]
    return Odd(logical(kind, name), [(0, datetime.time()), (DAY_MS * per_ms - 1, last), *far], [(pa.string(), "0:00")])


def _decimals(schema: Json) -> Odd:
    most = 10**38 - 1

    def raw(number: int) -> bytes:
        return number.to_bytes(schema.get("size") or number.bit_length() // 8 + 1, "big", signed=True)

    cells = [(raw(number), Decimal(number).scaleb(-2, _WIDE)) for number in (0, 1, -1, most, -most)]
    far = [(raw(most + 1), NoCell("no decimal of 38 digits"))]
    empty = [(b"", NoCell("no decimal of 38 digits"))] if schema["type"] == "bytes" else []
    refused = [(pa.decimal128(38, 3), Decimal("0.001")), (pa.decimal128(38, 0), Decimal(10) ** 37), (pa.string(), "1")]
    return Odd({**schema, "logicalType": "decimal", "precision": 38, "scale": 2}, [*cells, *far, *empty], refused)


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]}
FLOATS = [0.0, -0.0, float("nan"), float("inf"), float("-inf")]
NO_TEXT = (NOT_UTF8, NoCell("can't decode byte 0xff"))


def same(*values: Any) -> list[tuple[Any, Any]]:
    """Values whose cells are the encoded values."""
    return [(value, value) for value in values]


ODD_VALUES: dict[str, Odd] = {
    "null": Odd("null", same(None), [(pa.int32(), 0)]),
    "boolean": Odd("boolean", same(True, False), [(pa.int32(), 1), (pa.string(), "true"), (pa.bool_(), None)]),
    "int": Odd(
        "int",
        [*same(0, -1, INT - 1, -INT), (INT, NoCell("does not fit its column"))],
        [(pa.int64(), INT), (pa.int64(), -INT - 1), (pa.float64(), 1.5), (pa.bool_(), True), (pa.int32(), None)],
    ),
    "long": Odd(
        "long", same(0, -1, LONG - 1, -LONG), [(pa.decimal128(20), Decimal(LONG)), (pa.float64(), float("nan"))]
    ),
    "float": Odd(
        "float",
        same(*FLOATS, FLOAT_MOST, -FLOAT_MOST, 2.0**-149),
        [(pa.float64(), DOUBLE_MOST), (pa.float64(), -1e39), (pa.string(), "NaN"), (pa.float32(), None)],
    ),
    "double": Odd("double", same(*FLOATS, DOUBLE_MOST, -DOUBLE_MOST, 5e-324), [(pa.string(), "NaN")]),
    "bytes": Odd("bytes", same(b"", b"\0", NOT_UTF8, b"x" * MEGABYTE), [(pa.string(), "a"), (pa.binary(), None)]),
    "string": Odd("string", [*same("", "\0", "č😀", "x" * MEGABYTE), NO_TEXT], [(pa.binary(), b"a"), (pa.int32(), 1)]),
    "fixed": Odd(FIXED, same(b"\0\0", b"\xff\xfe"), [(pa.binary(), b""), (pa.binary(), b"abc"), (pa.string(), "ab")]),
    "enum": Odd(
        ENUM,
        [(0, "A"), (1, "B"), (2, NoCell("has no symbol 2")), (-1, NoCell("has no symbol -1"))],
        [(pa.string(), "C"), (pa.string(), ""), (pa.int32(), 0)],
    ),
    "array": Odd(
        {"type": "array", "items": "long"},
        same([], [LONG - 1, -LONG], [0] * 10_000),
        [(pa.list_(pa.float64()), [1.5]), (pa.list_(pa.int64()), [None]), (pa.string(), "[]")],
    ),
    "map": Odd(
        {"type": "map", "values": "long"},
        [
            *[(one, list(one.items())) for one in ({}, {"": 0}, {"č": -LONG}, {"x" * MEGABYTE: 1})],
            ({NOT_UTF8: 1}, NO_TEXT[1]),
        ],
        [(pa.map_(pa.string(), pa.int64()), [("a", None)]), (pa.map_(pa.int64(), pa.int64()), [(1, 1)])],
    ),
    "record": Odd(
        INNER,
        [*same({"a": -LONG, "b": ""}), ({"a": 0, "b": NOT_UTF8}, NO_TEXT[1])],
        [(pa.struct({"a": pa.int64()}), {"a": 1}), (pa.string(), "{}")],
    ),
    "date": Odd(
        logical("int", "date"),
        [
            (0, datetime.date(1970, 1, 1)),
            (FIRST_DAY, datetime.date(1, 1, 1)),
            (LAST_DAY, datetime.date(9999, 12, 31)),
            *[(day, NoCell("outside of the years")) for day in (FIRST_DAY - 1, LAST_DAY + 1, INT - 1, -INT)],
        ],
        [(pa.timestamp("us", "UTC"), utc(FIRST)), (pa.string(), "1970-01-01")],
    ),
    "time-millis": _times("int", "time-millis", 1),
    "time-micros": _times("long", "time-micros", 1_000),
    "timestamp-millis": _moments("timestamp-millis", 1, is_local=False),
    "timestamp-micros": _moments("timestamp-micros", 1_000, is_local=False),
    "local-timestamp-millis": _moments("local-timestamp-millis", 1, is_local=True),
    "local-timestamp-micros": _moments("local-timestamp-micros", 1_000, is_local=True),
    "decimal": _decimals({"type": "bytes"}),
    "decimal of fixed": _decimals({"type": "fixed", "name": "Money", "size": 16}),
    "uuid": Odd(
        logical("string", "uuid"),
        [*same(ID, ID.lower()), *[(text, NoCell("is no uuid")) for text in ("", "1-1-1-1-1", ID + "0")], NO_TEXT],
        [(pa.string(), "no uuid"), (pa.string(), ""), (pa.binary(), b"\0" * 16)],
    ),
}
