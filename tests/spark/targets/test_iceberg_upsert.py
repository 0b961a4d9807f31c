"""An Iceberg table in the mode update: each batch is one snapshot, in which a row replaces the older one."""

from __future__ import annotations

from pathlib import Path

import polars
import pyarrow as pa
import pytest
from pyiceberg.table import Table

from moldau.products.pipelines.targets import iceberg_upsert
from moldau.products.pipelines.targets.changes import Changes
from moldau.products.pipelines.targets.iceberg import IcebergTarget


@pytest.fixture
def writer(tmp_path: Path, target_query):
    """`writer(key=...)` is that of a driver that starts now."""

    def begin(*, key: tuple[str, ...] = ("id",), compact_every: int = 100):
        return target_of(tmp_path, key=key, compact_every=compact_every).writer(target_query)

    return begin


def target_of(folder: Path, **more) -> IcebergTarget:
    return IcebergTarget(
        mode="update", table="shop.t", warehouse=str(folder / "a lake"), catalog=folder / "catalog.db", **more
    )


@pytest.fixture
def table(tmp_path: Path):
    """`table()`: its present contents."""
    return lambda: target_of(tmp_path).open_catalog().load_table("shop.t")


def rows_of(table: Table, by: str = "id") -> list[dict[str, object]]:
    return table.scan().to_arrow().sort_by(by).to_pylist()


@pytest.mark.slow
def test_a_pipeline_keeps_the_newest_row_of_each_key(run_spec, new_topic, produce, table):
    source = new_topic()
    spec = f"""
source: {{topic: {source}, format: string}}
sql: select value as word, length(value) as size, count(*) as times from source group by all
sink: {{iceberg: shop.t, warehouse: a lake, catalog: catalog.db, mode: update, key: [word, size]}}
"""
    produce(source, [(None, b"a"), (None, b"b"), (None, b"a")])
    assert [state.state for state in run_spec(spec)] == ["finished"]
    produce(source, [(None, b"a"), (None, b"c")])
    run_spec(spec)
    seen = polars.scan_iceberg(table()).collect().sort("word")
    assert list(seen.select("word", "times").iter_rows()) == [("a", 3), ("b", 1), ("c", 1)]


@pytest.mark.slow
def test_a_pipeline_removes_rows_and_passes_over_changes_that_come_late(run_spec, new_topic, produce, table):
    source = new_topic()
    spec = f"""
source: {{topic: {source}, format: json, schema: "id int, at int, op string"}}
sql: select id, at, op from source
sink:
  iceberg: shop.t
  warehouse: a lake
  catalog: catalog.db
  mode: update
  key: id
  sequence_by: at
  apply_as_deletes: op = 'd'
  except_column_list: op
"""
    produce(source, [(None, b'{"id":%d,"at":%d,"op":"i"}' % (number, number)) for number in (1, 2, 3)])
    run_spec(spec)
    produce(source, [(None, b'{"id":1,"at":9,"op":"d"}'), (None, b'{"id":2,"at":1,"op":"i"}')])
    run_spec(spec)
    assert rows_of(table()) == [{"id": 2, "at": 2}, {"id": 3, "at": 3}]


def test_each_batch_is_one_snapshot_and_is_not_written_again(spark, writer, table):
    writer()(spark.sql("select * from values (1, 'old'), (2, 'b') as t(id, name)"), 0)
    writer()(spark.sql("select * from values (1, 'new'), (3, 'c') as t(id, name)"), 1)
    writer()(spark.sql("select 1 as id, 'old' as name"), 0)
    writer()(spark.sql("select 1 as id, 'other' as name"), 1)
    writer()(spark.sql("select 1 as id, 'none' as name where false"), 2)
    assert [(row["id"], row["name"]) for row in rows_of(table())] == [(1, "new"), (2, "b"), (3, "c")]
    summaries = [one.summary for one in table().snapshots()]
    assert [(one.operation.value, one["moldau.batch"]) for one in summaries] == [("append", "0"), ("overwrite", "1")]


def test_files_without_an_older_row_stay_as_they_are(spark, writer, table):
    for batch_id in range(3):
        writer()(spark.range(batch_id * 10, batch_id * 10 + 10, 1, 2), batch_id)
    before = {task.file.file_path for task in table().scan().plan_files()}
    writer()(spark.range(12, 13), 3)
    after = {task.file.file_path for task in table().scan().plan_files()}
    assert (len(before), len(after), len(before & after)) == (3, 3, 2)
    assert [row["id"] for row in rows_of(table())] == list(range(30))


def test_small_files_and_manifests_are_joined_now_and_then(spark, writer, table):
    write = writer(compact_every=4)
    for batch_id in range(8):
        write(spark.sql(f"select id, {batch_id} as batch from range({batch_id * 10}, {batch_id * 10 + 11})"), batch_id)
        now = table()
        if batch_id % 4 == 3:
            assert len(list(now.scan().plan_files())) == 1
            assert len(now.current_snapshot().manifests(now.io)) == 1
    rows = rows_of(table())
    assert [row["id"] for row in rows] == list(range(81))
    assert [row["batch"] for row in rows[::10]] == [0, 1, 2, 3, 4, 5, 6, 7, 7]


