"""Rows of streams and tables to the bytes of records and back, through a real broker and Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.checkpoints.checkpoint import BatchSpan
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.core.times import DEFAULT_TIMES
from moldau.products.pipelines.running.flow import with_watermark
from moldau.products.pipelines.targets.target import TargetQuery
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.catalog.storage import storage_of
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.statements import CreateSource
from moldau.products.sql.records.inserts import insert_rows
from moldau.products.sql.records.source import RelationSource, snapshot, source_of
from moldau.products.sql.records.target import RelationTarget, target_of
from moldau.types import TopicPartition as Partition

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
        self.registry: str | None = None
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
