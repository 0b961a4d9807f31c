"""A pipeline that reads an Iceberg table snapshot by snapshot: every row once."""

from __future__ import annotations

import pickle
from datetime import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimeType, UUIDType

from moldau.errors import MoldauError
from moldau.products.pipelines.databases.iceberg import open_catalog
from moldau.products.pipelines.sources.feed_source import SKIP
from moldau.products.pipelines.sources.iceberg import IcebergFeed, IcebergSource
from moldau.spark import lacks_type
from moldau.spark.source.feeds import read_whole, stream_of
from tests.spark.feeds import Reader

COLUMNS = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", StringType()))
BY_DAY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
MERGED = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}


class Lake:
    """One table in its own warehouse, and its source."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.warehouse, self.file = str(folder), folder / "catalog.db"
        self.catalog = open_catalog(self.warehouse, self.file)
        self.catalog.create_namespace("shop")

    def make(self, **more: Any) -> None:
        self.catalog.create_table("shop.orders", COLUMNS, **more)

    @property
    def table(self) -> Table:
        return self.catalog.load_table("shop.orders")

    def append(self, *numbers: int, **columns: list[str]) -> None:
        values = {"id": pa.array(numbers, pa.int64()), "day": ["a b"] * len(numbers), **columns}
        self.table.append(pa.table(values))

    def source(self, **more: Any) -> IcebergSource:
        return IcebergSource(table="shop.orders", warehouse=self.warehouse, catalog=self.file, **more)

    def feed(self, **more: Any) -> IcebergFeed:
        return self.source(**more).feed()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "a lake")


def ids(rows: list[dict]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize(
    "form",
    [{}, {"partition_spec": BY_DAY}, {"properties": MERGED}, {"properties": {"format-version": "1"}}],
    ids=["plain", "partitioned", "merged manifests", "format version 1"],
)
def test_the_first_batch_is_the_table_and_each_later_one_what_snapshots_add(lake, form):
    lake.make(**form)
    reader = Reader(lake.feed())
    assert reader.batch() == []  # a table without a snapshot has no rows yet
    lake.append(1)
    lake.append(2)
    first = reader.batch()
    assert (ids(first), first[0]["day"]) == ([1, 2], "a b")
    assert reader.batch() == []
    lake.append(3, 4)
    lake.append(5)
    place = reader.place
    assert ids(reader.batch()) == [3, 4, 5]
    assert ids(reader.between(place, reader.place)) == [3, 4, 5]
    assert ids(reader.between({"snapshot": -1}, place)) == [1, 2]
    assert ids([row for batch in read_whole(lake.feed()) for row in batch.to_pylist()]) == [1, 2, 3, 4, 5]


def test_a_batch_takes_so_many_files_of_a_table_as_the_pipeline_says(lake):
    """The table's first state in parts, also if it has grown meanwhile; later snapshots whole."""
    lake.make()
    for number in range(5):
        lake.append(number)
    reader = Reader(lake.feed(max_files=2))
    first, place = reader.batch(), reader.place
    lake.append(5)
    lake.append(6)
    second = reader.batch()
    assert [len(first), len(second)] == [2, 2]
    assert reader.between({"snapshot": -1}, place) == first
    assert reader.between(place, reader.place) == second
    # without the bound that the checkpoint began with, the rest of the first state comes in one piece
    unbound = Reader(lake.feed())
    unbound.place = reader.place
    rest = reader.batch()
    assert unbound.batch() == rest
    assert ids([*first, *second, *rest]) == [0, 1, 2, 3, 4]
    lake.append(7)
    assert [ids(reader.batch()) for _ in range(3)] == [[5, 6], [7], []]
    assert [ids(unbound.batch()) for _ in range(2)] == [[5, 6, 7], []]


