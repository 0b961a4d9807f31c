"""A pipeline into a Delta table: each batch is one version of it, in spite of repeated runs of the batch."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Transaction, write_deltalake
from deltalake.transaction import CommitProperties

from moldau.errors import MoldauError
from moldau.products.pipelines.targets.delta import DeltaTarget


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def writer(lake, target_query):
    """`writer(mode=..., key=...)` is that of a driver that starts now."""

    def begin(*, mode: str = "append", key: tuple[str, ...] = (), compact_every: int = 100):
        target = DeltaTarget(mode=mode, key=key, location=str(lake), compact_every=compact_every)
        return target.writer(target_query)

    return begin


def numbers(directory: Path) -> list[int]:
    return sorted(DeltaTable(directory).to_pyarrow_table().column("id").to_pylist())


def test_a_pipeline_fills_a_table_that_other_readers_open(run_spec, new_topic, produce, tmp_path):
    source = new_topic(2)
    produce(source, [(None, b'{"user":"ann","at":"2026-01-01T00:00:00Z"}'), (None, b'{"user":null}')], partition=0)
    produce(source, [(None, b'{"user":"bob","at":"2026-01-01T00:00:01Z"}')], partition=1)
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, at timestamp"}}
sql: select user, at, named_struct('n', array(_offset)) as nested from source where user is not null
sink: {{delta: lake/users}}
"""
    assert [state.state for state in run_spec(spec)] == ["finished"]
    produce(source, [(None, b'{"user":"cid","at":"2026-01-01T00:00:02Z"}')])
    run_spec(spec)
    lake = tmp_path / "lake" / "users"
    seen = polars.read_delta(str(lake)).sort("at")
    assert seen["user"].to_list() == ["ann", "bob", "cid"]
    assert seen["nested"].to_list()[0] == {"n": [0]}
    assert str(seen["at"].dtype) == "Datetime(time_unit='us', time_zone='UTC')"
    assert duckdb.from_arrow(DeltaTable(lake).to_pyarrow_dataset()).max("user").fetchall() == [("cid",)]


def test_a_batch_that_runs_again_is_not_written_again(spark, writer, lake):
    writer()(spark.range(0, 1_000, 1, 3), 0)
    writer()(spark.range(0, 1_000, 1, 2), 0)
    writer()(spark.range(0), 1)
    writer()(spark.range(1_000, 1_500, 1, 1), 2)
    assert numbers(lake) == list(range(1_500))
    assert DeltaTable(lake).transaction_version("moldau.p.c1") == 2


def test_what_a_killed_driver_wrote_and_did_not_commit_is_removed(spark, writer, lake):
    writer()(spark.range(10), 0)
    left = lake / "p-c1-0000000001-ab.parquet"
    left.write_text("of a killed driver")
    writer()(spark.range(10, 20), 1)
    assert not left.exists()
    assert numbers(lake) == list(range(20))


@pytest.mark.slow
def test_in_the_mode_update_a_row_takes_the_place_of_the_older_one(run_spec, new_topic, produce, tmp_path):
    source = new_topic()
    spec = f"""
source: {{topic: {source}, format: string}}
sql: select value as word, length(value) as size, count(*) as times from source group by all
sink: {{delta: words, mode: update, key: [word, size]}}
"""
    produce(source, [(None, b"a"), (None, b"b"), (None, b"a")])
    run_spec(spec)
    produce(source, [(None, b"a"), (None, b"c")])
    run_spec(spec)
    rows = DeltaTable(tmp_path / "words").to_pyarrow_table().sort_by("word").to_pylist()
    assert [(row["word"], row["times"]) for row in rows] == [("a", 3), ("b", 1), ("c", 1)]
    assert not list((tmp_path / "words").glob(".unfinished*"))


def test_an_upsert_that_runs_again_changes_nothing(spark, writer, lake):
    update = writer(mode="update", key=("id",))
    update(spark.sql("select 1 as id, 'old' as name"), 0)
    update(spark.sql("select 1 as id, 'new' as name"), 1)
    writer(mode="update", key=("id",))(spark.sql("select 1 as id, 'old' as name"), 0)
    assert DeltaTable(lake).to_pyarrow_table().to_pylist() == [{"id": 1, "name": "new"}]


def test_small_files_are_joined_now_and_then(spark, writer, lake):
    write = writer(compact_every=4)
    for batch_id in range(4):
        write(spark.range(batch_id * 10, batch_id * 10 + 10, 1, 2), batch_id)
    assert len(DeltaTable(lake).file_uris()) == 1
    assert numbers(lake) == list(range(40))


def test_a_second_writer_of_the_same_batch_does_not_write_it_too(spark, writer, lake):
    writer()(spark.range(1), 0)

    class Overtaken(DeltaTable):
        def transaction_version(self, app_id: str) -> int | None:
            before = super().transaction_version(app_id)
            if before == 0:  # after the check, another driver commits the batch
                rows = pa.table({"id": pa.array([1], pa.int64())})
                commit = CommitProperties(app_transactions=[Transaction(app_id, 1)])
                write_deltalake(lake, rows, mode="append", commit_properties=commit)
            return before

    write = writer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deltalake.DeltaTable", Overtaken)
        write(spark.range(1, 2), 1)
    assert numbers(lake) == [0, 1]


def test_a_table_that_cannot_take_the_rows_is_refused_before_the_start(run_spec, new_topic, lake):
    source = new_topic()
    spec = f"source: {{topic: {source}, format: string}}\nsql: {{}}\nsink: {{delta: lake}}"
    write_deltalake(lake, pa.table({"value": pa.array([1], pa.int64())}))
    with pytest.raises(MoldauError, match=r"lake/? has the columns value long, but the SQL gives value string"):
        run_spec(spec.replace("{}", "select value from source"))
    with pytest.raises(MoldauError, match="two columns 'VALUE'"):
        run_spec(spec.replace("{}", "select value, value as VALUE from source"))
    rows = pa.table({"value": ["a"], "day": ["x"]})
    write_deltalake(lake, rows, partition_by="day", mode="overwrite", schema_mode="overwrite")
    with pytest.raises(MoldauError, match="is partitioned, which a pipeline does not write"):
        run_spec(spec.replace("{}", "select value from source"))


def test_a_checkpoint_that_was_put_back_is_refused(spark, writer, lake, target_query):
    writer()(spark.range(1), 3)
    offsets = target_query.checkpoint / "offsets"
    (offsets / "9").rename(offsets / "2")
    with pytest.raises(MoldauError, match=r"holds batch 3 of the checkpoint .*, which has only come to batch 2"):
        writer()
    (offsets / "3").touch()
    writer()(spark.range(1), 3)
    assert numbers(lake) == [0]
