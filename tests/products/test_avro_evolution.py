"""Avro records of an older schema are read with the reader's schema, and missing fields get their defaults. Both work
as in Apache Avro for Java."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.avro import AvroValues, AvroWriter, check_types
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.pipelines.formats.registry import RegisteredSchema
from tests.avro_pairs.encoding import Branch, Json, encoded, long
from tests.avro_pairs.recorded import is_same, recorded
from tests.avro_pairs.told import HEAD, OneSchema, rows

MS = 1_700_000_000_000
MOMENT = datetime.datetime(2023, 11, 14, 22, 13, 20)
UTC = MOMENT.replace(tzinfo=datetime.UTC)
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}
TIME = {"type": "int", "logicalType": "time-millis"}
DAY = {"type": "int", "logicalType": "date"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "x", "type": DAY, "default": 1}, {"name": "y", "type": "double", "default": "NaN"}],
}


def record(*fields: Json) -> Json:
    return {"type": "record", "name": "Row", "fields": list(fields)}


def registered(schema: Json) -> RegisteredSchema:
    return RegisteredSchema(-1, json.dumps(schema))


def read(writer: Json, reader: Json, value: bytes) -> dict[str, Any]:
    registry = OneSchema("http://127.0.0.1:1", written=json.dumps(writer))
    found: list[dict[str, Any]] = AvroValues(registered(reader), registry)(pa.array([HEAD + value])).to_pylist()
    return found[0]


def test_recorded_pairs_are_read_as_apache_avro_for_java_reads_them() -> None:
    different = [
        (pair.writer, pair.reader, value, java, own)
        for pair, answers in recorded()
        for value, java, own in zip(pair.values, answers, rows(*pair), strict=True)
        if not is_same(java, own)
    ]
    assert different == []


@pytest.mark.parametrize(
    ("older", "newer", "raw", "cell"),
    [
        ("long", MILLIS, MS, UTC),
        ("long", MICROS, MS * 1_000, UTC),
        ("int", MILLIS, 1_000, datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)),
        ("long", LOCAL, MS, MOMENT),
        (MILLIS, "long", MS, MS),
        (MILLIS, LOCAL, MS, MOMENT),
        (MICROS, MILLIS, MS, UTC),
        ("int", TIME, 1_000, datetime.time(0, 0, 1)),
        (TIME, "int", 1_000, 1_000),
        (TIME, "double", 1_000, 1_000.0),
        (DAY, "int", 19_000, 19_000),
        ("int", DAY, 19_000, datetime.date(2022, 1, 8)),
        ("bytes", MONEY, b"\x04\xd2", Decimal("12.34")),
        (MONEY, "bytes", b"\x04\xd2", b"\x04\xd2"),
        ({**MONEY, "scale": 0}, MONEY, b"\x04\xd2", Decimal("12.34")),
        (["null", "long"], ["null", MILLIS], Branch(1, MS), UTC),
        (["null", MILLIS], ["null", "long"], Branch(1, MS), MS),
        ("long", [MILLIS, "null"], MS, UTC),
        (["string", "int", "long"], MILLIS, Branch(2, MS), UTC),
        ({"type": "array", "items": "long"}, {"type": "array", "items": MILLIS}, [MS], [UTC]),
        ({"type": "map", "values": "long"}, {"type": "map", "values": MILLIS}, {"k": MS}, [("k", UTC)]),
        ("long", "float", (1 << 60) + (1 << 36) + 1, float((1 << 60) + (1 << 37))),
    ],
)
def test_a_value_is_of_the_readers_logical_type(older: Json, newer: Json, raw: Any, cell: object) -> None:
    writer, reader = record({"name": "a", "type": older}), record({"name": "a", "type": newer})
    assert read(writer, reader, encoded(writer, {"a": raw})) == {"a": cell, CORRUPT_COLUMN: None}


DEFAULTS: list[tuple[Json, Json, object]] = [
    (MILLIS, MS, UTC),
    (MICROS, MS * 1_000, UTC),
    (LOCAL, MS, MOMENT),
    (TIME, 1_000, datetime.time(0, 0, 1)),
    (DAY, 19_000, datetime.date(2022, 1, 8)),
    (MONEY, "\x04\xd2", Decimal("12.34")),
    ({**MONEY, "type": "fixed", "name": "F", "size": 4}, "\x00\x00\x04\xd2", Decimal("12.34")),
    ("bytes", "\x00\xff", b"\x00\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, "\x00\xff", b"\x00\xff"),
    ("double", "Infinity", float("inf")),
    ("float", 1, 1.0),
    (["null", MONEY], None, None),
    ([MONEY, "null"], "\x04\xd2", Decimal("12.34")),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "B"),
    ({"type": "array", "items": MILLIS}, [MS], [UTC]),
    ({"type": "map", "values": DAY}, {"k": 1}, [("k", datetime.date(1970, 1, 2))]),
    (INNER, {"y": 1}, {"x": datetime.date(1970, 1, 2), "y": 1.0}),
]


@pytest.mark.parametrize(("kind", "default", "cell"), DEFAULTS)
def test_a_field_that_is_left_out_has_its_default(kind: Json, default: Json, cell: object) -> None:
    """If the writer's schema lacks it, and if the SQL does."""
    given, left = {"name": "n", "type": "int"}, {"name": "a", "type": kind, "default": default}
    whole = record(given, left)
    assert read(record(given), whole, long(7)) == {"n": 7, "a": cell, CORRUPT_COLUMN: None}

    writer = AvroWriter(registered(whole), None, None)
    writer.check(["n"])
    (value,) = writer(pa.array([{"n": 7}], pa.struct({"n": pa.int32()}))).to_pylist()
    assert read(whole, whole, value) == {"n": 7, "a": cell, CORRUPT_COLUMN: None}


