"""Protobuf values as pipelines read them, compared with Google's `json_format` of the same message."""

from __future__ import annotations

import base64
import datetime
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf import json_format, timestamp_pb2
from hypothesis import example, given
from hypothesis import strategies as st

from moldau.errors import MoldauError
from moldau.products.pipelines.formats.protobuf import ProtobufFormat, ProtobufValues, ProtobufWriter, _message
from moldau.products.pipelines.formats.registry import RegisteredSchema
from moldau.products.proto_files import compile_protos

SCALARS = (
    *("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64"),
    *("double", "float", "bool", "string", "bytes"),
)
NAMED = ("Color", "Inner", "google.protobuf.Timestamp", "google.type.Money")
WRAPPERS = tuple(
    f"google.protobuf.{name}Value"
    for name in ("Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "Bool", "String", "Bytes")
)
TYPES = (*SCALARS, *NAMED, *WRAPPERS)
KEYS = ("int32", "int64", "uint64", "sfixed32", "bool", "string")
HEAD = """
package t;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/money.proto";
enum Color { option allow_alias = true; RED = 0; CRIMSON = 0; BLUE = 2; AZURE = 2; DARK = -1; }
message Inner { optional string a = 1; optional int64 b = 2; Deep deep = 3; message Deep { repeated bytes c = 1; } }
"""


def _fields(syntax: str) -> Iterator[str]:
    number = itertools.count(1)
    optional = "optional " if syntax == "proto2" else ""
    for index, kind in enumerate(TYPES):
        yield f"{optional}{kind} one_{index} = {next(number)};"
        yield f"optional {kind} maybe_{index} = {next(number)};"
        yield f"repeated {kind} many_{index} = {next(number)};"
        yield f"map<{KEYS[index % len(KEYS)]}, {kind}> named_{index} = {next(number)};"
    choices = " ".join(f"{kind} choice_{index} = {next(number)};" for index, kind in enumerate(TYPES))
    yield f"oneof choice {{ {choices} }}"


def compiled(syntax: str, more: str = "") -> tuple[bytes, ...]:
    head = HEAD.replace("Deep deep", "optional Deep deep") if syntax == "proto2" else HEAD
    text = f'syntax = "{syntax}";{head} message M {{ {" ".join(_fields(syntax))} }} {more}'
    return compile_protos({"m.proto": text}, "m.proto")


FILES = {syntax: compiled(syntax) for syntax in ("proto2", "proto3")}
INTEGERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 2**64 - 1)
FLOATS = (0.0, -0.0, 0.1, 1.5, math.inf, -math.inf, math.nan, 3.4028234663852886e38, 1.401298464324817e-45, 1e-7)
TEXTS = ("", "a", "žluťoučký", "\0", "\U0001f600", "x" * 1_000)
BYTES = (b"", b"\xff\x00", b"raw")
TIMES = ((0, 0), (-62135596800, 0), (253402300799, 999999999), (-1, 999_999_999), (1_700_000_000, 123_456_789))


def message_class(files: tuple[bytes, ...], name: str = "t.M") -> Any:
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(_message(files, name))


def value_of(draw: st.DrawFn, field: Any) -> Any:
    if field.message_type is not None:
        return made(draw, field.message_type)
    if field.enum_type is not None:
        is_closed = field.enum_type.is_closed
        return draw(st.sampled_from([0, 2, -1] if is_closed else [0, 2, -1, 7, -(2**31)]))
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        return draw(st.sampled_from(TEXTS if field.type == field.TYPE_STRING else BYTES))
    if field.type == field.TYPE_BOOL:
        return draw(st.booleans())
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return draw(st.sampled_from(FLOATS))
    is_unsigned = field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)
    bits = 32 if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_INT32) else 64
    least, most = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return draw(st.sampled_from([one for one in INTEGERS if least <= one <= most]))


