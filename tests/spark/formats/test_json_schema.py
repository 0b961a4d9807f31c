"""JSON topics with the id of a schema: written and read by Confluent's own serializers, with their schemas in a
registry."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from moldau.columnar.reader import read_topic
from moldau.errors import MoldauError
from moldau.products.pipelines.formats.json_schema import JsonSchemaFormat
from moldau.products.pipelines.formats.registry import Registry
from moldau.testing.pipelines import pipeline_tests

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
ORDER = {"title": "Order", "type": "object", "additionalProperties": False, "properties": {"user": TEXT, "n": WHOLE}}
NEWER = {**ORDER, "properties": {**ORDER["properties"], "city": {"type": ["string", "null"]}}}
NEWEST = {**NEWER, "properties": {**NEWER["properties"], "lines": {"type": "array", "items": TEXT}}}


@pytest.fixture
def serializer(registry):
    """`serializer(topic, schema)(row)` gives the bytes."""

    def of(topic: str, schema: dict | Schema):
        client = SchemaRegistryClient({"url": registry.url})
        text = schema if isinstance(schema, Schema) else json.dumps(schema)
        serialize = JSONSerializer(text, client)
        return lambda row: serialize(row, SerializationContext(topic, MessageField.VALUE))

    return of


def decoded(values, *records: bytes | None) -> list[dict]:
    return values(pa.array(records, pa.binary())).to_pylist()


def letters_of(bootstrap_servers: str, topic: str) -> dict[bytes | None, str]:
    """The reasons of dead letters, by the values."""
    return {
        row["value"]: next(one["value"] for one in row["headers"] if one["key"] == "moldau.reason").decode()
        for batch in read_topic(bootstrap_servers, topic)
        for row in batch.to_pylist()
    }


@pytest.mark.slow
def test_a_pipeline_reads_json_by_its_schema_while_that_evolves(
    run_spec, new_topic, new_name, produce, serializer, registry, tmp_path, bootstrap_servers
):
    topic, name = new_topic(), new_name("json")[:60]
    old, new = serializer(topic, ORDER), serializer(topic, NEWER)
    no_number = old({"user": "ann", "n": 1})[:5] + b'{"user": "eve", "n": "1"}'
    unknown = struct.pack(">bI", 0, 999) + b"{}"
    produce(topic, [(None, old({"user": "ann", "n": 1})), (None, new({"user": "bob", "n": 2, "city": "Brno"}))])
    produce(topic, [(None, value) for value in (b'{"user": "bare"}', no_number, unknown, unknown[:4], None)])
    spec = f"""
