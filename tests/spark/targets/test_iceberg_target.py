"""A pipeline into an Iceberg table: each batch is one snapshot of it, in spite of repeated runs of the batch."""

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec
import polars
import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, StringType

from moldau.errors import MoldauError
from moldau.products.pipelines.targets.iceberg import IcebergTarget


@pytest.fixture
def target(tmp_path: Path) -> IcebergTarget:
    return IcebergTarget(
        mode="append", table="shop.orders", warehouse=str(tmp_path / "a lake"), catalog=tmp_path / "catalog.db"
    )


@pytest.fixture
def writer(target, target_query):
    """`writer()` is that of a driver that starts now."""
    return lambda: target.writer(target_query)


def table_of(target: IcebergTarget) -> Table:
    return target.open_catalog().load_table(target.table)


def numbers(target: IcebergTarget) -> list[int]:
    return sorted(table_of(target).scan().to_arrow().column("id").to_pylist())


def test_a_pipeline_fills_an_iceberg_table_that_other_readers_open(run_spec, new_topic, produce, target):
    source = new_topic(2)
    produce(source, [(None, b'{"user":"ann","at":"2026-01-01T00:00:00Z"}'), (None, b'{"user":null}')], partition=0)
    produce(source, [(None, b'{"user":"bob","at":"2026-01-01T00:00:01Z"}')], partition=1)
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, at timestamp"}}
sql: |
  select user, at, cast(at as timestamp_ntz) as local, cast(1 as tinyint) as small, cast(1.5 as decimal(5, 2)) as d,
    named_struct('n', array(_offset)) as nested from source where user is not null
sink: {{iceberg: shop.orders, warehouse: a lake, catalog: catalog.db}}
"""
    assert [state.state for state in run_spec(spec)] == ["finished"]
    produce(source, [(None, b'{"user":"cid","at":"2026-01-01T00:00:02Z"}')])
    run_spec(spec)
    seen = polars.scan_iceberg(table_of(target)).collect().sort("at")
    assert seen["user"].to_list() == ["ann", "bob", "cid"]
    assert seen["nested"].to_list()[0] == {"n": [0]}
    assert str(seen["at"].dtype) == "Datetime(time_unit='us', time_zone='UTC')"
    assert duckdb.from_arrow(table_of(target).scan().to_arrow()).max("user").fetchall() == [("cid",)]


def test_a_batch_that_runs_again_makes_no_other_snapshot(spark, writer, target):
    writer()(spark.range(0, 1_000, 1, 3), 0)
    writer()(spark.range(0, 1_000, 1, 2), 0)
    writer()(spark.range(0), 1)
    writer()(spark.range(1_000, 1_500, 1, 1), 2)
    assert numbers(target) == list(range(1_500))
    assert [one.summary["moldau.batch"] for one in table_of(target).snapshots()] == ["0", "2"]


def test_a_batch_is_known_also_after_its_snapshot_has_expired(spark, writer, target):
    writer()(spark.range(10), 0)
    table = table_of(target)
    table.append(pa.table({"id": pa.array([10], pa.int64())}))
    table.maintenance.expire_snapshots().by_id(table.snapshots()[0].snapshot_id).commit()
    writer()(spark.range(10), 0)
    assert numbers(target) == list(range(11))


def test_files_that_a_killed_driver_never_committed_are_removed(spark, writer, target):
    writer()(spark.range(10), 0)
    left = Path(target.warehouse) / "shop" / "orders" / "data" / "p-c1-0000000001-ab.parquet"
    left.write_text("of a killed driver")
    writer()(spark.range(10, 20), 1)
    assert not left.exists()
    assert numbers(target) == list(range(20))


def test_a_second_driver_of_the_same_batch_looks_again(spark, writer, target, monkeypatch):
    writer()(spark.range(1), 0)
    commit, overtaken = Table._do_commit, []

    def commit_behind_another(table, updates, requirements):
        if not overtaken:
            overtaken.append(True)
            writer()(spark.range(1, 2), 1)
        commit(table, updates=updates, requirements=requirements)

    monkeypatch.setattr(Table, "_do_commit", commit_behind_another)
    writer()(spark.range(1, 2), 1)
    assert numbers(target) == [0, 1]
    assert "commit.retry.num-retries" not in table_of(target).properties


def test_a_table_that_changes_all_the_while_is_said_in_a_sentence(spark, writer, monkeypatch):
    def refuse(table, updates, requirements):
        raise CommitFailedException("branch main has changed")

    monkeypatch.setattr(Table, "_do_commit", refuse)
    with pytest.raises(MoldauError, match=r"changes the Iceberg table shop\.orders all the while: branch main"):
        writer()(spark.range(1), 0)


def test_a_table_with_other_columns_is_refused_before_the_start(spark, target):
    catalog = target.open_catalog()
    catalog.create_namespace("shop")
    catalog.create_table(target.table, pa.schema([("id", pa.int64())]))
    target.rows_of(spark.sql("select 1L as id"))
    for sql in ("select 1 as id", "select 1L as id, 2 as other", "select 1L as other"):
        with pytest.raises(MoldauError, match=r"shop\.orders has the columns id long, but the SQL gives "):
            target.rows_of(spark.sql(sql))
    day = Schema(NestedField(1, "day", StringType()))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "day"))
    catalog.create_table("shop.days", day, partition_spec=spec)
    with pytest.raises(MoldauError, match="is partitioned, which a pipeline does not write"):
        msgspec.structs.replace(target, table="shop.days").rows_of(spark.sql("select 'x' as day"))


def test_a_checkpoint_that_was_put_back_is_refused(spark, writer, target_query):
    writer()(spark.range(1), 3)
    (target_query.checkpoint / "offsets" / "9").rename(target_query.checkpoint / "offsets" / "2")
    with pytest.raises(MoldauError, match=r"holds batch 3 of the checkpoint .*, which has only come to batch 2"):
        writer()