def test_a_snapshot_that_takes_rows_away_is_refused_or_left_out(lake):
    lake.make()
    lake.append(1, 2)
    reader, skipping = Reader(lake.feed()), Reader(lake.feed(removed_rows=SKIP))
    assert ids(reader.batch()) == ids(skipping.batch()) == [1, 2]
    lake.table.delete("id = 1")  # the file is written again, without the row
    assert lake.table.current_snapshot().summary.operation is Operation.OVERWRITE
    lake.append(3)
    assert ids(skipping.batch()) == [3]
    with pytest.raises(MoldauError, match=r"the snapshot \d+ of the Iceberg table shop.orders takes rows away"):
        reader.batch()
    assert ids(Reader(lake.feed()).batch()) == [2, 3]


def test_a_column_that_came_later_is_null_in_older_files(lake):
    lake.make()
    lake.append(1)
    reader = Reader(lake.feed())
    reader.batch()
    place = reader.place
    lake.append(2)
    with lake.table.update_schema() as change:
        change.add_column("name", StringType())
    lake.append(3, name=["new"])
    with pytest.raises(MoldauError, match="has other columns now: start the pipeline again"):
        reader.batch()
    again = Reader(lake.feed())
    again.place = place
    assert sorted((row["id"], row["name"]) for row in again.batch()) == [(2, None), (3, "new")]


def test_what_is_gone_is_named(lake):
    lake.make()
    lake.append(1)
    reader = Reader(lake.feed())
    reader.batch()
    lake.append(2)
    lake.append(3)
    newest = lake.table.current_snapshot()
    with pytest.raises(MoldauError, match="the snapshot 7 is no longer in the history of the Iceberg table"):
        reader.between({"snapshot": 7}, {"snapshot": newest.snapshot_id})
    with pytest.raises(MoldauError, match="the snapshot 8 is no longer in the history"):
        reader.between({"snapshot": -1}, {"snapshot": 8})
    for file in Path(lake.warehouse).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(MoldauError, match=r"of the Iceberg table shop\.orders is gone"):
        reader.batch()