source: {{topic: {topic}, format: json, registry: "{registry.url}"}}
sql: select * except (_key, _topic, _partition, _offset, _timestamp) from source
sink: {{path: out}}
"""
    (state,) = run_spec(spec, name)
    assert (state.state, state.dead_letters) == ("finished", 5)
    letters = letters_of(bootstrap_servers, f"{name}.dead-letters")
    newest = serializer(topic, NEWEST)
    produce(topic, [(None, newest({"user": "cid", "n": 3, "city": None, "lines": ["tea"]}))])
    run_spec(spec, name)
    rows = [row for file in sorted((tmp_path / "out").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    assert sorted(rows, key=lambda row: row["user"]) == [
        {"user": "ann", "n": 1, "city": None},
        {"user": "bob", "n": 2, "city": "Brno"},
        {"user": "cid", "n": 3, "city": None, "lines": ["tea"]},
    ]
    assert letters[b'{"user": "bare"}'] == "the value does not begin with a zero byte and the id of a schema"
    assert letters[no_number] == "ValidationError: '1' is no whole number that a column holds - at `$.n`"
    assert "answered 404: Schema not found" in letters[unknown]
    assert letters[None] == "the record has no value"


def test_schemas_refer_to_others_in_the_registry(serializer, registry):
    client = SchemaRegistryClient({"url": registry.url})
    place = {"definitions": {"Town": {"type": "object", "properties": {"name": TEXT}}}, "$ref": "#/definitions/Town"}
    client.register_schema("place.json", Schema(json.dumps(place), "JSON"))
    there = {"$ref": "place.json"}
    schema = {"title": "Trip", "type": "object", "properties": {"start": there, "stops": {"items": there}}}
    trip = Schema(json.dumps(schema), "JSON", [SchemaReference("place.json", "place.json", 1)])
    value = serializer("trips", trip)({"start": {"name": "Brno"}, "stops": [{"name": "Linz"}]})
    values = JsonSchemaFormat(registry=Registry(registry.url), subject="trips-value").values()
    assert decoded(values, value) == [{"start": {"name": "Brno"}, "stops": [{"name": "Linz"}], "_moldau_corrupt": None}]


def test_an_id_is_asked_for_once(serializer, registry):
    value = serializer("asked", ORDER)({"user": "ann", "n": 1})
    values = JsonSchemaFormat(registry=Registry(registry.url), subject="asked-value").values()
    before = len(registry.asked)
    assert [row["user"] for _ in range(2) for row in decoded(values, *[value] * 3)] == ["ann"] * 6
    asked = [path for path in registry.asked[before:] if path.startswith("/schemas/ids/")]
    assert asked in ([f"/schemas/ids/{int.from_bytes(value[1:5], 'big')}"], [])


def test_a_subject_without_a_json_schema_is_refused(registry):
    client = SchemaRegistryClient({"url": registry.url})
    avro = {"type": "record", "name": "A", "fields": [{"name": "a", "type": "int"}]}
    client.register_schema("no-json-value", Schema(json.dumps(avro), "AVRO"))
    refused = "the newest version of no-json-value: the JSON Schema cannot be read: it is no JSON Schema: 'record'"
    with pytest.raises(MoldauError, match=refused):
        JsonSchemaFormat(registry=Registry(registry.url), subject="no-json-value").values()
    with pytest.raises(MoldauError, match="answered 404: Subject 'absent-value' not found"):
        JsonSchemaFormat(registry=Registry(registry.url), subject="absent-value").values()


def test_a_pipeline_writes_json_that_confluent_s_deserializer_reads(
    run_spec, new_topic, produce, read_back, registry, tmp_path
):
    source, target = new_topic(), new_topic()
    at = {"type": "string", "format": "date-time"}
    paid = {"type": "object", "required": ["user", "n"], "properties": {"user": TEXT, "n": WHOLE, "at": at}}
    (tmp_path / "paid.json").write_text(json.dumps(paid), "utf-8")
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, n int, at timestamp"}}
sql: select user, n, at from source
sink: {{topic: {target}, format: json, schema_file: paid.json, registry: "{registry.url}", key: user}}
"""
    produce(source, [(None, b'{"user": "ann", "n": 7, "at": "2026-01-02T03:04:05.5Z"}'), (None, b'{"user":"b","n":1}')])
    run_spec(spec)
    records = dict(read_back(target))
    client = SchemaRegistryClient({"url": registry.url})
    read = JSONDeserializer(None, schema_registry_client=client)
    context = SerializationContext(target, MessageField.VALUE)
    assert {key: read(value, context) for key, value in records.items()} == {
        b"ann": {"user": "ann", "n": 7, "at": "2026-01-02T03:04:05.500000Z"}, b"b": {"user": "b", "n": 1},
    }  # fmt: skip
    newest = client.get_latest_version(f"{target}-value")
    assert newest.schema_id == int.from_bytes(records[b"b"][1:5], "big")
    assert newest.schema.schema_type == "JSON"
    values = JsonSchemaFormat(registry=Registry(registry.url), subject=f"{target}-value").values()
    (row,) = decoded(values, records[b"ann"])
    assert row["at"] == datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=UTC)


def test_the_tests_of_a_pipeline_give_json_of_a_schema(spark, tmp_path: Path):
    """Offline: with a schema in a file no registry is asked."""
    schema = {
        "type": "object",
        "properties": {"user": TEXT, "n": WHOLE, "at": {**TEXT, "format": "date-time"}, "x": {}},
    }
    (tmp_path / "order.json").write_text(json.dumps(schema), "utf-8")
    file = tmp_path / "spec.yaml"
    file.write_text(
        """
name: orders
bootstrap_servers: 127.0.0.1:1
source: {topic: o, format: json, registry: "http://127.0.0.1:1", schema_file: order.json, event_time: at}
sql: select user, at, get_json_object(x, '$.a') as a from source where n > 1
sink: {path: out}
tests:
  what does not fit is left out:
    given:
      source:
        - {user: ann, n: 2, at: 2026-01-01T00:00:00Z, x: {a: 7}}
        - {user: bob, n: many}
        - no JSON
    expect:
      orders:
        - {user: ann, at: 2026-01-01T00:00:00Z, a: "7"}
""",
        "utf-8",
    )
    (case,) = pipeline_tests(file)
    case.check()
