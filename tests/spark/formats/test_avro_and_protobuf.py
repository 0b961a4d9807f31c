"""Topics of Avro and Protobuf: written by Confluent's own serializers, with their schemas in a registry."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import struct
import subprocess
import sys
from importlib import util
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.columnar.reader import read_topic
from moldau.errors import MoldauError
from moldau.products.pipelines.formats.avro import AvroFormat, AvroValues
from moldau.products.pipelines.formats.protobuf import ProtobufFormat
from moldau.products.pipelines.formats.registry import RegisteredSchema, Registry
from moldau.products.pipelines.targets.topic import to_records
from moldau.testing.pipelines import pipeline_tests

USER = {"name": "user", "type": "string"}
ORDER = {"type": "record", "name": "Order", "fields": [USER, {"name": "amount", "type": "int"}]}
CITY = {"name": "city", "type": ["null", "string"], "default": None}
MONEY = {"name": "money", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}
NEWER = {**ORDER, "fields": [{"name": "amount", "type": "long"}, USER, CITY]}

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Other { string text = 1; }
message Order {
  string user = 1;
  int32 amount = 2;
  optional string city = 3;
  google.protobuf.Timestamp at = 4;
  google.protobuf.Int64Value wrapped = 5;
  repeated Line lines = 6;
  map<string, double> prices = 7;
  State state = 8;
  uint64 large = 9;
  bytes raw = 10;
  message Line { string item = 1; }
  enum State { NEW = 0; PAID = 1; }
}
"""


@pytest.fixture
def avro(registry):
    """`avro(topic, schema)(row)` gives the bytes."""

    def serializer(topic: str, schema: dict):
        client = SchemaRegistryClient({"url": registry.url})
        serialize = AvroSerializer(client, json.dumps(schema))
        return lambda row: serialize(row, SerializationContext(topic, MessageField.VALUE))

    return serializer


@pytest.fixture(scope="module")
def messages(tmp_path_factory):
    """The Python module that protoc generates from PROTO."""
    directory = tmp_path_factory.mktemp("proto")
    (directory / "order.proto").write_text(PROTO, "utf-8")
    words = [sys.executable, "-m", "grpc_tools.protoc", f"-I{directory}", f"--python_out={directory}", "order.proto"]
    subprocess.run(words, check=True, timeout=60)
    spec = util.spec_from_file_location("order_pb2", directory / "order_pb2.py")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.directory = directory
    return module


def decoded(values, *records: bytes | None) -> list[dict]:
    return values(pa.array(records, pa.binary())).to_pylist()


@pytest.mark.slow
def test_a_pipeline_reads_avro_while_its_schema_evolves(
    run_spec, new_topic, new_name, produce, avro, registry, tmp_path, bootstrap_servers
):
    topic, name = new_topic(), new_name("avro")[:60]
    old, new = avro(topic, ORDER), avro(topic, NEWER)
    produce(topic, [(None, old({"user": "ann", "amount": 1})), (None, b"no Avro"), (None, None)])
    produce(topic, [(None, new({"user": "bob", "amount": 2, "city": "Brno"})), (None, struct.pack(">bI", 0, 999))])
    spec = f"""
source: {{topic: {topic}, format: avro, registry: "{registry.url}"}}
sql: select user, amount, city from source
sink: {{path: out}}
"""
    (state,) = run_spec(spec, name)
    assert (state.state, state.dead_letters) == ("finished", 3)
    newest = avro(topic, {**NEWER, "fields": [*NEWER["fields"], {"name": "paid", "type": "boolean", "default": False}]})
    produce(topic, [(None, newest({"user": "cid", "amount": 3, "city": None, "paid": True}))])
    run_spec(spec, name)
    rows = sorted(pq.read_table(tmp_path / "out").to_pylist(), key=lambda row: row["user"])
    assert rows == [
        {"user": "ann", "amount": 1, "city": None},
        {"user": "bob", "amount": 2, "city": "Brno"},
        {"user": "cid", "amount": 3, "city": None},
    ]
    letters = [row for batch in read_topic(bootstrap_servers, f"{name}.dead-letters") for row in batch.to_pylist()]
    reasons = {
        row["value"]: next(header["value"] for header in row["headers"] if header["key"] == "moldau.reason").decode()
        for row in letters
    }
    assert reasons[b"no Avro"] == "the value does not begin with a zero byte and the id of a schema"
    assert reasons[None] == "the record has no value"
    assert "answered 404: Schema not found" in reasons[struct.pack(">bI", 0, 999)]