@pytest.mark.parametrize("form", [{}, {"partition_spec": BY_DAY}], ids=["plain", "partitioned"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_a_batch_is_read_after_the_writer_removed_the_metadata_of_its_plan(lake, form, version):
    kept = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    lake.make(properties={"format-version": version, **kept}, **form)
    lake.append(1)
    feed = lake.feed()
    first, second = feed.beginning(), feed.end(feed.beginning())
    lake.append(2)
    planned = [*feed.parts(first, second), *feed.parts(second, feed.end(second))]
    metadata = Path(urlsplit(lake.table.metadata_location).path)
    for number in (3, 4, 5):
        lake.append(number)
    assert not metadata.exists()
    parts = pickle.loads(pickle.dumps(planned))
    assert ids([row for part in parts for batch in feed.read(part) for row in batch.to_pylist()]) == [1, 2]
    assert all(len(part.metadata) == len(planned[0].metadata) for part in feed.parts(first, feed.end(first)))


def test_a_table_without_a_snapshot_has_no_rows_until_some_come(lake):
    """Spark runs the first batch of a stream even if there is nothing to read, and asks for its partitions."""
    lake.make()
    reader = Reader(lake.feed(max_files=1))
    assert reader.between(reader.place, reader.place) == []
    assert reader.batch() == []
    lake.append(1)
    assert ids(reader.batch()) == [1]


def test_a_uuid_is_a_text_and_a_time_of_day_is_read_as_spark_wants_it(lake):
    lake.catalog.create_table(
        "shop.orders",
        Schema(
            NestedField(1, "u", UUIDType()),
            NestedField(2, "t", TimeType()),
            NestedField(3, "inside", StructType(NestedField(4, "v", UUIDType()))),
        ),
    )
    number = UUID("00112233-4455-6677-8899-aabbccddeeff")
    numbers = pa.array([number.bytes, None], pa.uuid())
    inside = pa.StructArray.from_arrays([numbers], ["v"], mask=pa.array([False, True]))
    times = pa.array([time(1, 2, 3, 4), None], pa.time64("us"))
    lake.table.append(pa.table({"u": numbers, "t": times, "inside": inside}))
    feed = lake.feed()
    assert not any(lacks_type(column.type) for column in feed.columns)
    text = str(number)
    assert Reader(feed).batch() == [
        {"u": text, "t": time(1, 2, 3, 4), "inside": {"v": text}},
        {"u": None, "t": None, "inside": None},
    ]


def test_what_is_no_table_is_refused(lake, tmp_path):
    with pytest.raises(MoldauError, match=r"has no Iceberg table shop\.orders"):
        lake.source().check()
    absent = IcebergSource(table="shop.orders", warehouse=str(tmp_path), catalog=tmp_path / "absent.db")
    with pytest.raises(MoldauError, match=r"there is no Iceberg table shop.orders: the catalogue .* is missing"):
        absent.check()
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.slow
def test_a_running_stream_takes_up_snapshots_as_they_come(spark, lake, tmp_path):
    lake.make()
    lake.append(1)
    found: list[int] = []
    stream = stream_of(spark, lake.feed()).writeStream.option("checkpointLocation", str(tmp_path / "state"))
    query = stream.foreachBatch(lambda batch, _: found.extend(row.id for row in batch.collect())).start()
    try:
        query.processAllAvailable()
        assert found == [1]
        lake.append(2)
        query.processAllAvailable()
        assert found == [1, 2]
    finally:
        query.stop()


@pytest.mark.slow
def test_a_pipeline_copies_a_growing_iceberg_table_and_goes_on_where_it_ended(run_spec, lake, new_topic, read_back):
    target = new_topic()
    place = f'{{iceberg: shop.orders, warehouse: "{lake.warehouse}"}}'
    spec = f"source: {place}\nsql: select id, day from source where id > 1\nsink: {{topic: {target}}}"
    lake.make()
    lake.append(1, 2)
    assert [state.state for state in run_spec(spec)] == ["finished"]
    lake.append(3)
    run_spec(spec)
    run_spec(spec)
    assert sorted(value for _, value in read_back(target)) == [b'{"id":2,"day":"a b"}', b'{"id":3,"day":"a b"}']
    lake.append(4, 5)
    lake.table.delete("id = 4")
    with pytest.raises(MoldauError, match="`removed_rows: skip` leaves such snapshots out"):
        run_spec(spec)


@pytest.mark.slow
def test_nested_columns_are_read_as_spark_knows_them(spark, lake, tmp_path):
    nested = pa.struct([("names", pa.list_(pa.string())), ("counts", pa.map_(pa.string(), pa.int64()))])
    rows = pa.table(
        {"id": pa.array([1], pa.int64()), "nested": pa.array([{"names": ["a"], "counts": {"b": 2}}], nested)}
    )
    lake.catalog.create_table("shop.orders", rows.schema)
    lake.table.append(rows)
    found: list[Any] = []
    stream = stream_of(spark, lake.feed()).writeStream.option("checkpointLocation", str(tmp_path / "state"))
    query = stream.trigger(availableNow=True).foreachBatch(lambda batch, _: found.extend(batch.collect())).start()
    assert query.awaitTermination(120)
    assert found[0].asDict(recursive=True) == {"id": 1, "nested": {"names": ["a"], "counts": {"b": 2}}}


@pytest.mark.slow
def test_each_batch_joins_what_the_table_holds_then(run_spec, lake, new_topic, produce, read_back):
    orders, target = new_topic(), new_topic()
    spec = f"""
sources:
  orders: {{topic: {orders}, format: json, schema: "item bigint"}}
  items: {{iceberg: shop.orders, warehouse: "{lake.warehouse}", as: table}}
flows: {{named: select day from orders join items on item = id}}
targets: {{out: {{from: named, topic: {target}}}}}
"""
    lake.make()
    lake.append(1, day=["tea"])
    produce(orders, [(None, b'{"item":1}'), (None, b'{"item":2}')])
    run_spec(spec)
    lake.append(2, day=["milk"])
    produce(orders, [(None, b'{"item":2}')])
    run_spec(spec)
    assert sorted(value for _, value in read_back(target)) == [b'{"day":"milk"}', b'{"day":"tea"}']
