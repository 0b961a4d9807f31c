"""Rows of streams and tables to the bytes of records and back, through a real broker and Spark."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import (
    DoubleDeserializer,
    DoubleSerializer,
    IntegerDeserializer,
    IntegerSerializer,
    MessageField,
    SerializationContext,
    StringDeserializer,
    StringSerializer,
)

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.times import DEFAULT_TIMES
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.pipelines.running.flow import with_watermark
from moldau.products.pipelines.targets.target import TargetQuery
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.catalog.storage import storage_of
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.statements import CreateSource
from moldau.products.sql.records.inserts import insert_rows
from moldau.products.sql.records.resolving import resolved
from moldau.products.sql.records.source import RelationSource, snapshot, source_of
from moldau.products.sql.records.target import RelationTarget, target_of
from moldau.types import TopicPartition as Partition
from tests.support.schema_registry import SchemaRegistry

pytestmark = pytest.mark.slow


def relation_of(statement: str) -> Relation:
    """The relation that a CREATE statement makes."""
    (parsed,) = parse_script(statement)
    made = parsed.statement
    assert isinstance(made, CreateSource)
    storage = storage_of(made.properties, {}, made.name)
    return Relation(made.name.text, made.kind, storage, made.columns or None, parsed.text)


class World:
    """A session and a broker."""

    def __init__(self, spark, servers: str, directory: Path) -> None:
        self.spark = spark
        self.servers = servers
        self.access = ClusterAccess(servers)
        self.registry: Registry | None = None
        self._directory = directory
        self._queries = 0

    def insert(self, relation: Relation, sql: str) -> int:
        return insert_rows(self.spark.sql(sql), relation, self.access, self.registry)

    def source(self, relation: Relation, **more: str) -> RelationSource:
        return source_of(relation, self.access, registry=self.registry, dead_letters="letters", **more)

    def now(self, relation: Relation, *columns: str) -> list[tuple]:
        rows = snapshot(self.spark, self.source(relation))
        return sorted(map(tuple, rows.selectExpr(*columns or ("*",)).collect()), key=repr)

    def streamed(self, relation: Relation, *columns: str, checkpoint: Path | None = None) -> list[tuple]:
        """The rows that a stream gives from its checkpoint to the end of the topic."""
        source = self.source(relation)
        rows = with_watermark(source.rows(source.load(self.spark), "dead_letters"), source)
        assert rows.columns == source.columns()
        found: list[tuple] = []
        self._run(
            rows.selectExpr(*columns or ("*",)), lambda batch, _: found.extend(map(tuple, batch.collect())), checkpoint
        )
        return sorted(found, key=repr)

    def letters(self, relation: Relation, ends: dict[int, int]) -> list[tuple]:
        """The dead letters up to these offsets by partition: key, value and reason."""
        source = self.source(relation)
        span = BatchSpan(
            self._directory, 0, 0, {}, {Partition(relation.topic, number): end for number, end in ends.items()}
        )
        reason = "cast(filter(headers, one -> one.key = 'moldau.reason')[0].value as string)"
        found = source.letters(self.spark, span, DEFAULT_TIMES, "p")
        return sorted((tuple(row) for row in found.selectExpr("key", "value", reason).collect()), key=repr)

    def copy(self, relation: Relation, target: RelationTarget, *columns: str, checkpoint: Path | None = None) -> None:
        """Streams what SQL makes of the rows of a relation into a target."""
        source = self.source(relation)
        checkpoint = checkpoint or self._new_checkpoint()
        result = target.rows_of(source.rows(source.load(self.spark), "dead_letters").selectExpr(*columns))
        query = TargetQuery(
            "p", "p", checkpoint, "c1", "group", self.access, f"p-{checkpoint.name}", source_topics=(source.names,)
        )
        self._run(result, target.writer(query), checkpoint)

    def _new_checkpoint(self) -> Path:
        self._queries += 1
        return self._directory / f"checkpoint{self._queries}"

    def _run(self, rows, each: Callable, checkpoint: Path | None = None) -> None:
        checkpoint = checkpoint or self._new_checkpoint()
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.foreachBatch(each).start().awaitTermination()


@pytest.fixture
def world(spark, bootstrap_servers: str, tmp_path: Path) -> World:
    return World(spark, bootstrap_servers, tmp_path)


def test_json_values_with_keys_of_kafka(world: World, new_topic, read_back, produce) -> None:
    topic = new_topic(partitions=2)
    relation = relation_of(
        f"CREATE STREAM pays (id BIGINT KEY, Who STRING, amount DECIMAL(10, 2), at TIMESTAMP, tags ARRAY<STRING>) "
        f"WITH (kafka_topic = '{topic}', value_format = 'json')"
    )
    assert (
        world.insert(
            relation,
            "select * from values (-5L, 'ann', 1.50BD, timestamp'2026-01-02 03:04:05.678901Z', array('a', null)), "
            "(null, null, null, null, null) as t(ID, who, amount, at, tags)",
        )
        == 2
    )
    assert world.insert(relation, "select 7L as id, 1700000000123 as ROWTIME") == 1
    produce(topic, [((1).to_bytes(8, "big"), None), (b"short", b"{}"), (None, b"{"), (None, b"")])
    written = read_back(topic)
    ann = b'{"Who":"ann","amount":1.50,"at":"2026-01-02T03:04:05.678901Z","tags":["a",null]}'
    nulls = b'{"Who":null,"amount":null,"at":null,"tags":null}'
    assert ((-5).to_bytes(8, "big", signed=True), ann) in written
    assert (None, nulls) in written
    assert ((7).to_bytes(8, "big"), nulls) in written
    for rows in (world.now(relation), world.streamed(relation)):
        assert [row[:5] for row in rows] == [
            (-5, "ann", Decimal("1.50"), datetime(2026, 1, 2, 3, 4, 5, 678901), ["a", None]),
            (1, None, None, None, None),
            (7, None, None, None, None),
            (None, None, None, None, None),
        ]
        assert rows[2][5] == 1700000000123
        assert rows[2][8] == datetime(2023, 11, 14, 22, 13, 20, 123000)
    assert world.letters(relation, {0: 10, 1: 10}) == [
        (None, b"", "the value is no JSON"),
        (None, b"{", "the value is no JSON"),
        (b"short", b"{}", "the key is not 8 bytes, as a bigint is in the format KAFKA"),
    ]


def test_changes_of_a_table(world: World, new_topic, read_back) -> None:
    source = relation_of(
        f"CREATE TABLE a (id INT PRIMARY KEY, s STRING) WITH (kafka_topic = '{new_topic()}', value_format = 'json')"
    )
    copied = new_topic(partitions=2)
    target = relation_of(
        f"CREATE TABLE b (id INT PRIMARY KEY, s STRING, more DOUBLE) "
        f"WITH (kafka_topic = '{copied}', value_format = 'json')"
    )
    assert world.insert(source, "select * from values (1, 'a'), (-2, 'b'), (3, 'c') as t(id, s)") == 3
    assert world.now(source, "id", "s") == [(-2, "b"), (1, "a"), (3, "c")]
    checkpoint = world._new_checkpoint()
    into = target_of(target, None, registry=None, mode="append", is_changes=True)
    columns = ("if(id = 3, null, id) as ID", "s", "_rowtime", "id < 0 as _moldau_deleted")
    world.copy(source, into, *columns, checkpoint=checkpoint)
    assert sorted(read_back(copied)) == [
        ((1).to_bytes(4, "big"), b'{"s":"a","more":null}'),
        ((-2).to_bytes(4, "big", signed=True), None),
    ]
    ((id, text, more, time, *_),) = world.now(target)
    assert (id, text, more) == (1, "a", None)
    assert (time,) in world.now(source, "ROWTIME")
    columns_of_target = ("id", "s", "_moldau_deleted")
    assert world.streamed(target, *columns_of_target) == [(-2, None, True), (1, "a", False)]
    with pytest.raises(FlowError, match="no column 'x'; it has id, s, more"):
        world.copy(source, into, "id", "1 as x")
    with pytest.raises(FlowError, match="has no key"):
        world.insert(target, "select cast(null as int) as id")


MANY = (
    "v BOOLEAN, w DOUBLE, x STRING, y TIMESTAMP, z DATE, d DECIMAL(9, 2), l ARRAY<BIGINT>, m MAP<STRING, INT>, "
    "r STRUCT<a: INT, b: STRING>, bytes BYTES"
)
OF_PROTOBUF = ", ".join(one for one in MANY.split(", ") if one[0] not in "zd2")
FORMATS = {
    "json": ("json", "j STRING", "json", MANY),
    "kafka": ("kafka", "w DOUBLE", "kafka", "k BIGINT"),
    "delimited": ("json", "k BIGINT, j STRING", "delimited", "w DOUBLE, x STRING, y TIMESTAMP, d DECIMAL(9, 2)"),
    "avro": ("avro", "j STRING", "avro", MANY),
    "json_sr": ("json_sr", "k BIGINT", "json_sr", MANY),
    "protobuf": ("protobuf", "k BIGINT, j STRING", "protobuf", OF_PROTOBUF),
}
ROWS = (
    "select * from values "
    "(-7L, 'ann', -0.1D, true, 'a, \"b\"', timestamp'2026-01-02 03:04:05.678901Z', date'1969-12-31', -1.50BD, "
    "array(1L, -2L), map('a', 1), named_struct('a', 1, 'b', 'x'), x'00ff'), "
    "(9L, 'ÿ😀', 1e300D, null, '', null, null, null, array(), map(), named_struct('a', null, 'b', null), x'') "
    "as t(k, j, w, v, x, y, z, d, l, m, r, bytes)"
)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_to_records_and_back(
    name: str, world: World, registry: SchemaRegistry, new_topic, produce, read_back
) -> None:
    key_format, key, value_format, value = FORMATS[name]
    world.registry = Registry(registry.url)
    keys = ", ".join(f"{one} PRIMARY KEY" for one in key.split(", "))
    table = (
        f"CREATE TABLE t ({keys}, {value}) "
        f"WITH (kafka_topic = '%s', key_format = '{key_format}', value_format = '{value_format}')"
    )
    relation, copied = relation_of(table % new_topic()), relation_of(table % new_topic())
    columns = [column.name.text for column in relation.columns or ()]
    given = world.spark.sql(ROWS).select(*columns)
    assert insert_rows(given, relation, world.access, world.registry) == 2
    (first, _), (second, value_of_second), *_ = read_back(relation.topic)
    produce(relation.topic, [(first, None), (b"?", value_of_second), (None, value_of_second), (second, b"?")])

    world.copy(relation, target_of(copied, None, registry=Registry(registry.url)), *columns, "_moldau_deleted")

    (_, row) = map(tuple, given.collect())
    assert world.now(copied, *columns) == [row]
    assert len(read_back(copied.topic)) == 3
    letters = world.letters(relation, {0: 100})
    assert [(key, value) for key, value, _ in letters] == sorted(
        [(b"?", value_of_second), (None, value_of_second), (second, b"?")], key=repr
    )
    assert all(reason for *_, reason in letters)


def test_keys_of_kafkas_own_serializers(world: World, new_topic, produce, read_back) -> None:
    kinds = {
        "INT": (-5, IntegerSerializer(), IntegerDeserializer()),
        "DOUBLE": (-0.5, DoubleSerializer(), DoubleDeserializer()),
        "STRING": ("ÿ😀", StringSerializer(), StringDeserializer()),
        "BIGINT": (-5, lambda value: struct.pack(">q", value), lambda value: struct.unpack(">q", value)[0]),
    }
    for kind, (value, to_bytes, from_bytes) in kinds.items():
        relation = relation_of(f"CREATE STREAM s (k {kind} KEY, v {kind}) WITH (kafka_topic = '{new_topic()}', "
                               "value_format = 'kafka')")  # fmt: skip
        produce(relation.topic, [(to_bytes(value), to_bytes(value))])
        assert world.now(relation, "k", "v") == [(value, value)]
        world.insert(relation, f"select cast({value!r} as {kind}) as k, cast(null as {kind}) as v")
        key, nothing = read_back(relation.topic)[1]
        assert (from_bytes(key), nothing) == (value, None)


def test_columns_of_schemas_that_others_registered(
    world: World, registry: SchemaRegistry, new_topic, produce, read_back
) -> None:
    world.registry = Registry(registry.url)
    topic, client = new_topic(), SchemaRegistryClient({"url": registry.url})
    on_value, on_key = (SerializationContext(topic, field) for field in (MessageField.VALUE, MessageField.KEY))
    schema = json.dumps(
        {"type": "record", "name": "shop.Order", "fields": [
            {"name": "USER", "type": "string"}, {"name": "amount", "type": ["null", "int"], "default": None}]}
    )  # fmt: skip
    unknown = relation_of(f"CREATE TABLE orders WITH (kafka_topic = '{topic}', format = 'avro')")
    with pytest.raises(FlowError, match=f"the registry has no schema of {topic}-key"):
        resolved(unknown, Registry(registry.url))
    with pytest.raises(FlowError, match="are in a schema registry: name it"):
        resolved(unknown, None)
    to_key, to_value = AvroSerializer(client, '"string"'), AvroSerializer(client, schema)
    produce(topic, [(to_key("a", on_key), to_value({"USER": "ann", "amount": -3}, on_value))])

    relation = resolved(unknown, Registry(registry.url))
    assert [(column.name.text, column.type, column.role.value) for column in relation.columns or ()] == [
        ("ROWKEY", "string", "primary key"),
        ("USER", "string", "value"),
        ("amount", "int", "value"),
    ]
    assert world.now(relation, "rowkey", "user", "amount") == [("a", "ann", -3)]
    world.insert(relation, "select 'b' as rowkey, 'bob' as user, 5 as amount")
    key, value = read_back(topic)[1]
    assert AvroDeserializer(client)(key, on_key) == "b"
    assert AvroDeserializer(client)(value, on_value) == {"USER": "bob", "amount": 5}
    keyed = resolved(
        relation_of(f"CREATE TABLE o (id BYTES PRIMARY KEY) WITH (kafka_topic = '{topic}', value_format = 'avro')"),
        Registry(registry.url),
    )
    assert [column.name.text for column in keyed.columns or ()] == ["id", "USER", "amount"]
    missing = relation_of(
        f"CREATE STREAM s (amount INT, other INT) WITH (kafka_topic = '{topic}', value_format = 'avro')"
    )
    with pytest.raises(FlowError, match=f"newest schema of {topic}-value has no other; it has USER, amount"):
        world.now(missing)


def test_times_headers_and_a_topic_that_grows(world: World, new_topic, produce, tmp_path: Path) -> None:
    topic = new_topic(partitions=2)
    relation = relation_of(
        f"CREATE STREAM s (k INT KEY, at STRING, n INT, every ARRAY<STRUCT<key STRING, value BYTES>> HEADERS) "
        f"WITH (kafka_topic = '{topic}', timestamp = 'AT', timestamp_format = 'dd.MM.yyyy HH:mm', "
        "value_format = 'json')"
    )
    one = relation_of(f"CREATE STREAM t (v STRING, a BYTES HEADER('a')) WITH (kafka_topic = '{topic}', "
                      "value_format = 'kafka')")  # fmt: skip
    value = b'{"at":"01.02.2026 03:04","n":1}'
    produce(topic, [(None, value)], partition=1, headers=[("a", b"1"), ("b", None), ("a", b"2")])
    checkpoint = tmp_path / "growing"
    columns = ("k", "n", "_rowtime", "ROWTIME", "ROWPARTITION", "size(every)")
    time = datetime(2026, 2, 1, 3, 4)
    assert world.streamed(relation, *columns, checkpoint=checkpoint) == [(None, 1, time, 1769915040000, 1, 3)]
    world.insert(relation, "select -2 as k, '02.02.2026 03:04' as at, 2 as n")
    produce(topic, [(None, b'{"at":"now","n":3}'), (None, None)], timestamp=5)
    assert world.streamed(relation, *columns[:3], checkpoint=checkpoint) == [
        (-2, 2, time.replace(day=2)),
        (None, None, datetime(1970, 1, 1, 0, 0, 0, 5000)),
    ]
    assert [reason for *_, reason in world.letters(relation, {0: 9, 1: 9})] == ["the column at has no time"]
    assert (value.decode(), b"2") in world.now(one, "v", "a")
    assert datetime(2026, 2, 2, 3, 4) in {time for (time,) in world.now(one, "_rowtime")}
    with pytest.raises(FlowError, match="read from headers, which are not written"):
        world.insert(one, "select 'x' as v, x'00' as a")


def test_records_of_a_test_without_a_broker(world: World, tmp_path: Path) -> None:
    relation = relation_of(
        "CREATE TABLE t (k BIGINT PRIMARY KEY, s STRING, d DOUBLE) "
        "WITH (kafka_topic = 'nowhere', key_format = 'avro', value_format = 'delimited')"
    )
    source = source_of(relation, world.access, registry=Registry("http://127.0.0.1:1"), dead_letters=None).offline()
    records = [{"k": -1, "S": "a", "d": 0.5}, {"_key": -1, "_value": None, "_timestamp": "2026-01-01T00:00:00Z"},
               {"_key": {"K": 2}}, {"_key": 3, "_value": "{"}]  # fmt: skip
    given = "".join(f"{json.dumps(row)}\n" for row in source.given(records, 0))
    (tmp_path / "given.json").write_text(given)
    loaded = world.spark.read.schema(source.GIVEN_COLUMNS).json(str(tmp_path), mode="FAILFAST")
    rows = source.rows(loaded, "dead_letters").selectExpr("k", "s", "d", "ROWOFFSET", "_moldau_deleted")
    assert sorted(map(tuple, rows.collect()), key=lambda row: row[3]) == [
        (-1, "a", 0.5, 0, False),
        (-1, None, None, 1, True),
        (2, None, None, 2, False),
    ]
    with pytest.raises(FlowError, match="has no 'x'; it has k, s, d"):
        source.given([{"x": 1}], 0)


def test_nulls_in_every_format(world: World, registry: SchemaRegistry, new_topic, produce, read_back) -> None:
    world.registry = Registry(registry.url)
    for key_format, value_format in (("delimited", "delimited"), ("avro", "avro"), ("json", "json"), ("json_sr",) * 2):
        relation = relation_of(
            f"CREATE STREAM s (k STRING KEY, v STRING) WITH (kafka_topic = '{new_topic()}', "
            f"key_format = '{key_format}', value_format = '{value_format}', value_delimiter = 'TAB')"
        )
        rows = [("", ""), ("a\tb", "c"), (None, None)]
        assert insert_rows(world.spark.createDataFrame(rows, "K string, V string"), relation, world.access,
                           Registry(registry.url)) == 3  # fmt: skip
        written = read_back(relation.topic)
        assert [key is None for key, _ in written] == [False, False, True]
        assert None not in [value for _, value in written]
        if key_format == "json":
            produce(relation.topic, [(b"null", None)])
            rows.append((None, None))
        assert world.now(relation, "k", "v") == sorted(rows, key=repr)
        assert world.letters(relation, {0: 9}) == []