def test_a_writer_s_schema_is_resolved_against_the_reader_s_and_asked_for_once(avro, registry):
    reader = Schema(json.dumps(NEWER), "AVRO")
    values = AvroValues(RegisteredSchema(0, reader.schema_str), Registry(registry.url))
    old = avro("resolved", ORDER)
    first = old({"user": "ann", "amount": 1})
    before = len(registry.asked)
    assert decoded(values, *[first] * 3) == [{"amount": 1, "user": "ann", "city": None, "_moldau_corrupt": None}] * 3
    decoded(values, first)
    assert [path for path in registry.asked[before:] if path.startswith("/schemas/ids/")] in (
        [f"/schemas/ids/{int.from_bytes(first[1:5], 'big')}"], [],
    )  # fmt: skip
    unknown = struct.pack(">bI", 0, 9_999)
    assert len({row["_moldau_corrupt"] for row in decoded(values, first, unknown, unknown)}) == 2
    assert registry.asked.count("/schemas/ids/9999") == 1


def test_what_cannot_be_decoded_is_a_reason_and_its_neighbours_are_rows(avro, registry):
    values = AvroValues(RegisteredSchema(0, json.dumps(ORDER)), Registry(registry.url))
    good = avro("damaged", ORDER)({"user": "ann", "amount": 1})
    rows = decoded(values, good, good[:-1], good + b"x", None, good)
    assert [row and row["user"] for row in rows] == ["ann", None, None, None, "ann"]
    assert rows[1]["_moldau_corrupt"] is not None
    assert rows[2]["_moldau_corrupt"] == "ValueError: 1 bytes are after the last field"
    assert rows[3] is None


def test_every_type_of_avro_has_its_column():
    fields = {
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "money": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "uid": {"type": "string", "logicalType": "uuid"},
        "state": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]},
        "again": "State",
        "tags": {"type": "array", "items": ["null", "string"]},
        "prices": {"type": "map", "values": "double"},
        "line": ["null", {"type": "record", "name": "Line", "fields": [{"name": "item", "type": "string"}]}],
        "raw": {"type": "fixed", "name": "Two", "size": 2},
        "ratio": "float",
        "yes": "boolean",
    }
    schema = {"type": "record", "name": "All", "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    row = {
        "day": datetime.date(2026, 1, 2), "at": at, "local": at.replace(tzinfo=None), "money": decimal.Decimal("1.50"),
        "uid": "00000000-0000-0000-0000-000000000001", "state": "PAID", "again": "NEW", "tags": ["a", None],
        "prices": {"tea": 1.5}, "line": {"item": "tea"}, "raw": b"ab", "ratio": 0.5, "yes": True,
    }  # fmt: skip
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    (found,) = decoded(AvroValues(RegisteredSchema(-1, json.dumps(schema)), None), out.getvalue())
    assert found == {**row, "prices": [("tea", 1.5)], "_moldau_corrupt": None}


@pytest.mark.parametrize(
    ("schema", "refused"),
    [
        ('"string"', "is no record"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["int", "string"]}]}', "a union of 2 types"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": ["null", "A"]}]}', "A holds itself"),
        ('{"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]}', "cannot be read"),
        (json.dumps({**ORDER, "fields": [{**MONEY, "type": {**MONEY["type"], "precision": 39}}]}), "of 39 digits"),
    ],
)
def test_an_avro_schema_without_columns_is_refused(schema, refused):
    with pytest.raises(MoldauError, match=refused):
        AvroValues(RegisteredSchema(-1, schema), None)


