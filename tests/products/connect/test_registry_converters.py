"""The converters with a schema registry: a real registry, and Confluent's own serializers on the other side."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from confluent_kafka.schema_registry import Schema as RegistrySchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pool, message_factory
from google.type import money_pb2

from moldau.connect.configuration import ConfigError
from moldau.connect.converting.converter import Converter, DataError, RetriableError, Role
from moldau.connect.converting.named import new_converter
from moldau.connect.converting.registry.protobuf_schemas import to_protobuf
from moldau.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from tests.support.cluster_under_test import cluster_under_test
from tests.support.schema_registry import SchemaRegistry

MOMENT = dt.datetime(2026, 5, 6, 7, 8, 9, 123_000, dt.UTC)
LINE = Schema(Type.STRUCT, name="shop.Line", fields=(Field("item", Schema(Type.STRING)),))
ORDER = Schema(
    Type.STRUCT,
    name="shop.Order",
    version=4,
    doc="An order",
    parameters={"owner": "sales"},
    fields=(
        Field("id", Schema(Type.INT64)),
        Field("size", Schema(Type.INT8)),
        Field("short", Schema(Type.INT16, optional=True)),
        Field("weight", Schema(Type.FLOAT32)),
        Field("total", Schema(Type.FLOAT64, optional=True)),
        Field("paid", Schema(Type.BOOLEAN)),
        Field("raw", Schema(Type.BYTES, optional=True)),
        Field("note", Schema(Type.STRING, optional=True)),
        Field("price", Schema(Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})),
        Field("day", Schema(Type.INT32, name=DATE, version=1, optional=True)),
        Field("at", Schema(Type.INT32, name=TIME, version=1)),
        Field("when", Schema(Type.INT64, name=TIMESTAMP, version=1)),
        Field("lines", Schema(Type.ARRAY, values=LINE)),
        Field("first", replace(LINE, optional=True)),
        Field("names", Schema(Type.MAP, keys=Schema(Type.STRING), values=Schema(Type.INT32, optional=True))),
        Field("ranks", Schema(Type.MAP, keys=Schema(Type.INT32), values=Schema(Type.STRING))),
    ),
)
VALUE: dict[str, object] = {
    "id": 2**40,
    "size": -5,
    "short": None,
    "weight": 1.5,
    "total": 0.1,
    "paid": True,
    "raw": b"\x00\xff",
    "note": "Éva 😀",
    "price": Decimal("-12.50"),
    "day": dt.date(1969, 12, 31),
    "at": dt.time(23, 59, 59, 999_000),
    "when": MOMENT,
    "lines": [{"item": "a"}, {"item": ""}],
    "first": None,
    "names": {"a": 1, "b": None},
    "ranks": {1: "x", -2: "y"},
}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with cluster_under_test() as servers:
        registry = SchemaRegistry(servers, f"schemas-{uuid.uuid4()}")
        yield registry
        registry.close()


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4()}"


def converter(
    registry: SchemaRegistry | str, name: str = "avro", role: Role = Role.VALUE, **settings: str
) -> Converter:
    key = f"{role}.converter"
    url = registry if isinstance(registry, str) else registry.url
    given = {key: name, f"{key}.schema.registry.url": url}
    return new_converter({**given, **{f"{key}.{k.replace('_', '.')}": v for k, v in settings.items()}}, role, "")


def through(
    registry: SchemaRegistry, topic: str, schema: Schema, value: object, name: str = "avro"
) -> tuple[object, object]:
    """Written by one converter and read by another one."""
    return converter(registry, name).to_value(topic, (), converter(registry, name).from_value(topic, (), schema, value))


def registered(registry: SchemaRegistry, subject: str) -> dict[str, object]:
    text = SchemaRegistryClient({"url": registry.url}).get_latest_version(subject).schema.schema_str
    assert text is not None
    found: dict[str, object] = json.loads(text)
    return found


@pytest.mark.parametrize("name", ["avro", "json-schema"])
def test_a_record_comes_back_with_its_schema(registry: SchemaRegistry, topic: str, name: str) -> None:
    assert through(registry, topic, ORDER, VALUE, name) == (ORDER, VALUE)


def test_avro_has_the_schema_of_confluent(registry: SchemaRegistry, topic: str) -> None:
    converter(registry).from_value(topic, (), ORDER, VALUE)
    found = registered(registry, f"{topic}-value")
    assert {key: value for key, value in found.items() if key != "fields"} == {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "connect.name": "shop.Order",
        "connect.version": 4,
        "connect.doc": "An order",
        "connect.parameters": {"owner": "sales"},
    }
    fields = {one["name"]: one for one in found["fields"]}  # type: ignore[attr-defined]
    assert fields["size"]["type"] == {"type": "int", "connect.type": "int8"}
    assert fields["short"] == {
        "name": "short",
        "type": ["null", {"type": "int", "connect.type": "int16"}],
        "default": None,
    }
    assert fields["price"]["type"] == {
        "type": "bytes",
        "connect.version": 1,
        "connect.parameters": {"scale": "2"},
        "connect.name": DECIMAL,
        "logicalType": "decimal",
        "precision": 64,
        "scale": 2,
    }
    assert fields["day"]["type"][1]["logicalType"] == "date"
    assert fields["first"]["type"] == ["null", "shop.Line"]
    assert fields["ranks"]["type"]["items"]["name"] == "MapEntry"


def test_confluents_client_reads_our_avro(registry: SchemaRegistry, topic: str) -> None:
    payload = converter(registry).from_value(topic, (), ORDER, VALUE)
    reading = AvroDeserializer(SchemaRegistryClient({"url": registry.url}))
    found = reading(payload, SerializationContext(topic, MessageField.VALUE))
    kept = ("id", "size", "short", "note", "price", "day", "when", "names", "first")
    assert {name: found[name] for name in kept} == {name: VALUE[name] for name in kept}


def test_avro_of_confluents_client_is_read(registry: SchemaRegistry, topic: str) -> None:
    avro = {
        "type": "record",
        "name": "Seen",
        "namespace": "web",
        "doc": "A visit",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
            {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
            {"name": "either", "type": ["null", "string", "long", {"type": "record", "name": "Other", "fields": []}]},
            {"name": "left", "type": "int", "default": 5},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        ],
    }
    writing = AvroSerializer(SchemaRegistryClient({"url": registry.url}), json.dumps(avro))
    value = {"id": 1, "kind": "OLD", "hash": b"ab", "either": "x", "left": 6, "at": 17}
    payload = writing(value, SerializationContext(topic, MessageField.VALUE))
    schema, found = converter(registry).to_value(topic, (), payload)
    assert found == {**value, "either": {"string": "x", "long": None, "Other": None}}
    assert schema is not None
    assert (schema.name, schema.version) == ("web.Seen", 1)
    assert schema.parameters == {"io.confluent.connect.avro.record.doc": "A visit"}
    kinds = {one.name: one.schema for one in schema.fields}
    assert kinds["kind"].parameters["io.confluent.connect.avro.Enum"] == "web.Kind"
    assert kinds["either"].name == "io.confluent.connect.avro.Union"
    assert (kinds["left"].default, kinds["at"].type, kinds["at"].name) == (5, Type.INT64, None)
    again = f"{topic}-again"
    assert through(registry, again, schema, found)[1] == found


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (Schema(Type.STRING), "x"),
        (Schema(Type.INT8), -3),
        (Schema(Type.BYTES), b"\x00\x01"),
        (Schema(Type.FLOAT32), 1.5),
        (Schema(Type.ARRAY, values=Schema(Type.INT32)), [1, 2]),
        (Schema(Type.MAP, keys=Schema(Type.STRING), values=Schema(Type.BYTES)), {"a": b"\xff"}),
        (Schema(Type.INT32, name=DATE, version=1), dt.date(2020, 1, 1)),
    ],
)
def test_avro_brings_a_single_value_back(registry: SchemaRegistry, topic: str, schema: Schema, value: object) -> None:
    found, back = through(registry, topic, schema, value)
    assert back == value
    assert isinstance(found, Schema)
    assert replace(found, version=schema.version) == schema


def test_defaults_are_kept(registry: SchemaRegistry, topic: str) -> None:
    schema = Schema(
        Type.STRUCT,
        name="shop.Defaults",
        version=1,
        fields=(
            Field("a", Schema(Type.INT32, default=5)),
            Field("b", Schema(Type.STRING, optional=True, default="x")),
            Field("c", Schema(Type.BYTES, default=b"\x00\xff")),
            Field("d", Schema(Type.INT32, name=DATE, version=1, default=dt.date(1970, 1, 3))),
            Field("e", Schema(Type.ARRAY, values=Schema(Type.FLOAT64), default=[1.0])),
        ),
    )
    found = through(registry, topic, schema, {})
    assert found == (schema, {"a": 5, "b": "x", "c": b"\x00\xff", "d": dt.date(1970, 1, 3), "e": [1.0]})


def test_a_null_is_a_tombstone(registry: SchemaRegistry, topic: str) -> None:
    assert converter(registry).from_value(topic, (), ORDER, None) is None
    assert converter(registry).to_value(topic, (), None) == (None, None)


def test_the_strategy_names_the_subject(registry: SchemaRegistry, topic: str) -> None:
    strategy = "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy"
    converter(registry, value_subject_name_strategy=strategy).from_value(topic, (), LINE, {"item": "x"})
    converter(registry, role=Role.KEY).from_value(topic, (), LINE, {"item": "x"})
    subjects = SchemaRegistryClient({"url": registry.url}).get_subjects()
    assert {one for one in subjects if topic in one} == {f"{topic}-shop.Line", f"{topic}-key"}


def test_an_unregistered_schema_is_rejected_without_registration(registry: SchemaRegistry, topic: str) -> None:
    with pytest.raises(DataError, match="404"):
        converter(registry, auto_register_schemas="false").from_value(topic, (), LINE, {"item": "x"})


def test_the_newest_schema_is_written_with(registry: SchemaRegistry, topic: str) -> None:
    wider = replace(LINE, fields=(*LINE.fields, Field("count", Schema(Type.INT32, default=7))))
    converter(registry).from_value(topic, (), wider, {"item": "x"})
    payload = converter(registry, use_latest_version="true").from_value(topic, (), LINE, {"item": "y"})
    assert converter(registry).to_value(topic, (), payload)[1] == {"item": "y", "count": 7}


def test_equal_schemas_are_registered_once(registry: SchemaRegistry, topic: str) -> None:
    writing = converter(registry)
    before = len(registry.asked)
    for _ in range(3):
        writing.from_value(topic, (), replace(LINE), {"item": "x"})
    assert len(registry.asked) == before + 1


@pytest.mark.parametrize("payload", [b"", b"\x00\x00", b"\x01\x00\x00\x00\x01x", b'{"a":1}'])
def test_bytes_without_the_head_are_rejected(registry: SchemaRegistry, topic: str, payload: bytes) -> None:
    with pytest.raises(DataError, match="magic"):
        converter(registry).to_value(topic, (), payload)


def test_an_unknown_id_is_rejected(registry: SchemaRegistry, topic: str) -> None:
    with pytest.raises(DataError, match="404"):
        converter(registry).to_value(topic, (), b"\x00\x7f\x00\x00\x00x")


def test_cut_bytes_are_rejected(registry: SchemaRegistry, topic: str) -> None:
    payload = converter(registry).from_value(topic, (), ORDER, VALUE)
    assert payload is not None
    with pytest.raises(DataError, match="do not fit"):
        converter(registry).to_value(topic, (), payload[:-10])


def test_a_registry_that_is_down_is_an_error_to_retry(topic: str) -> None:
    with pytest.raises(RetriableError, match="does not answer"):
        converter("http://127.0.0.1:1").from_value(topic, (), LINE, {"item": "x"})


def test_the_url_is_required() -> None:
    with pytest.raises(ConfigError, match=r"value\.converter\.schema\.registry\.url"):
        new_converter({"value.converter": "avro"}, Role.VALUE, "")


@pytest.mark.parametrize(("schema", "value"), [(None, {"a": 1}), (LINE, {"item": 5}), (LINE, {}), (LINE, {"other": 1})])
def test_a_value_that_does_not_fit_is_rejected(
    registry: SchemaRegistry, topic: str, schema: Schema | None, value: object
) -> None:
    with pytest.raises(DataError):
        converter(registry).from_value(topic, (), schema, value)


def test_two_types_with_one_name_are_rejected(registry: SchemaRegistry, topic: str) -> None:
    other = replace(LINE, fields=(Field("other", Schema(Type.INT32)),))
    schema = Schema(Type.STRUCT, fields=(Field("a", LINE), Field("b", other)))
    with pytest.raises(DataError, match=r"two types with the name shop\.Line"):
        converter(registry).from_value(topic, (), schema, {"a": {"item": "x"}, "b": {"other": 1}})


def test_json_schema_has_the_form_of_confluent(registry: SchemaRegistry, topic: str) -> None:
    schema = Schema(
        Type.STRUCT,
        name="shop.Line",
        fields=(
            Field("item", Schema(Type.STRING, optional=True, default="x")),
            Field("count", Schema(Type.INT32)),
            Field("price", Schema(Type.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})),
        ),
    )
    writing = converter(registry, "json-schema", decimal_format="NUMERIC")
    payload = writing.from_value(topic, (), schema, {"count": 2, "price": Decimal("1.50")})
    assert payload is not None
    assert payload[5:] == b'{"item":"x","count":2,"price":1.50}'
    assert registered(registry, f"{topic}-value") == {
        "type": "object",
        "title": "shop.Line",
        "properties": {
            "item": {"oneOf": [{"type": "null"}, {"type": "string"}], "default": "x", "connect.index": 0},
            "count": {"type": "integer", "connect.type": "int32", "connect.index": 1},
            "price": {
                "type": "number",
                "title": DECIMAL,
                "connect.type": "bytes",
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
                "connect.index": 2,
            },
        },
    }
    assert writing.to_value(topic, (), payload)[1] == {"item": "x", "count": 2, "price": Decimal("1.50")}


def test_json_of_confluents_client_is_read(registry: SchemaRegistry, topic: str) -> None:
    text = {
        "title": "Seen",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "note": {"type": ["string", "null"]},
            "place": {"$ref": "#/definitions/Place"},
        },
        "definitions": {"Place": {"type": "object", "properties": {"x": {"type": "number"}}}},
    }
    writing = JSONSerializer(json.dumps(text), SchemaRegistryClient({"url": registry.url}))
    value = {"id": 1, "note": None, "place": {"x": 0.5}}
    payload = writing(value, SerializationContext(topic, MessageField.VALUE))
    schema, found = converter(registry, "json-schema").to_value(topic, (), payload)
    assert found == value
    place = Schema(Type.STRUCT, fields=(Field("x", Schema(Type.FLOAT64)),))
    fields = (
        Field("id", Schema(Type.INT64)),
        Field("note", Schema(Type.STRING, optional=True)),
        Field("place", place),
    )
    assert schema == Schema(Type.STRUCT, name="Seen", version=1, fields=fields)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ({"type": "null"}, "type null"),
        ({"allOf": [{"type": "string"}]}, "allOf"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "oneOf"),
        ({"type": "array", "items": {"$ref": "#"}}, "reference #"),
        (
            {"type": "array", "items": {"$ref": "#/definitions/A"}, "definitions": {"A": {"$ref": "#/definitions/A"}}},
            "itself",
        ),
    ],
)
def test_a_json_schema_that_is_not_read_is_named(
    registry: SchemaRegistry, topic: str, text: dict[str, object], reason: str
) -> None:
    found = SchemaRegistryClient({"url": registry.url}).register_schema(
        f"{topic}-value", RegistrySchema(json.dumps(text), "JSON")
    )
    with pytest.raises(DataError, match=reason):
        converter(registry, "json-schema").to_value(topic, (), b"\x00" + found.to_bytes(4, "big") + b"1")


def test_a_schema_of_another_kind_is_rejected(registry: SchemaRegistry, topic: str) -> None:
    payload = converter(registry).from_value(topic, (), LINE, {"item": "x"})
    with pytest.raises(DataError, match="not JSON"):
        converter(registry, "json-schema").to_value(topic, (), payload)


def without_nulls(schema: Schema) -> Schema:
    """What Protobuf keeps: a value of a map is never null, and a message is always optional."""
    kept = tuple(replace(one, schema=plain(one.schema)) for one in schema.fields)
    return replace(schema, fields=kept, version=None, doc=None, parameters={})


def plain(schema: Schema) -> Schema:
    is_message = schema.type is Type.STRUCT or schema.name is not None
    values = replace(schema.values, optional=False) if schema.values is not None else None
    if values is not None and values.name is not None:
        values = replace(values, name="shop.Order.Line")
    name = "shop.Order.Line" if schema.type is Type.STRUCT else schema.name
    return replace(schema, optional=schema.optional or is_message, values=values, name=name)


def test_protobuf_brings_a_record_back(registry: SchemaRegistry, topic: str) -> None:
    value = {**VALUE, "names": {"a": 1}}
    assert through(registry, topic, ORDER, value, "protobuf") == (without_nulls(ORDER), value)


def test_confluents_client_reads_our_protobuf(registry: SchemaRegistry, topic: str) -> None:
    payload = converter(registry, "protobuf").from_value(topic, (), LINE, {"item": "x"})
    assert payload is not None
    file = to_protobuf(LINE)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Line"))
    reading = ProtobufDeserializer(kind, {"use.deprecated.format": False}, SchemaRegistryClient({"url": registry.url}))
    found = reading(payload, SerializationContext(topic, MessageField.VALUE))
    assert found is not None
    assert found.item == "x"


def test_protobuf_of_confluents_client_is_read(registry: SchemaRegistry, topic: str) -> None:
    settings = {"use.deprecated.format": False}
    writing = ProtobufSerializer(money_pb2.Money, SchemaRegistryClient({"url": registry.url}), settings)
    payload = writing(money_pb2.Money(currency_code="EUR", units=5), SerializationContext(topic, MessageField.VALUE))
    schema, found = converter(registry, "protobuf").to_value(topic, (), payload)
    assert found == {"currency_code": "EUR", "units": 5, "nanos": 0}
    assert schema is not None
    assert schema.name == "google.type.Money"


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        (Schema(Type.INT32), 1, "needs a struct"),
        (None, {"a": 1}, "without a schema"),
        (LINE, {"item": 5}, "Field item"),
        (LINE, {}, "Field item: Found null"),
        (LINE, {"other": 1}, "'other' is no field"),
        (
            Schema(
                Type.STRUCT,
                fields=(Field("a", Schema(Type.ARRAY, values=Schema(Type.ARRAY, values=Schema(Type.INT32)))),),
            ),
            {"a": [[1]]},
            "no list of lists",
        ),
    ],
)
def test_what_protobuf_cannot_hold_is_rejected(
    registry: SchemaRegistry, topic: str, schema: Schema | None, value: object, reason: str
) -> None:
    with pytest.raises(DataError, match=reason):
        converter(registry, "protobuf").from_value(topic, (), schema, value)


@pytest.mark.parametrize("tail", [b"", b"\x02", b"\x02\x02", b"\x00\xff", b"\x80\x80\x80\x80\x80\x80"])
def test_odd_protobuf_bytes_are_rejected(registry: SchemaRegistry, topic: str, tail: bytes) -> None:
    payload = converter(registry, "protobuf").from_value(topic, (), LINE, {"item": "x"})
    assert payload is not None
    with pytest.raises(DataError):
        converter(registry, "protobuf").to_value(topic, (), payload[:5] + tail)
