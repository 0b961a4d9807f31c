"""The values and bytes that go through the converters, each case with a name."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator
from typing import Any

Case = dict[str, Any]

LOGICAL = "org.apache.kafka.connect.data."
STORAGE = "org.apache.kafka.connect.storage."
CONVERTERS = "org.apache.kafka.connect.converters."
JSON = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE = STORAGE + "SimpleHeaderConverter"
STRING = STORAGE + "StringConverter"
WITHOUT = {"schemas.enable": "false"}

DECIMAL_2 = {
    "type": "bytes",
    "optional": False,
    "name": LOGICAL + "Decimal",
    "version": 1,
    "parameters": {"scale": "2"},
}


def of(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": False, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return of(kind, name=LOGICAL + name, version=1, **more)


def field(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "field": name}


ORDER = of(
    "struct",
    fields=[
        field("id", of("int64")),
        field("name", of("string", optional=True)),
        field("price", DECIMAL_2),
        field("tags", of("array", items=of("string"), optional=True)),
        field("note", of("string", optional=True, default="none")),
        field("count", of("int32", default=7)),
    ],
    name="shop.Order",
    version=3,
    doc="An order",
    parameters={"a": "b", "c": "d"},
)
ORDER_VALUE = {
    "struct": [
        ["id", {"int64": 5}],
        ["name", {"string": 'Éva "x" \\ \n\t\u2028 😀'}],
        ["price", {"decimal": "12.50"}],
        ["tags", {"array": [{"string": "a"}, {"string": ""}]}],
        ["note", {"string": "n"}],
        ["count", {"int32": 1}],
    ]
}
SPARSE_VALUE = {"struct": [["id", {"int64": 5}], ["price", {"decimal": "0.00"}]]}

SCALARS: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("int8", of("int8"), [{"int8": each} for each in (0, -128, 127)]),
    ("int16", of("int16"), [{"int16": each} for each in (-32768, 32767)]),
    ("int32", of("int32"), [{"int32": each} for each in (-(2**31), 2**31 - 1)]),
    ("int64", of("int64"), [{"int64": each} for each in (-(2**63), 2**63 - 1)]),
    ("float", of("float"), [{"float": each} for each in ("0.0", "-0.0", "1.1", "1.0E10", "1.5E-5", "3.4028235E38")]),
    (
        "double",
        of("double"),
        [
            {"double": each}
            for each in ("0.0", "-0.0", "1.1", "100.0", "1234567.5", "1.0E7", "1.25E-4", "1.7976931348623157E308")
        ],
    ),
    ("boolean", of("boolean"), [{"boolean": True}, {"boolean": False}]),
    ("string", of("string"), [{"string": each} for each in ("", "a", 'Éva "x" \\ / \b\f\n\r\t', "😀\u2028\x7f", "{}")]),
    ("bytes", of("bytes"), [{"bytes": each} for each in ("", "AAEC/w==", "+/+/")]),
    (
        "decimal",
        DECIMAL_2,
        [{"decimal": each} for each in ("0.00", "12.50", "-1.28", "-1.29", "123456789012345678.90")],
    ),
    ("date", logical("int32", "Date"), [{"date": each} for each in (0, 20000, -1)]),
    ("time", logical("int32", "Time"), [{"time": each} for each in (0, 86_399_999)]),
    ("timestamp", logical("int64", "Timestamp"), [{"timestamp": each} for each in (0, 1_700_000_000_123, -1)]),
]
NESTED: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("array", of("array", items=of("int32", optional=True)), [{"array": []}, {"array": [{"int32": 1}, None]}]),
    (
        "map",
        of("map", keys=of("string"), values=of("double")),
        [{"map": []}, {"map": [[{"string": 'a"b'}, {"double": "1.5"}]]}],
    ),
    ("int map", of("map", keys=of("int32"), values=of("string")), [{"map": [[{"int32": 1}, {"string": "x"}]]}]),
    ("order", ORDER, [ORDER_VALUE, SPARSE_VALUE]),
    (
        "nested",
        of("struct", fields=[field("order", {**ORDER, "optional": True}), field("at", logical("int64", "Timestamp"))]),
        [
            {"struct": [["order", ORDER_VALUE], ["at", {"timestamp": 1_700_000_000_000}]]},
            {"struct": [["at", {"timestamp": 5}]]},
        ],
    ),
]
SCHEMALESS: list[tuple[str, Any]] = [
    ("null", None),
    ("boolean", {"boolean": True}),
    ("int64", {"int64": 2**62}),
    ("double", {"double": "2.5"}),
    ("string", {"string": "x"}),
    ("map", {"map": [[{"string": "a"}, {"array": [{"int64": 1}, None, {"map": []}]}]]}),
    ("int map", {"map": [[{"int64": 1}, {"string": "a"}]]}),
]
READ_SCHEMALESS = [
    "1", "1.0", "1e3", "-0", "0.1", '"x"', "null", "true", "[]", "{}", '{"a":{"b":[1,2.5,null]}}', ' { "a" : 1 } ',
    "", "{", "nul", "NaN", "01", '{"a":1,"a":2}', '"\\ud83d\\ude00"', "9223372036854775807", "9223372036854775808",
    "1.7976931348623157e309", "1 2",
]  # fmt: skip
READ_ENVELOPES = [
    "null",
    "1",
    "{}",
    '{"schema":null,"payload":{"a":1}}',
    '{"payload":1,"schema":{"type":"int32"}}',
    '{"schema":{"type":"int32"},"payload":1,"more":2}',
    '{"schema":{"type":"int32"}}',
    '{"schema":{"type":"int32"},"payload":null}',
    '{"schema":{"type":"int32","optional":true},"payload":null}',
    '{"schema":{"type":"int32","default":5},"payload":null}',
    '{"schema":{"type":"int32","optional":true,"default":5},"payload":null}',
    '{"schema":{"type":"int32","optional":"yes","version":"1","name":3,"doc":4},"payload":1}',
    '{"schema":{"type":"int32","parameters":{"a":1}},"payload":1}',
    '{"schema":{"type":"nothing"},"payload":1}',
    '{"schema":{},"payload":1}',
    '{"schema":[],"payload":1}',
    '{"schema":{"type":"array"},"payload":[]}',
    '{"schema":{"type":"map","keys":{"type":"string"}},"payload":{}}',
    '{"schema":{"type":"map","values":{"type":"string"}},"payload":{}}',
    '{"schema":{"type":"struct"},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"type":"int32"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"type":"int32","field":"a"},{"type":"int32","field":"a"}]},"payload":{"a":1}}',
    '{"schema":{"type":"struct","fields":[]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[]},"payload":[]}',
    '{"schema":{"type":"struct","fields":[{"type":"int32","field":"a"}]},"payload":{}}',
    '{"schema":{"type":"struct","fields":[{"type":"int32","field":"a","optional":true}]},"payload":{"b":1}}',
    '{"schema":{"type":"struct","fields":[{"type":"int32","field":"a","default":3}]},"payload":{}}',
    '{"schema":{"type":"map","keys":{"type":"string"},"values":{"type":"string"}},"payload":[]}',
    '{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}},"payload":{}}',
    '{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}},"payload":[[1]]}',
    '{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"string"}},"payload":[1]}',
    '{"schema":{"type":"double"},"payload":1}',
    '{"schema":{"type":"float"},"payload":0.1}',
    '{"schema":{"type":"bytes"},"payload":"!"}',
    '{"schema":{"type":"int32"},"payload":"5"}',
    '{"schema":{"type":"int8"},"payload":300}',
    '{"schema":{"type":"int32"},"payload":1.5}',
    '{"schema":{"type":"boolean"},"payload":1}',
    '{"schema":{"type":"string"},"payload":1}',
    '{"schema":{"type":"double"},"payload":"NaN"}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}},"payload":1.5}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}},"payload":15}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}},"payload":"BOI="}',
    '{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":"BOI="}',
    '{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Date"},"payload":3}',
    '{"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Date"},"payload":3}',
    '{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Time"},"payload":86400000}',
]
HEADER_TEXTS = [
    "", " ", "a", "null", "true", "false", "TRUE", "true}", " true ", "null ", "1", "-1", "+1", "127", "128", "-129",
    "32768", "2147483648", "9223372036854775807", "9223372036854775808", "1.0", "1.5", "0.1", "1e3", "1e30", "1e39",
    "1e309", "1.", ".5", "-.5", "1_0", "0x10", "1f", "00012", "1 2", "[]", "[ ]", "[1,2,3]", "[1, 2, 300]", "[1,2.5]",
    '["a","b"]', '["a", 1]', '[1,"a"]', '[1,"a",2]', "[1,null]", "[null]", "[null,null]", "[1,,2]", "[1,2", "[1,2,]",
    "[a]", "[true,false]", "[[1],[2]]", "[[1],[200]]", "{}", '{"a":1}', '{"a":1,"b":300}', '{"a":1,"b":"x"}',
    '{"a":null}', '{"a":1,"b":null}', "{1:2}", '{"a" : 1 , "b" : 2}', '{"a":1', '{"a"}', '{a:1}', "{:1}", '{"a":1,}',
    '{"a":[1,2]}', '{"a":{"b":1}}', '{null:1}', "2019-08-23", "14:34:54.346Z", "2019-08-23T14:34:54.346Z",
    "2019-08-23T14:34:54Z", "2019-13-23", "2019-08-23T14\\:34\\:54.346Z", '["2019-08-23"]', '["14:34:54.346Z"]',
    '"quoted"', 'a"b', "a:b", "a,b", "a\\:b", "[1] x", "1:2", "12:34", "\\", "a\\", "é", "-", "+", "- 1", "[1:2]",
    '{"2019-08-23":1}', '["a\\"b"]', "\t1\n", "1\x00",
]  # fmt: skip

_FORMS = ("", "false", "NUMERIC", "false false")
_ZERO = "Kafka reads minus zero as zero; ours keeps the sign"
_NO_NUMBER = "Kafka writes NaN and infinity as texts and reads them as 0; ours reads them back"
_NO_FIT = "Kafka reads JSON that does not fit its schema as 0, false, null or a cut number; ours rejects it"
_NO_JSON = "Kafka's library takes more than JSON: zeros in front, and anything after the value"
_ADDRESS = "Kafka writes the address of an object; ours rejects bytes that are to be a text"
_DATES = "Kafka chooses the form of a date by its value, so days before 1970-01-02 and times of 1970-01-01 become times"
DIFFERENCES: dict[str, str] = {
    **{f"json {form} {kind} 1": _ZERO for form in _FORMS for kind in ("float", "double")},
    **{f"json double {word}": _NO_NUMBER for word in ("NaN", "Infinity", "-Infinity")},
    'json envelope {"schema":{"type":"double"},"payload":"NaN"}': _NO_NUMBER,
    "json read '01'": _NO_JSON,
    "json read '1 2'": _NO_JSON,
    "json read '9223372036854775808'": _NO_FIT,
    'json envelope {"schema":{"type":"int32"},"payload":"5"}': _NO_FIT,
    'json envelope {"schema":{"type":"int8"},"payload":300}': _NO_FIT,
    'json envelope {"schema":{"type":"int32"},"payload":1.5}': _NO_FIT,
    'json envelope {"schema":{"type":"boolean"},"payload":1}': _NO_FIT,
    'json envelope {"schema":{"type":"string"},"payload":1}': _NO_FIT,
    'json envelope {"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Date"},"payload":3}': (
        "Kafka reads a logical type on a type that is not its own; ours gives the plain value"
    ),
    'json envelope {"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Time"},"payload":86400000}': (
        "Python's time of day ends before 24 hours, as the definition of Time says"
    ),
    **{f"string bytes {number}": _ADDRESS for number in range(3)},
    **{f"header {kind} {number}": _DATES for kind in ("date", "timestamp") for number in (0, 2)},
    "header nested 0": "Kafka's parser fails with a NullPointerException",
    "header nested 1": _DATES,
    "header '2019-13-23'": "Kafka reads month 13 as January of the next year; ours takes no date that is none",
    "header no utf-8": "Kafka replaces bytes that are no UTF-8; ours keeps them as bytes",
}
"""By the name of the case: why our answer is another one."""


def cases() -> Iterator[Case]:
    yield from _json_cases()
    yield from _plain_cases()
    yield from _header_cases()


def _write(name: str, converter: str, schema: Any, value: Any, role: str = "value", **settings: str) -> Case:
    dotted = {key.replace("_", "."): each for key, each in settings.items()}
    return {
        "name": name, "converter": converter, "role": role, "settings": dotted, "schema": schema, "value": value,
    }  # fmt: skip


def _read(name: str, converter: str, payload: bytes | None, role: str = "value", **settings: str) -> Case:
    dotted = {key.replace("_", "."): each for key, each in settings.items()}
    shown = None if payload is None else base64.b64encode(payload).decode()
    return {"name": name, "converter": converter, "role": role, "settings": dotted, "read": shown}


def _json_cases() -> Iterator[Case]:
    forms: list[dict[str, str]] = [{}, {"schemas_enable": "false"}, {"decimal_format": "NUMERIC"}]
    forms.append({"schemas_enable": "false", "replace_null_with_default": "false"})
    for form, (kind, schema, values) in itertools.product(forms, SCALARS + NESTED):
        label = " ".join(form.values())
        for number, value in enumerate(values):
            yield _write(f"json {label} {kind} {number}", JSON, schema, value, **form)
        yield _write(f"json {label} {kind} null", JSON, {**schema, "optional": True}, None, **form)
    yield _write("json required null", JSON, of("int32"), None)
    yield _write("json not replaced", JSON, ORDER, SPARSE_VALUE, replace_null_with_default="false")
    yield _write("json null with default", JSON, of("int32", optional=True, default=5), None)
    yield _write(
        "json default kept", JSON, of("int32", optional=True, default=5), None, replace_null_with_default="false"
    )
    yield _write("json wrong scale", JSON, DECIMAL_2, {"decimal": "1.5"})
    yield _write("json numeric scale", JSON, DECIMAL_2, {"decimal": "1.5"}, decimal_format="NUMERIC")
    yield _write("json tiny decimal", JSON, DECIMAL_2, {"decimal": "1E-9"}, decimal_format="NUMERIC")
    yield _write("json large decimal", JSON, DECIMAL_2, {"decimal": "1E+9"}, decimal_format="NUMERIC")
    yield _write("json wrong type", JSON, of("int32"), {"string": "x"})
    yield _write("json wrong width", JSON, of("int32"), {"int64": 2**40})
    yield _write("json wrong date", JSON, logical("int32", "Date"), {"int32": 5})
    for each in ("NaN", "Infinity", "-Infinity"):
        yield _write(f"json double {each}", JSON, of("double"), {"double": each})
    yield _write("json control", JSON, of("string"), {"string": "\x00\x1f"})
    for (kind, value), enabled in itertools.product(SCHEMALESS, ("true", "false")):
        yield _write(f"json schemaless {kind} {enabled}", JSON, None, value, schemas_enable=enabled)
    for text in READ_SCHEMALESS:
        yield _read(f"json read {text!r}", JSON, text.encode(), schemas_enable="false")
    for text in READ_ENVELOPES:
        yield _read(f"json envelope {text}", JSON, text.encode())
    content = json.dumps(ORDER)
    order = b'{"id":5,"name":"x","price":"BOI=","tags":[],"count":1}'
    for enabled, payload in itertools.product(("true", "false"), (order, b"{}", b'{"schema":null,"payload":1}')):
        yield _read(
            f"json content {enabled} {payload!r}", JSON, payload, schemas_enable=enabled, schema_content=content
        )
    yield _write("json content written", JSON, ORDER, ORDER_VALUE, schema_content=content)
    yield _write("json content other", JSON, of("int32"), {"int32": 1}, schema_content=content)
    for enabled in ("true", "false"):
        yield _read(f"json tombstone {enabled}", JSON, None, schemas_enable=enabled)
    yield _write("json header", JSON, of("int32"), {"int32": 1}, "header")
    yield _write("json key", JSON, of("int32"), {"int32": 1}, "key")


def _plain_cases() -> Iterator[Case]:
    for kind, schema, values in SCALARS + NESTED:
        for number, value in enumerate(values):
            yield _write(f"string {kind} {number}", STRING, schema, value)
    yield _write("string null", STRING, None, None)
    yield _write("string latin", STRING, None, {"string": "é😀"}, converter_encoding="ISO-8859-1")
    yield _write("string utf-16", STRING, None, {"string": "é"}, "key", converter_encoding="UTF-16BE")
    yield _read("string broken", STRING, b"a\xffb")
    yield _read("string header", STRING, b"a", "header")
    numbers = [
        ("Short", "int16", {"int16": -2}), ("Integer", "int32", {"int32": -2}), ("Long", "int64", {"int64": -2}),
        ("Float", "float", {"float": "1.5"}), ("Double", "double", {"double": "1.5"}),
        ("Boolean", "boolean", {"boolean": True}), ("ByteArray", "bytes", {"bytes": "AAEC"}),
    ]  # fmt: skip
    for (word, kind, value), role in itertools.product(numbers, ("value", "key", "header")):
        name = f"{CONVERTERS}{word}Converter"
        yield _write(f"{word} {role}", name, of(kind), value, role)
        yield _write(f"{word} {role} null", name, of(kind, optional=True), None, role)
        yield _write(f"{word} {role} no schema", name, None, value, role)
        yield _write(f"{word} {role} text", name, of("string"), {"string": "x"}, role)
        yield _write(f"{word} {role} as text", name, of(kind), {"string": "x"}, role)
        yield _write(f"{word} {role} other schema", name, of("string"), value, role)
        for payload in (None, b"", b"\x01", b"\x02", b"\x00" * 4, b"\xff" * 8):
            yield _read(f"{word} {role} read {payload!r}", name, payload, role)


def _header_cases() -> Iterator[Case]:
    for kind, schema, values in SCALARS + NESTED:
        for number, value in enumerate(values):
            yield _write(f"header {kind} {number}", SIMPLE, schema, value, "header")
    for kind, value in SCHEMALESS:
        yield _write(f"header schemaless {kind}", SIMPLE, None, value, "header")
    for text in HEADER_TEXTS:
        yield _read(f"header {text!r}", SIMPLE, text.encode(), "header")
    yield _read("header none", SIMPLE, None, "header")
    yield _read("header no utf-8", SIMPLE, b"\xff\xfe", "header")