def test_protobuf_is_read_from_a_registry_and_from_a_file(messages, registry):
    client = SchemaRegistryClient({"url": registry.url})
    serialize = ProtobufSerializer(messages.Order, client, {"use.deprecated.format": False})
    order = messages.Order(
        user="ann", amount=1, lines=[{"item": "tea"}], prices={"tea": 1.5}, state="PAID", large=2**63, raw=b"r"
    )
    order.at.FromDatetime(datetime.datetime(2026, 1, 2))
    order.wrapped.value = 7
    framed = serialize(order, SerializationContext("protos", MessageField.VALUE))
    expected = {
        "user": "ann", "amount": 1, "city": None, "at": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        "wrapped": 7, "lines": [{"item": "tea"}], "prices": [("tea", 1.5)], "state": "PAID",
        "large": decimal.Decimal(2**63), "raw": b"r", "_moldau_corrupt": None,
    }  # fmt: skip
    by_registry = ProtobufFormat(registry=Registry(registry.url), subject="protos-value", message="shop.Order")
    assert decoded(by_registry.values(), framed) == [expected]
    by_file = ProtobufFormat(schema_file=messages.directory / "order.proto", message="shop.Order")
    assert decoded(by_file.values(), order.SerializeToString(), messages.Order().SerializeToString()) == [
        expected,
        {
            "user": "", "amount": 0, "city": None, "at": None, "wrapped": None, "lines": [], "prices": [],
            "state": "NEW", "large": 0, "raw": b"", "_moldau_corrupt": None,
        },
    ]  # fmt: skip


def test_another_message_of_the_schema_and_damage_are_reasons(messages, registry):
    client = SchemaRegistryClient({"url": registry.url})
    other = ProtobufSerializer(messages.Other, client, {"use.deprecated.format": False})
    framed = other(messages.Other(text="a"), SerializationContext("others", MessageField.VALUE))
    decoder = ProtobufFormat(registry=Registry(registry.url), subject="others-value", message="shop.Order")
    values = decoder.values()
    first, *damaged = decoded(values, framed, framed[:5], framed[:5] + b"\xff", framed[:5] + b"\x02\x02\x0a\xff")
    assert (
        first["_moldau_corrupt"] == "ValueError: it is the message at the place (0,) of its schema, and not shop.Order"
    )
    assert all(row["_moldau_corrupt"] for row in damaged)


def test_the_writer_s_schema_says_at_which_place_a_message_stands(registry):
    """Three versions: a message before it, none, and one of another name in its place."""
    texts = ["message Early { string a = 1; } message Late { string b = 1; }", "message Late { string b = 1; }",
             "message Other { string b = 1; }"]  # fmt: skip
    client = SchemaRegistryClient({"url": registry.url})
    heads = [
        struct.pack(
            ">bI", 0, client.register_schema(f"places-{place}", Schema(f'syntax = "proto3"; {text}', "PROTOBUF"))
        )
        for place, text in enumerate(texts)
    ]
    values = ProtobufFormat(registry=Registry(registry.url), subject="places-1", message="Late").values()
    first, second, body = b"\0", b"\x02\x02", b"\x0a\x01x"
    found = decoded(values, heads[0] + second + body, heads[1] + first + body, heads[2] + first + body)
    assert found == [{"b": "x", "_moldau_corrupt": None}] * 3
    others = decoded(values, heads[0] + first + body, heads[1] + second + body)
    assert [row["b"] for row in others] == [None, None]
    assert others[0]["_moldau_corrupt"] == "ValueError: it is the message at the place (0,) of its schema, and not Late"


def test_an_id_that_names_no_protobuf_schema_is_a_reason(messages, registry, avro):
    order = avro("not-protobuf", ORDER)({"user": "ann", "amount": 1})
    decoder = ProtobufFormat(
        schema_file=messages.directory / "order.proto", message="shop.Order", registry=Registry(registry.url)
    )
    unknown, of_avro = decoded(decoder.values(), struct.pack(">bI", 0, 9_998) + b"\x02\x02", order)
    assert "answered 404: Schema not found" in unknown["_moldau_corrupt"]
    assert "answered 422: " in of_avro["_moldau_corrupt"]