def made(draw: st.DrawFn, descriptor: Any) -> Any:
    """Parts of a message, as its constructor accepts them."""
    if descriptor.full_name == "google.protobuf.Timestamp":
        seconds, nanos = draw(st.sampled_from(TIMES))
        return {"seconds": seconds, "nanos": nanos}
    parts: dict[str, Any] = {}
    chosen = draw(st.lists(st.sampled_from(list(descriptor.fields)), max_size=8, unique_by=lambda field: field.name))
    for field in chosen:
        if field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            parts[field.name] = {value_of(draw, key): value_of(draw, value) for _ in range(draw(st.integers(0, 2)))}
        elif field.is_repeated:
            parts[field.name] = [value_of(draw, field) for _ in range(draw(st.integers(0, 3)))]
        else:
            parts[field.name] = value_of(draw, field)
    return parts


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, bytes]:
    """With all kinds of fields: the syntax of their schema, and their bytes."""
    syntax = draw(st.sampled_from(sorted(FILES)))
    cls = message_class(FILES[syntax])
    return syntax, cls(**made(draw, cls.DESCRIPTOR)).SerializeToString()


def in_words(value: Any, field: Any) -> Any:
    """A value of a column as `json_format` writes it. A column has times to the microsecond."""
    if field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry:
        inside = field.message_type.fields_by_name["value"]
        return {str(key).lower() if isinstance(key, bool) else str(key): in_words(one, inside) for key, one in value}
    if field.is_repeated:
        return [one_in_words(one, field) for one in value]
    return one_in_words(value, field)


def one_in_words(value: Any, field: Any) -> Any:
    if field.message_type is not None and isinstance(value, dict):
        return words_of(value, field.message_type)
    if isinstance(value, datetime.datetime):
        micros = (value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
        time = timestamp_pb2.Timestamp()
        time.FromMicroseconds(micros)
        return time.ToJsonString()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    kind = field.message_type.fields_by_name["value"] if field.message_type is not None else field
    if kind.cpp_type in (kind.CPPTYPE_INT64, kind.CPPTYPE_UINT64):
        return str(value)
    if kind.enum_type is not None:
        return value if value in kind.enum_type.values_by_name else int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return float(str(np.float32(value))) if kind.type == kind.TYPE_FLOAT else value


def words_of(row: dict[str, Any], descriptor: Any) -> dict[str, Any]:
    """Of the fields that are set."""
    fields = descriptor.fields_by_name
    return {name: in_words(value, fields[name]) for name, value in row.items() if name in fields and value is not None}


def without_nanoseconds(words: Any) -> Any:
    if isinstance(words, dict):
        return {name: without_nanoseconds(one) for name, one in words.items()}
    if isinstance(words, list):
        return [without_nanoseconds(one) for one in words]
    if isinstance(words, str) and words.endswith("999Z") and len(words) == 30:
        return words[:-4] + "Z"
    if isinstance(words, str) and words.endswith("123456789Z"):
        return words[:-4] + "Z"
    return words


def row_of(values: ProtobufValues, data: bytes) -> dict[str, Any]:
    (row,) = values(pa.array([data], pa.binary())).to_pylist()
    return row


VALUES = {syntax: ProtobufValues(files, "t.M", None) for syntax, files in FILES.items()}


def words(syntax: str, data: bytes) -> str:
    """The row of these bytes, as `json_format` writes it."""
    row = row_of(VALUES[syntax], data)
    assert row["_moldau_corrupt"] is None
    return json.dumps(words_of(row, message_class(FILES[syntax]).DESCRIPTOR), sort_keys=True)


@given(messages())
@example(("proto3", b""))
@example(("proto2", b""))
def test_values_are_those_of_json_format(one: tuple[str, bytes]) -> None:
    syntax, data = one
    message = message_class(FILES[syntax]).FromString(data)
    expected = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert words(syntax, data) == json.dumps(without_nanoseconds(expected), sort_keys=True)


@given(messages())
def test_what_is_read_is_written_as_the_same_message(one: tuple[str, bytes]) -> None:
    """Except for information that a row lacks: nanoseconds, and which of two names a number had."""
    syntax, data = one
    row = row_of(VALUES[syntax], data)
    del row["_moldau_corrupt"]
    kind = pa.struct([field for field in VALUES[syntax].kind if field.name != "_moldau_corrupt"])
    writer = ProtobufWriter(RegisteredSchema(-1, ""), FILES[syntax], "t.M", None, None)
    (again,) = writer(pa.array([row], kind)).to_pylist()
    assert words(syntax, again) == words(syntax, data)


REQUIRED = compile_protos(
    {
        "r.proto": 'syntax = "proto2"; message Inner { required string b = 1; }'
        " message R { optional Inner inner = 1; required int32 a = 2; optional string s = 3; }"
    },
    "r.proto",
)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "ValueError: it lacks a required field: a"),
        (b"\x10\x01\x0a\x00", "ValueError: it lacks a required field: inner.b"),
        (b"\x10\x01\x1a\x01\xff", "UnicodeDecodeError: 'utf-8' codec can't decode"),
        (b"\x10", "DecodeError: Error parsing message"),
        (b"\x10\x01\x0a\x03\x0a\x01b", None),
    ],
)
def test_a_message_that_is_no_message_of_its_schema_is_a_reason(data: bytes, reason: str | None) -> None:
    found = row_of(ProtobufValues(REQUIRED, "R", None), data)["_moldau_corrupt"]
    assert found == reason if reason is None else found.startswith(reason)


