"""Configurations of transforms and predicates, with the records that each one gets."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from moldau.connect.data.record import Header, Record
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type

PACKAGE = "org.apache.kafka.connect.transforms."
MOMENT = datetime.datetime(2026, 3, 9, 14, 5, 6, 78_000, datetime.UTC)
MOMENT_MS = 1_773_065_106_078


class Case(NamedTuple):
    """`type`: without the package."""

    type: str
    config: dict[str, str]
    records: list[Record]


def of(kind: Type, optional: bool = False, default: object = None, name: str | None = None) -> Schema:
    parameters = {"scale": "2"} if name == DECIMAL else {}
    return Schema(kind, optional, name, 1 if name else None, None, parameters, default)


INNER = Schema(
    Type.STRUCT,
    optional=True,
    fields=(
        Field("city", of(Type.STRING)),
        Field("code", of(Type.INT32, default=7)),
        Field("deep", Schema(Type.STRUCT, fields=(Field("a.b", of(Type.INT64, True)),))),
    ),
)
SCHEMA = Schema(
    Type.STRUCT,
    name="shop.Order",
    version=3,
    doc="an order",
    parameters={"p": "q"},
    fields=(
        Field("i8", of(Type.INT8)),
        Field("i16", of(Type.INT16)),
        Field("i32", of(Type.INT32, True, 42)),
        Field("i64", of(Type.INT64)),
        Field("f32", of(Type.FLOAT32)),
        Field("f64", of(Type.FLOAT64)),
        Field("flag", of(Type.BOOLEAN)),
        Field("text", of(Type.STRING, True)),
        Field("number", of(Type.STRING)),
        Field("raw", of(Type.BYTES)),
        Field("day", of(Type.INT32, name=DATE)),
        Field("clock", of(Type.INT32, name=TIME)),
        Field("moment", of(Type.INT64, True, None, TIMESTAMP)),
        Field("price", of(Type.BYTES, name=DECIMAL)),
        Field("list", Schema(Type.ARRAY, values=of(Type.INT32))),
        Field("map", Schema(Type.MAP, keys=of(Type.STRING), values=of(Type.INT64))),
        Field("inner", INNER),
    ),
)
STRUCT: dict[str, object] = {
    "i8": 100,
    "i16": 300,
    "i32": 70_000,
    "i64": MOMENT_MS,
    "f32": 1.5,
    "f64": 1234567.875,
    "flag": True,
    "text": "Moldau",
    "number": "120",
    "raw": b"\x00\xff",
    "day": datetime.date(2026, 3, 9),
    "clock": datetime.time(14, 5, 6, 78_000),
    "moment": MOMENT,
    "price": Decimal("12.34"),
    "list": [1, 2],
    "map": {"k": 5},
    "inner": {"city": "Praha", "code": 1, "deep": {"a.b": 9}},
}
ODD = STRUCT | {
    "i8": -128,
    "i16": -1,
    "i32": None,
    "i64": -1,
    "f32": -0.25,
    "f64": 1e300,
    "flag": False,
    "text": None,
    "number": "x",
    "day": datetime.date(1969, 12, 31),
    "moment": None,
    "price": Decimal("-0.05"),
    "list": [],
    "map": {},
    "inner": None,
}
MAP: dict[str, object] = {
    "i64": MOMENT_MS,
    "f64": -2.5,
    "flag": True,
    "text": "Moldau",
    "number": "120",
    "raw": b"\x01",
    "moment": MOMENT,
    "price": Decimal("12.34"),
    "list": [1, "x"],
    "none": None,
    "inner": {"city": "Praha", "deep": {"a.b": 9, "c`d": 3}, "none": None},
}
HEADERS = (Header("h1", of(Type.STRING), "a"), Header("h2", of(Type.INT32), 5), Header("h1", None, "b"))
EMPTY = Record("t", None, partition=0, offset=1)


def sunk(value: object, schema: Schema | None = None, **more: object) -> Record:
    given: dict[str, object] = {"partition": 2, "offset": 17, "timestamp_ms": MOMENT_MS, "headers": HEADERS} | more
    return Record("shop.orders-1", value, schema, **given)  # type: ignore[arg-type]


def keyed(key: object, schema: Schema | None = None) -> Record:
    return sunk("v", of(Type.STRING), key=key, key_schema=schema)


PLAIN = [sunk(STRUCT, SCHEMA), sunk(ODD, SCHEMA), sunk(MAP), sunk(None), sunk(None, SCHEMA), sunk("x"), EMPTY]
PLAIN += [sunk("x", of(Type.STRING)), sunk([1], Schema(Type.ARRAY, values=of(Type.INT64)))]
KEYS = [keyed(STRUCT, SCHEMA), keyed(MAP), keyed(None), keyed(5, of(Type.INT32, True, 3))]


def valued(*values: tuple[object, Schema | None]) -> list[Record]:
    return [sunk(value, schema) for value, schema in values]


def cases() -> Iterator[Case]:
    yield from cast_cases()
    yield from field_cases()
    yield from mask_cases()
    yield from header_cases()
    yield from topic_cases()
    yield from timestamp_cases()
    yield from date_format_cases()
    yield from predicate_cases()


TYPES = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
NUMBERS: list[tuple[object, Schema | None]] = [
    *((number, of(Type.FLOAT64)) for number in (0.0, -0.0, 1e7, 1e-3, 9.99e-4, 123456.789, 1e22, -1e300, 0.1)),
    *((number, of(Type.FLOAT64)) for number in (float("nan"), float("inf"), 2.0**31, 2.0**63, -2.9, 1.0e16, 3.3e-5)),
    *((number, of(Type.FLOAT32)) for number in (0.10000000149011612, 16777216.0, 1.0e10, 3.4028234663852886e38)),
    *((number, of(Type.INT64)) for number in (0, 1, -1, 127, 128, 300, -129, 2**31, 2**53 + 1, -(2**63))),
    *((text, of(Type.STRING)) for text in ("1", "-1", "+5", " 7", "7 ", "1_0", "1.5", "1e3", "TRUE", "yes", "", "5f")),
    *((text, None) for text in ("1", "300", "NaN", "Infinity", ".5", "5.", "0x10", "1d", "9223372036854775808")),
    *((value, None) for value in (True, 7, 2.75, 1e20, b"\x01\x02", [1], {"a": 1}, Decimal("1.5"), MOMENT)),
    (Decimal("-1234.56"), of(Type.BYTES, name=DECIMAL)),
    (MOMENT, of(Type.INT64, name=TIMESTAMP)),
    (datetime.date(2026, 3, 9), of(Type.INT32, name=DATE)),
    (datetime.time(1, 2, 3, 4_000), of(Type.INT32, name=TIME)),
    (b"\x00\xff", of(Type.BYTES)),
    (None, of(Type.INT32, True)),
    (None, of(Type.INT32, True, 5)),
    (5, of(Type.INT32, True, 6)),
]


def cast_cases() -> Iterator[Case]:
    for kind in TYPES:
        yield Case("Cast$Value", {"spec": kind}, [*valued(*NUMBERS), *PLAIN])
        every = ",".join(f"{one.name}:{kind}" for one in SCHEMA.fields[:9])
        yield Case("Cast$Value", {"spec": every}, PLAIN[:2])
    for name in ("day", "clock", "moment", "price", "raw"):
        for kind in ("string", "int64", "int32", "float64", "boolean"):
            yield Case("Cast$Value", {"spec": f"{name}:{kind}"}, PLAIN[:3])
    for name in ("list", "map", "inner", "missing", "none", "text"):
        yield Case("Cast$Value", {"spec": f"{name}:string"}, PLAIN)
    yield Case("Cast$Key", {"spec": "i32:string"}, KEYS)
    yield Case("Cast$Key", {"spec": "int64"}, KEYS)
    yield Case("Cast$Value", {"spec": "i32:int64", "replace.null.with.default": "false"}, PLAIN)
    for spec in ("", "x:nope", "x:bytes", "bytes", "array", "int8,x:int8", "a:b:c", "x:Int8", "x : int8"):
        yield Case("Cast$Value", {"spec": spec}, PLAIN[:3])
    yield Case("Cast$Value", {}, [])


PATHS = ("text", "i32", "inner", "inner.city", "inner.deep.`a.b`", "inner.nope.x", "none.x", "missing", "`text`")
ODD_PATHS = ("text.x", "inner.", ".inner", "inner..city", "`inner", "in`ner", "inner.deep.c`d", "`inner`.city", "`a`b`")
ODDER_PATHS = ("``", "`", "inner.`deep`.`a.b`", "`a\\`.b`", "inner.code", "list.x", "inner.deep", "a\\b", "`x`y", "")


def field_cases() -> Iterator[Case]:
    for path in (*PATHS, *ODD_PATHS, *ODDER_PATHS):
        for version in ("V1", "V2"):
            settings = {"field": path, "field.syntax.version": version}
            yield Case("ExtractField$Value", settings, PLAIN)
            yield Case("ValueToKey", {"fields": f"i64,{path}", "field.syntax.version": version}, PLAIN)
    yield Case("ExtractField$Value", {"field": "i32", "replace.null.with.default": "false"}, PLAIN)
    yield Case("ExtractField$Key", {"field": "i32"}, KEYS)
    yield Case("ExtractField$Value", {"field": "i32", "field.syntax.version": "v3"}, PLAIN)
    yield Case("ExtractField$Value", {"field": "i32", "field.syntax.version": "v2"}, PLAIN[:2])
    for fields in ("i64", "i32,text", "", "i64,i64", "inner.city,i64", "none"):
        yield Case("ValueToKey", {"fields": fields}, PLAIN)
    yield Case("ValueToKey", {"fields": "i32", "replace.null.with.default": "false"}, PLAIN)
    yield Case("ValueToKey", {"fields": "inner.city,inner.code", "field.syntax.version": "V2"}, PLAIN)
    yield Case("HoistField$Value", {"field": "all"}, [*PLAIN, *valued((None, of(Type.INT32, True)))])
    yield Case("HoistField$Value", {"field": ""}, PLAIN)
    yield Case("HoistField$Key", {"field": "all"}, KEYS)
    for delimiter in (".", "_", "", "::"):
        yield Case("Flatten$Value", {"delimiter": delimiter}, [*PLAIN, *nested_records()])
    yield Case("Flatten$Key", {}, KEYS)
    yield from insert_cases()
    for config in REPLACEMENTS:
        yield Case("ReplaceField$Value", config, PLAIN)
    for name in ("exclude", "include", "renames"):
        yield Case("ReplaceField$Value", {name: "i64,"}, PLAIN)
    yield Case("ReplaceField$Key", {"exclude": "i8"}, KEYS)
    for config in METADATA:
        yield Case("SetSchemaMetadata$Value", config, PLAIN)
    yield Case("SetSchemaMetadata$Key", {"schema.name": "k"}, KEYS)
    yield Case("Filter", {}, PLAIN[:2])


REPLACEMENTS: list[dict[str, str]] = [
    {},
    {"exclude": "i8,text,none"},
    {"include": "i64,text,missing"},
    {"include": "i64,text", "exclude": "text"},
    {"renames": "i64:big,text:word,missing:x"},
    {"renames": "i64:text"},
    {"renames": "i64:text,text:i64"},
    {"renames": "i64"},
    {"renames": "a:b:c"},
    {"renames": "i64:a,text:a"},
    {"renames": "i64:big", "include": "big,i64"},
    {"exclude": "", "include": ""},
    {"exclude": "i8", "replace.null.with.default": "false"},
    {"exclude": " i8 , i16"},
]
METADATA: list[dict[str, str]] = [
    {},
    {"schema.name": "n"},
    {"schema.version": "9"},
    {"schema.name": "n", "schema.version": "x"},
    {"schema.name": "n", "schema.version": "9", "replace.null.with.default": "false"},
    {"schema.name": ""},
]


def nested_records() -> list[Record]:
    inner = Schema(Type.STRUCT, fields=(Field("x", of(Type.INT32)), Field("y", of(Type.STRING, True, "d"))))
    with_default = Schema(Type.STRUCT, inner.optional, inner.name, None, None, {}, {"x": 5, "y": "z"}, inner.fields)
    outer = Schema(Type.STRUCT, True, fields=(Field("in", with_default), Field("z", of(Type.INT64, True, 4))))
    twice = Schema(
        Type.STRUCT,
        fields=(Field("a.b", of(Type.INT32)), Field("a", Schema(Type.STRUCT, fields=(Field("b", of(Type.INT32)),)))),
    )
    flat = Schema(
        Type.STRUCT,
        True,
        "n",
        None,
        None,
        {},
        {"a": 1, "b": {"x": 2, "y": "u"}},
        (Field("a", of(Type.INT32)), Field("b", inner)),
    )
    no_map = Schema(Type.STRUCT, SCHEMA.optional, fields=tuple(one for one in SCHEMA.fields if one.name != "map"))
    return [
        sunk({"a": 5, "b": {"x": 6, "y": None}}, flat),
        sunk({name: one for name, one in STRUCT.items() if name != "map"}, no_map),
        sunk({name: one for name, one in ODD.items() if name != "map"}, no_map),
        sunk({"in": {"x": 1, "y": None}, "z": None}, outer),
        sunk({"in": {"x": 1, "y": "t"}, "z": 2}, outer),
        sunk(None, outer),
        sunk({"a.b": 1, "a": {"b": 2}}, twice),
        sunk({"a": {"b": {"c": 1}, "d": [1, {"e": 2}]}, "f": {}}),
        sunk({"a": {"b": 1}, "a.b": 2}),
    ]


def insert_cases() -> Iterator[Case]:
    records = [*PLAIN, sunk({"a": 1}, None, timestamp_ms=None), sunk(STRUCT, SCHEMA, timestamp_ms=None)]
    for source in ("topic", "partition", "offset", "timestamp"):
        for suffix in ("", "?", "!"):
            yield Case("InsertField$Value", {f"{source}.field": f"new{suffix}"}, records)
    yield Case("InsertField$Value", {"static.field": "new", "static.value": "v"}, records)
    yield Case("InsertField$Value", {"static.field": "text", "static.value": "v"}, records)
    yield Case("InsertField$Value", {"static.field": "new!", "static.value": ""}, records)
    yield Case("InsertField$Value", {"static.field": "new"}, records)
    yield Case("InsertField$Value", {}, records)
    yield Case("InsertField$Value", {"topic.field": "!"}, records)
    yield Case("InsertField$Value", {"topic.field": "a!?"}, records)
    every = {"topic.field": "t", "partition.field": "p", "offset.field": "o", "timestamp.field": "ts"}
    yield Case("InsertField$Value", every | {"replace.null.with.default": "false"}, records)
    yield Case("InsertField$Key", every, KEYS)


def mask_cases() -> Iterator[Case]:
    for field in SCHEMA.fields:
        yield Case("MaskField$Value", {"fields": field.name}, PLAIN[:3])
        for replacement in ("7", "x"):
            yield Case("MaskField$Value", {"fields": field.name, "replacement": replacement}, PLAIN[:3])
    for replacement in ("300", "1.5", "9999999999", "true", "", " 5", "NaN", "1e3", "5f", "0x1", "-.5", "1e400"):
        config = {"fields": "i8,i64,f64,number", "replacement": replacement}
        yield Case("MaskField$Value", config, PLAIN)
    for name in ("i8", "f32", "f64", "price"):
        yield Case("MaskField$Value", {"fields": name, "replacement": "1.25"}, PLAIN[:3])
    yield Case("MaskField$Value", {"fields": "text,missing,none"}, PLAIN)
    yield Case("MaskField$Value", {"fields": "i32", "replace.null.with.default": "false"}, PLAIN)
    yield Case("MaskField$Value", {"fields": ""}, PLAIN)
    yield Case("MaskField$Key", {"fields": "text"}, KEYS)


LITERALS = ("a", "true", "5", "300", "-70000", "3000000000", "1.5", "1e40", "null", "[1,2]", '{"a":1}', "2026-03-09")
MORE_LITERALS = ("2026-03-09T14:05:06.078Z", "14:05:06.078Z", "", " x ", '"quoted"', "[1,a]", "[", "0x1")


def header_cases() -> Iterator[Case]:
    for names in ("h1", "h1,h2", "none", "", "h1,"):
        yield Case("DropHeaders", {"headers": names}, PLAIN[:2])
    for literal in (*LITERALS, *MORE_LITERALS):
        yield Case("InsertHeader", {"header": "new", "value.literal": literal}, PLAIN[:1])
    yield Case("InsertHeader", {"header": "", "value.literal": "x"}, PLAIN[:1])
    yield Case("InsertHeader", {"header": "h"}, PLAIN[:1])
    for operation in ("copy", "move", "MOVE"):
        for fields, names in (
            ("text,i32", "a,b"),
            ("inner", "a"),
            ("missing", "a"),
            ("text", "a,b"),
            ("", ""),
            ("text,text", "a,b"),
        ):
            config = {"fields": fields, "headers": names, "operation": operation}
            yield Case("HeaderFrom$Value", config, PLAIN)
        config = {"fields": "text", "headers": "h", "operation": operation}
        yield Case("HeaderFrom$Key", config, KEYS)
        yield Case("HeaderFrom$Value", {**config, "fields": "i32", "replace.null.with.default": "false"}, PLAIN)


REGEXES = (
    ("(.*)-(\\d+)", "$2.$1"),
    ("shop\\.(.*)", "$1"),
    ("shop", "x"),
    ("(?<n>[a-z]+)\\..*", "${n}!"),
    ("[a-z.]*(-\\p{Digit}+)?", "x\\$1$1"),
    ("\\Qshop.\\E(\\w++)-(?:1)", "q-$1"),
    ("(?i)SHOP.*", "$0"),
    ("(s)(h)(o)(p)(\\.)(o)(r)(d)(e)(r).*", "$10$11-$1"),
    ("(a)?shop.*", "<$1>"),
    (".*?", "lazy"),
    ("s|shop\\.orders-1", "y"),
    ("^shop.*$", "z"),
    ("(.*", "x"),
    ("[", "x"),
    ("*", "x"),
    ("a{,3}", "x"),
    ("shop.*\\z", "end"),
    ("(o)\\.?|.*(\\1)?", "k"),
    ("shop.{8}", "n"),
    ("shop[.]orders[-]1", "$"),
    ("shop.*", "$9"),
    ("shop.*", "\\"),
    ("shop.*", "${x}"),
    ("", "x"),
)


def topic_cases() -> Iterator[Case]:
    records = [sunk(1), Record("a", 1, partition=0, offset=0), Record("s", 1, partition=0, offset=0)]
    for regex, replacement in REGEXES:
        yield Case("RegexRouter", {"regex": regex, "replacement": replacement}, records)
        yield Case("predicates.TopicNameMatches", {"pattern": regex}, records)
    for topic_format in ("${topic}-${timestamp}", "x", "${timestamp}.${topic}.${timestamp}", "$1${topic}"):
        for pattern in ("yyyyMMdd", "yyyy-MM-dd'T'HH", "yy/M/d"):
            config = {"topic.format": topic_format, "timestamp.format": pattern}
            yield Case("TimestampRouter", config, [*records, sunk(1, timestamp_ms=-1)])
    yield Case("TimestampRouter", {}, records)
    yield Case("TimestampRouter", {"timestamp.format": "yyyy'"}, records)


def timestamp_records() -> list[Record]:
    times: list[tuple[object, Schema | None]] = [
        (MOMENT, of(Type.INT64, name=TIMESTAMP)),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000, datetime.UTC), of(Type.INT64, True, None, TIMESTAMP)),
        (datetime.date(2026, 3, 9), of(Type.INT32, name=DATE)),
        (datetime.time(14, 5, 6, 78_000), of(Type.INT32, name=TIME)),
        (MOMENT_MS, of(Type.INT64)),
        (-1_500_000_001, of(Type.INT64)),
        ("2026-03-09 14:05:06.078", of(Type.STRING)),
        ("2026-03-09 junk", of(Type.STRING, True)),
        (5, of(Type.INT32)),
        (None, of(Type.STRING, True)),
        (None, of(Type.INT64, True, None, TIMESTAMP)),
        (MOMENT, None),
        (MOMENT_MS, None),
        ("2026-03-09 14:05:06.078", None),
        (True, None),
        (1.5, None),
        (None, None),
    ]
    return valued(*times)


def timestamp_cases() -> Iterator[Case]:
    for target in ("string", "unix", "Date", "Time", "Timestamp", "date", ""):
        config = {"target.type": target, "format": "yyyy-MM-dd HH:mm:ss.SSS"}
        yield Case("TimestampConverter$Value", config, timestamp_records())
        yield Case("TimestampConverter$Value", {"target.type": target}, timestamp_records())
        for unit in ("seconds", "microseconds", "nanoseconds", "hours"):
            yield Case("TimestampConverter$Value", config | {"unix.precision": unit}, timestamp_records())
        for field in ("moment", "day", "clock", "i64", "text", "missing", "i32", "none"):
            yield Case("TimestampConverter$Value", config | {"field": field}, PLAIN)
        yield Case("TimestampConverter$Key", config | {"field": "moment"}, KEYS)
    yield Case("TimestampConverter$Value", {}, [])


PATTERNS = (
    "yyyy-MM-dd'T'HH:mm:ss.SSSX",
    "yyyy-MM-dd'T'HH:mm:ssXXX",
    "yyyy-MM-dd'T'HH:mm:ssZ",
    "EEE, d MMM yyyy HH:mm:ss z",
    "EEEE d MMMM y",
    "yyyyMMddHHmmssSSS",
    "yyMMdd",
    "d/M/yy h:mm a",
    "hh 'o''clock' a",
    "K:mm a k",
    "D yyyy",
    "u E",
    "G yyyy LLL",
    "yyyyy.MMMMM.dd",
    "S",
    "SS.S",
    "y-M-d",
    "''yyyy",
    "HH:mm",
    "XX",
    "XXXX",
    "zzzz",
    "yyyy'x",
    "b",
)
TEXTS = (
    "2026-03-09T14:05:06.078Z",
    "2026-03-09T14:05:06.078+01:30",
    "2026-03-09T14:05:06Z",
    "2026-03-09T14:05:06-05:00",
    "2026-03-09T14:05:06+0200",
    "2026-13-45T25:61:61Z",
    "Mon, 9 Mar 2026 14:05:06 UTC",
    "mon, 9 march 2026 14:05:06 GMT+02:00",
    "Monday 9 March 2026",
    "20260309140506078",
    "260309",
    "990309",
    "9/3/26 2:05 PM",
    "9/3/2026 12:05 am",
    "02 o'clock PM",
    "2:05 PM 14",
    "68 2026",
    "1 Mon",
    "AD 2026 Mar",
    "02026.March.09",
    "123456",
    "-5",
    "7.8",
    "2026-3-9",
    "  2026-3-9 tail",
    "'2026",
    "14:05",
    "+01",
    "+0130",
    "Z",
    "",
    "x",
)


def date_format_cases() -> Iterator[Case]:
    times = [MOMENT_MS, 0, -1, 86_399_999, 951_782_400_000, 4_102_444_800_000, -12_200_000_000_000]
    for pattern in PATTERNS:
        config = {"target.type": "string", "format": pattern}
        yield Case("TimestampConverter$Value", config, valued(*((time, of(Type.INT64)) for time in times)))
        config = {"target.type": "unix", "format": pattern}
        yield Case("TimestampConverter$Value", config, valued(*((text, of(Type.STRING)) for text in TEXTS)))


def predicate_cases() -> Iterator[Case]:
    for name in ("h1", "h2", "H1", "none", ""):
        yield Case("predicates.HasHeaderKey", {"name": name}, PLAIN[:2])
    yield Case("predicates.HasHeaderKey", {}, [])
    yield Case("predicates.RecordIsTombstone", {}, PLAIN)
    yield Case("predicates.TopicNameMatches", {"pattern": "["}, [])