@pytest.mark.parametrize(
    ("kind", "default", "reason"),
    [
        ("int", "7", "'7' is no int"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "3 bytes are no F of 2"),
        ("bytes", "č", "bytes are code points up to 255"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "'B' is no E"),
        (INNER, {"x": "one"}, "'one' is no int"),
    ],
)
def test_a_bad_default_is_refused_before_it_is_written(kind: Json, default: Json, reason: str) -> None:
    """Records with the field are read; one without it is a dead letter."""
    given, left = {"name": "n", "type": "int"}, {"name": "a", "type": kind, "default": default}
    with pytest.raises(FlowError, match=f"leaves a field to its default, and the default of .*: {reason}"):
        AvroWriter(registered(record(given, left)), None, None).check(["n"])
    found = read(record(given), record(given, left), long(7))
    assert (found["n"], reason in found[CORRUPT_COLUMN]) == (None, True)


def test_a_place_that_a_union_does_not_have_is_damage() -> None:
    """In a Python list, negative positions count from the end."""
    for kind in (["null", "int"], ["null", "int", "string"]):
        schema = record({"name": "a", "type": kind})
        for place in (-1, -2, 3, 4):
            found = read(schema, record({"name": "a", "type": ["null", "int"]}), long(place) + long(1))
            assert "names a branch of a union that its schema does not have" in found[CORRUPT_COLUMN]


def test_a_field_that_is_not_read_may_hold_itself_or_no_text() -> None:
    chain = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    writer = record(*({"name": name, "type": kind} for name, kind in (("c", chain), ("s", "string"), ("n", "int"))))
    value = encoded(writer, {"c": {"next": Branch(1, {"next": Branch(0, None)})}, "s": b"\xff", "n": 7})
    assert read(writer, record({"name": "n", "type": "int"}), value)["n"] == 7


@pytest.mark.parametrize("holds", [["null", "N"], {"type": "array", "items": "N"}, {"type": "map", "values": "N"}])
def test_a_value_of_many_levels_is_a_dead_letter(holds: Json) -> None:
    """Before, the stack of C overflowed and the process ended."""
    chain = {"type": "record", "name": "N", "fields": [{"name": "next", "type": holds}]}
    writer, reader = (
        record({"name": "c", "type": chain}, {"name": "n", "type": "int"}),
        record({"name": "n", "type": "int"}),
    )
    one, key = b"\x02", b"\x02k" if isinstance(holds, dict) and holds["type"] == "map" else b""
    for levels, wanted in ((90, 7), (100_000, None)):
        end = b"\0" * (1 if isinstance(holds, list) else levels + 1)
        found = read(writer, reader, (one + key) * levels + end + long(7))
        assert found["n"] == wanted
    assert "more than 300 levels" in found[CORRUPT_COLUMN]