def test_a_protobuf_schema_that_cannot_be_read_is_refused(tmp_path: Path):
    broken = tmp_path / "broken.proto"
    broken.write_text("message {", "utf-8")
    with pytest.raises(MoldauError, match=r"does not compile: .*broken\.proto:1:9: Expected message name"):
        ProtobufFormat(schema_file=broken).values()
    broken.write_text('syntax = "proto3"; message A { A a = 1; }', "utf-8")
    with pytest.raises(MoldauError, match="A holds itself"):
        ProtobufFormat(schema_file=broken).values()
    with pytest.raises(MoldauError, match=r"has no message shop\.Order"):
        ProtobufFormat(schema_file=broken, message="shop.Order").values()


@pytest.mark.slow
def test_a_pipeline_writes_avro_that_confluent_s_deserializer_reads(
    run_spec, new_topic, produce, read_back, registry, tmp_path, spark
):
    source, target = new_topic(), new_topic()
    (tmp_path / "paid.avsc").write_text(json.dumps({**NEWER, "fields": [*NEWER["fields"], MONEY]}), "utf-8")
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, amount int, at timestamp"}}
sql: |
  select user, amount, cast(amount as decimal(9, 2)) as money from source
sink: {{topic: {target}, format: avro, schema_file: paid.avsc, registry: "{registry.url}", key: user}}
"""
    produce(source, [(None, b'{"user": "ann", "amount": 7}')])
    run_spec(spec)
    ((key, value),) = read_back(target)
    read = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    assert (key, read(value, SerializationContext(target, MessageField.VALUE))) == (
        b"ann", {"user": "ann", "amount": 7, "city": None, "money": decimal.Decimal("7.00")},
    )  # fmt: skip
    newest = SchemaRegistryClient({"url": registry.url}).get_latest_version(f"{target}-value")
    assert newest.schema_id == int.from_bytes(value[1:5], "big")
    paid = AvroFormat(schema_file=tmp_path / "paid.avsc")
    with pytest.raises(MoldauError, match="the SQL gives a column 'total', but the schema has amount, user, city, mon"):
        to_records(spark.sql("select 1 as total"), None, paid)


def test_what_avro_writes_avro_reads(registry, tmp_path):
    text = json.dumps(NEWER)
    (tmp_path / "order.avsc").write_text(text, "utf-8")
    writer = AvroFormat(
        schema_file=tmp_path / "order.avsc", registry=Registry(registry.url), subject="own-value"
    ).writer()
    rows = pa.array([{"user": "ann", "amount": 1}, {"user": "bob", "amount": None}])
    values = AvroValues(RegisteredSchema(0, text), Registry(registry.url))
    assert decoded(values, *writer(rows[:1]).to_pylist())[0]["user"] == "ann"
    with pytest.raises(MoldauError, match=r"a row does not fit the schema: .*bob"):
        writer(rows)
    with pytest.raises(MoldauError, match="has a field 'user' without a default, which the SQL does not give"):
        writer.check(["amount"])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 2**31), ("int", -(2**31) - 1), ("int", True), ("int", 1.5), ("long", decimal.Decimal("1.5")),
        ("float", True), ("float", "1.5"), ("double", decimal.Decimal("1.5")), ("boolean", 1), ("boolean", "false"),
        ("string", b"a"), ("bytes", "a"), ("string", 1),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_its_avro_type_is_not_made_to_fit(tmp_path, kind, value):
    file = tmp_path / "one.avsc"
    for field, given in ((kind, value), (["null", kind], value), ({"type": "array", "items": kind}, [value])):
        record = {"type": "record", "name": "One", "fields": [{"name": "a", "type": field}]}
        file.write_text(json.dumps(record), "utf-8")
        writer = AvroFormat(schema_file=file).writer()
        for write, rows in ((writer.value_of, {"a": given}), (writer, pa.array([{"a": given}]))):
            with pytest.raises(MoldauError, match="a row does not fit the schema"):
                write(rows)


def test_a_null_is_no_value_of_an_avro_type_and_columns_of_its_type_are_written(tmp_path):
    file = tmp_path / "one.avsc"
    day, at = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    stored = {
        "int": pa.array([-(2**31)], pa.int64()), "long": pa.array([2**63 - 1]), "float": pa.array([0.5]),
        "double": pa.array([0.1]), "boolean": pa.array([False]), "string": pa.array(["a"]), "bytes": pa.array([b"a"]),
        "date": pa.array([day]), "timestamp-micros": pa.array([at], pa.timestamp("us", "UTC")),
    }  # fmt: skip
    for kind, column in stored.items():
        field = {
            "date": {"type": "int", "logicalType": kind},
            "timestamp-micros": {"type": "long", "logicalType": kind},
        }
        record = {"type": "record", "name": "One", "fields": [{"name": "a", "type": field.get(kind, kind)}]}
        file.write_text(json.dumps(record), "utf-8")
        avro = AvroFormat(schema_file=file)
        rows = pa.StructArray.from_arrays([column], ["a"])
        assert decoded(avro.values(), *avro.writer()(rows).to_pylist())[0]["a"] == column[0].as_py()
        with pytest.raises(MoldauError, match="a row does not fit the schema"):
            avro.writer()(pa.StructArray.from_arrays([pa.nulls(1, column.type)], ["a"]))


def test_what_protobuf_writes_confluent_s_deserializer_reads(messages, registry):
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC)
    kind = pa.struct(
        {
            "user": pa.string(), "city": pa.string(), "at": pa.timestamp("us", "UTC"), "wrapped": pa.int64(),
            "lines": pa.list_(pa.struct({"item": pa.string()})), "prices": pa.map_(pa.string(), pa.float64()),
            "state": pa.string(), "large": pa.decimal128(20, 0), "raw": pa.binary(),
        }
    )  # fmt: skip
    row = {
        "user": "ann", "city": None, "at": at, "wrapped": 7, "lines": [{"item": "tea"}], "prices": [("tea", 1.5)],
        "state": "PAID", "large": decimal.Decimal(2**63), "raw": b"r",
    }  # fmt: skip
    proto = messages.directory / "order.proto"
    written_as = ProtobufFormat(
        schema_file=proto, message="shop.Order", registry=Registry(registry.url), subject="written-value"
    )
    (value,) = written_as.writer()(pa.array([row], kind)).to_pylist()
    read = ProtobufDeserializer(messages.Order, {"use.deprecated.format": False})
    found = read(value, SerializationContext("written", MessageField.VALUE))
    assert (found.user, found.HasField("city"), found.wrapped.value, found.lines[0].item) == ("ann", False, 7, "tea")
    assert (found.at.ToDatetime(tzinfo=datetime.UTC), found.prices["tea"], found.large) == (at, 1.5, 2**63)
    (again,) = decoded(written_as.values(), value)
    assert {name: again[name] for name in row} == row
    with pytest.raises(MoldauError, match="the schema has user, amount, city"):
        written_as.writer().check(["total"])


@pytest.mark.slow
def test_the_tests_of_a_pipeline_give_rows_of_a_schema(spark, messages, tmp_path):
    """Offline: with a schema in a file no registry is asked."""
    file = tmp_path / "spec.yaml"
    file.write_text(
        f"""
name: orders
bootstrap_servers: 127.0.0.1:1
source: {{topic: o, format: protobuf, message: shop.Order, registry: "http://127.0.0.1:1",
         schema_file: "{messages.directory}/order.proto"}}
sql: select * from source where amount > 1
sink: {{path: out}}
tests:
  every kind of field:
    given:
      source:
        - {{user: ann, amount: 2, city: Brno, at: 2026-01-01T00:00:00Z, wrapped: 7, lines: [{{item: tea}}],
            prices: {{tea: 1.5}}, state: PAID, large: 18446744073709551615, raw: AAE=, _key: k}}
        - {{user: bob, amount: 1}}
        - {{user: cid, amount: 3}}
        - no Protobuf
    expect:
      orders:
        - {{user: ann, city: Brno, at: 2026-01-01T00:00:00Z, wrapped: 7, lines: [{{item: tea}}], prices: {{tea: 1.5}},
            state: PAID, large: 18446744073709551615, raw: AAE=, _key: k, _offset: 0}}
        - {{user: cid, city: null, at: null, wrapped: null, lines: [], prices: {{}}, state: NEW, large: 0, raw: "",
            _key: null, _offset: 2}}
""",
        "utf-8",
    )
    for case in pipeline_tests(file):
        case.check()