def test_a_row_that_lacks_a_required_field_is_refused() -> None:
    writer = ProtobufWriter(RegisteredSchema(-1, ""), REQUIRED, "R", None, None)
    with pytest.raises(MoldauError, match="a row does not fit the schema: Message R is missing required fields: a"):
        writer.value_of({"s": "x"})


def test_of_two_names_of_an_enum_s_number_the_first_is_read_and_both_are_written() -> None:
    writer = ProtobufWriter(RegisteredSchema(-1, ""), FILES["proto3"], "t.M", None, None)
    field = f"one_{TYPES.index('Color')}"
    for given_name, read in (("CRIMSON", "RED"), ("AZURE", "BLUE"), ("DARK", "DARK"), ("7", "7")):
        assert row_of(VALUES["proto3"], writer.value_of({field: given_name}))[field] == read
    with pytest.raises(MoldauError, match=r"'GREEN' is no name of the enum t\.Color, and no number"):
        writer.value_of({field: "GREEN"})


@pytest.mark.parametrize(("seconds", "nanos"), [(-62135596801, 0), (253402300800, 0), (0, -1), (0, 10**9)])
def test_a_time_outside_of_protobuf_s_range_is_a_reason_beside_any_neighbours(seconds: int, nanos: int) -> None:
    field = f"one_{TYPES.index('google.protobuf.Timestamp')}"
    data = message_class(FILES["proto3"])(**{field: {"seconds": seconds, "nanos": nanos}}).SerializeToString()
    alone = row_of(VALUES["proto3"], data)["_moldau_corrupt"]
    first, second = VALUES["proto3"](pa.array([data, b""], pa.binary())).to_pylist()
    assert (first["_moldau_corrupt"], second["_moldau_corrupt"]) == (alone, None)
    assert alone.startswith("ValueError: ")


def test_a_schema_of_a_registry_uses_types_that_registries_bring(tmp_path: Path) -> None:
    """For such a schema the registry gives no references."""
    text = 'syntax = "proto3"; import "google/type/datetime.proto"; import "confluent/type/decimal.proto";'
    text += " message M { google.type.DateTime at = 1; confluent.type.Decimal total = 2; }"
    (tmp_path / "m.proto").write_text(text, "utf-8")
    values = ProtobufFormat(schema_file=tmp_path / "m.proto").values()
    alone = ProtobufValues(compile_protos({"m.proto": text}, "m.proto")[-1:], "M", None)
    assert alone.kind == values.kind
    assert row_of(alone, b"\x0a\x03\x08\xea\x0f\x12\x04\x0a\x02\x01\x00")["at"]["year"] == 2026