def test_a_nested_field_that_may_be_null_is_null_where_a_struct_lacks_it() -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": name, "type": ["int", "null"]} for name in "xy"]}
    schema = record({"name": "a", "type": inner})
    value = AvroWriter(registered(schema), None, None).value_of({"a": {"y": 7}})
    assert read(schema, schema, value)["a"] == {"x": None, "y": 7}


@pytest.mark.parametrize("broken", [{"precision": 0}, {"precision": 2, "scale": 3}, {"scale": 2}, {"precision": "9"}])
def test_a_decimal_that_is_not_valid_is_bytes(broken: dict[str, Json]) -> None:
    """As the specification requires."""
    schema = record({"name": "a", "type": {"type": "bytes", "logicalType": "decimal", **broken}})
    assert read(schema, schema, encoded(schema, {"a": b"\x01"}))["a"] == b"\x01"


def test_a_value_of_a_union_of_several_types_is_written_as_the_first_that_takes_it() -> None:
    kinds = ["null", "float", "double", "long", "string", INNER]
    schema = record({"name": "a", "type": kinds})
    writer = AvroWriter(registered(schema), None, None)
    for value, place, raw in (
        (None, 0, None),
        (0.1, 2, 0.1),
        ("x", 4, "x"),
        ({"x": datetime.date(1970, 1, 1)}, 5, None),
    ):
        written = writer.value_of({"a": value})
        wanted = {"x": 0, "y": float("nan")} if place == 5 else raw
        assert written == encoded(schema, {"a": Branch(place, wanted)})
    with pytest.raises(FlowError, match="a row does not fit the schema"):
        writer.value_of({"a": b"bytes"})


SPARK_TYPES: dict[str, t.DataType] = {
    "boolean": t.BooleanType(), "tinyint": t.ByteType(), "smallint": t.ShortType(), "int": t.IntegerType(),
    "bigint": t.LongType(), "float": t.FloatType(), "double": t.DoubleType(), "string": t.StringType(),
    "binary": t.BinaryType(), "timestamp": t.TimestampType(), "timestamp_ntz": t.TimestampNTZType(),
    "date": t.DateType(), "time": t.TimeType(), "decimal": t.DecimalType(9, 2), "void": t.NullType(),
    "array<timestamp>": t.ArrayType(t.TimestampType()), "array<string>": t.ArrayType(t.StringType()),
    "map<string,decimal>": t.MapType(t.StringType(), t.DecimalType(9, 2)),
    "map<int,decimal>": t.MapType(t.IntegerType(), t.DecimalType(9, 2)),
    "struct<x:date>": t.StructType([t.StructField("x", t.DateType())]),
    "struct<x:string>": t.StructType([t.StructField("x", t.StringType())]),
}  # fmt: skip
INTEGERS = ("tinyint", "smallint", "int", "bigint")


@pytest.mark.parametrize(
    ("kind", "taken"),
    [
        ("null", ("void",)),
        ("boolean", ("boolean",)),
        ("int", INTEGERS),
        ("long", INTEGERS),
        ("float", (*INTEGERS, "float", "double")),
        ("string", ("string",)),
        ("bytes", ("binary",)),
        (MILLIS, (*INTEGERS, "timestamp")),
        (LOCAL, (*INTEGERS, "timestamp_ntz")),
        (DAY, (*INTEGERS, "date")),
        (TIME, (*INTEGERS, "time")),
        (MONEY, ("decimal",)),
        (["null", MONEY, "string"], ("string", "decimal", "void")),
        ({"type": "array", "items": MILLIS}, ("array<timestamp>",)),
        ({"type": "map", "values": MONEY}, ("map<string,decimal>",)),
        (INNER, ("struct<x:date>",)),
    ],
)
def test_a_column_of_which_no_value_fits_is_refused_before_the_start(kind: Json, taken: tuple[str, ...]) -> None:
    schema = registered(record({"name": "a", "type": kind}))
    for name, column in SPARK_TYPES.items():
        columns = t.StructType([t.StructField("a", column)])
        if name in taken:
            check_types(schema, columns)
        else:
            with pytest.raises(FlowError, match=r"the SQL gives 'a' as .*, and the schema has .* there"):
                check_types(schema, columns)