@pytest.mark.slow
def test_a_file_that_is_not_small_is_not_joined(spark, writer, table, tmp_path):
    large = iceberg_upsert.SMALL_BYTES // 8
    write = writer(compact_every=2)
    write(spark.range(large * 2), 0)
    write(spark.range(large * 2, large * 2 + 1), 1)
    sizes = [task.file.file_size_in_bytes for task in table().scan().plan_files()]
    assert len(sizes) == 2
    assert max(sizes) >= iceberg_upsert.SMALL_BYTES


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("timestamp", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("timestamp_ntz", "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
        ("date", "2026-01-01", "2026-01-02"),
        ("decimal(20, 2)", "1.00", "2.00"),
        ("binary", "a", "b"),
        ("boolean", "true", "false"),
        ("double", "1.5", "NaN"),
    ],
)
def test_a_key_may_have_any_type_without_parts(spark, writer, table, kind, first, second):
    rows = f"select cast(id as {kind}) as id, n from values ('{first}', %d), ('{second}', %d) as t(id, n)"
    writer()(spark.sql(rows % (1, 2)), 0)
    writer()(spark.sql(rows % (3, 4)), 1)
    assert sorted(row["n"] for row in rows_of(table(), "n")) == [3, 4]


def test_columns_in_another_order_and_with_parts_stay_what_they_are(spark, writer, table):
    writer()(spark.sql("select 1 as id, named_struct('n', array(1)) as p, map('k', 1.5d) as m, 'x' as s"), 0)
    writer()(spark.sql("select 'y' as s, map('k', 2.5d) as m, named_struct('n', array(2)) as p, 2 as id"), 1)
    writer()(spark.sql("select 'z' as s, map('k', 3.5d) as m, named_struct('n', array(3)) as p, 2 as id"), 2)
    assert rows_of(table()) == [
        {"id": 1, "p": {"n": [1]}, "m": [("k", 1.5)], "s": "x"},
        {"id": 2, "p": {"n": [3]}, "m": [("k", 3.5)], "s": "z"},
    ]


def test_rows_of_another_writer_are_replaced_and_those_without_a_key_stay(spark, writer, table):
    writer()(spark.sql("select 1 as id, 'a' as name"), 0)
    other = pa.table({"id": pa.array([2, None, 3], pa.int32()), "name": ["b", "c", "d"]})
    table().append(other)
    writer()(spark.sql("select 2 as id, 'e' as name"), 1)
    assert sorted(map(str, rows_of(table()))) == sorted(
        map(str, [{"id": i, "name": n} for i, n in [(1, "a"), (2, "e"), (3, "d"), (None, "c")]])
    )


def test_a_column_that_must_have_a_value_stays_so(spark, writer, table, tmp_path):
    catalog = target_of(tmp_path).open_catalog()
    catalog.create_namespace("shop")
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int32())])
    catalog.create_table("shop.t", columns)
    rows = spark.sql("select id, cast(1 as int) as n from range(2)")
    target_of(tmp_path, key=("id",)).rows_of(rows)
    writer()(rows, 0)
    writer()(rows.where("id = 1"), 1)
    assert rows_of(table()) == [{"id": 0, "n": 1}, {"id": 1, "n": 1}]
    assert table().schema().find_field("id").required


def test_a_second_driver_of_the_same_batch_looks_again(spark, writer, table, monkeypatch):
    writer()(spark.sql("select 1 as id, 0 as n"), 0)
    commit, overtaken = Table._do_commit, []

    def commit_behind_another(table, updates, requirements):
        if not overtaken:
            overtaken.append(True)
            writer()(spark.sql("select 1 as id, 1 as n"), 1)
        commit(table, updates=updates, requirements=requirements)

    monkeypatch.setattr(Table, "_do_commit", commit_behind_another)
    writer()(spark.sql("select 1 as id, 1 as n"), 1)
    assert rows_of(table()) == [{"id": 1, "n": 1}]
    assert len(table().snapshots()) == 2


def test_what_a_killed_driver_left_is_removed(spark, writer, table, tmp_path):
    writer()(spark.range(10), 0)
    data = tmp_path / "a lake" / "shop" / "t" / "data"
    left = data / "p-c1-0000000001-ab.parquet"
    left.write_text("of a killed driver")
    (data / ".unfinished-p-c1").mkdir(exist_ok=True)
    (data / ".unfinished-p-c1" / "1-ab.parquet").write_text("of a killed driver")
    writer()(spark.range(5, 15), 1)
    assert not left.exists()
    assert not (data / ".unfinished-p-c1").exists()
    assert [row["id"] for row in rows_of(table())] == list(range(15))


def test_changes_that_remove_what_is_not_there_make_no_snapshot(spark, target_query, table, tmp_path):
    target = target_of(tmp_path, key=("id",), changes=Changes(("id",), "at", "gone", ("gone",)))
    batches = [spark.sql(f"select 1 as id, {at} as at, {gone} as _moldau_deleted") for at, gone in [(1, "true")] * 2]
    write = target.writer(target_query)
    for batch_id, batch in enumerate(batches):
        write(batch, batch_id)
    assert rows_of(table()) == []
    assert table().snapshots() == []
    assert table().properties["moldau.p.c1"] == "1"
