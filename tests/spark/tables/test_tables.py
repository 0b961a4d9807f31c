"""Operators over changing tables, over random histories and one by one."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from moldau.products.pipelines.targets import changes
from moldau.spark.tables.aggregates import Aggregate, AggregateError, aggregate, having
from moldau.spark.tables.buckets import BUCKETS, DELETED, Side
from moldau.spark.tables.joins import join
from moldau.spark.tables.lookups import look_up
from moldau.spark.tables.newest import newest, upserts
from moldau.spark.tables.references import join_by_reference
from tests.spark.tables.histories import (
    Event,
    Watched,
    as_texts,
    first_difference,
    history_of,
    judged,
    results,
    run,
    stream_of,
    write_batches,
)

pytestmark = pytest.mark.slow
BATCHES, HISTORIES = 3, 200


def event(batch: int, key: int, side: str = "l", **values: Any) -> Event:
    return {"side": side, "history": 0, "batch": batch, "place": batch, "id": key, "gone": False, **values}


def side_of(stream: DataFrame, name: str = "l", *columns: str) -> Side:
    rows = stream.where(f.col("side") == name).select("id", *columns, f.col("gone").alias(DELETED), "place")
    return Side(rows, ("id",), "place", name)


class Shown:
    """What a query gives in each batch: rows as values, in order."""

    def __init__(self) -> None:
        self.batches: list[list[tuple]] = []

    def see(self, batch: DataFrame, number: int) -> None:
        self.batches[number:] = [sorted(map(tuple, batch.collect()), key=repr)]


def shown(frame: DataFrame, folder: Path, mode: str = "update") -> list[list[tuple]]:
    seen = Shown()
    run(frame, seen, folder / "checkpoint", mode)
    return seen.batches


def given(spark: SparkSession, folder: Path, events: Sequence[Event]) -> DataFrame:
    (folder / "given").mkdir(exist_ok=True)
    write_batches(events, max(one["batch"] for one in events) + 1, folder / "given")
    return stream_of(spark, folder / "given")


def test_histories_end_as_in_duckdb_and_a_batch_run_again_gives_the_same(spark, tmp_path: Path) -> None:
    events = [one for seed in range(HISTORIES) for one in history_of(seed, BATCHES)]
    left = {(one["side"], one["history"], one["id"]) for one in events}
    for side, history, key in sorted(left):  # the last batch deletes all that is left
        gone = event(BATCHES, key, side, gone=True)
        events.append(gone | {"history": history, "place": 1_000})
    frame, watched = as_texts(results(given(spark, tmp_path, events))), Watched()
    last = run(frame, watched, tmp_path / "checkpoint")
    assert first_difference(watched, judged(events, BATCHES + 1)) is None
    assert {name: tables[-1] for name, tables in watched.tables.items() if tables[-1]} == {}
    assert [one["numRowsTotal"] for one in last["stateOperators"] if one["numRowsTotal"]] == []
    before = sorted(watched.batches[-1])
    assert before
    (tmp_path / "checkpoint" / "commits" / str(BATCHES)).unlink()
    (tmp_path / "checkpoint" / "commits" / f".{BATCHES}.crc").unlink(missing_ok=True)
    run(frame, watched, tmp_path / "checkpoint")
    assert sorted(watched.batches[-1]) == before


def test_a_row_of_any_type_comes_back_as_it_was(spark, tmp_path: Path) -> None:
    row = {
        "id": 1, "text": "ä\0", "small": 7, "double": -0.5, "nan": float("nan"), "bytes": b"\xff\0", "truth": True,
        "day": datetime.date(2026, 11, 30), "none": None, "list": [1, None], "map": [("b", 1), ("a", None)],
        "time": datetime.datetime(2026, 11, 30, 1, 2, 3, 456_789, datetime.UTC),
        "local": datetime.datetime(1, 1, 1, 1, 2, 3), "struct": {"x": 1, "y": {"z": "w"}}, "a.b": "dots",
        "span": datetime.timedelta(days=-1, microseconds=5),
    }  # fmt: skip
    types = {
        "id": pa.int64(), "text": pa.string(), "small": pa.int16(), "double": pa.float64(), "nan": pa.float32(),
        "bytes": pa.binary(), "truth": pa.bool_(), "day": pa.date32(), "none": pa.string(),
        "list": pa.list_(pa.int32()), "map": pa.map_(pa.string(), pa.int64()), "time": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"), "struct": pa.struct({"x": pa.int32(), "y": pa.struct({"z": pa.string()})}),
        "a.b": pa.string(), "span": pa.duration("us"),
    }  # fmt: skip
    (tmp_path / "given").mkdir()
    stored = pa.Table.from_pylist([row], pa.schema(list(types.items()))).append_column("big", pa.array([2**62]))
    pq.write_table(stored.append_column("cents", pa.array([12345], pa.decimal128(38, 2))), tmp_path / "given/0.parquet")
    written = spark.read.parquet(str(tmp_path / "given"))
    stream = spark.readStream.schema(written.schema).parquet(str(tmp_path / "given"))
    changed = newest(Side(stream.withColumn(DELETED, f.lit(False)), ("id", "text", "day", "time")))
    joined = join(Side(changed, ("cents",), name="l"), Side(changed, ("cents",), name="r"))
    assert changed.drop(DELETED).dtypes == written.dtypes
    (wanted,) = written.collect()
    (first,) = shown(changed, tmp_path / "newest")
    (second,) = shown(joined, tmp_path / "joined")
    assert str(first) == str([(*wanted, False)])
    assert str(second) == str([(wanted, wanted, False)])


def test_values_and_keys_of_a_megabyte_pass(spark, tmp_path: Path) -> None:
    long = "ä" * 500_000
    events = [event(batch, key, kind=f"{key}{long}", ref=batch) for batch in range(2) for key in range(5)]
    table = side_of(given(spark, tmp_path, events), "l", "kind", "ref")
    rows = newest(Side(table.rows, ("kind",), "place")).selectExpr("length(kind)", "ref", DELETED)
    assert shown(rows, tmp_path)[1] == sorted([(500_001, ref, ref == 0) for ref in range(2)] * 5, key=repr)


def test_what_does_not_change_is_no_change(spark, tmp_path: Path) -> None:
    events = [event(0, 1, ref=1), event(1, 1, ref=1), event(1, 2, gone=True), event(2, 1, ref=2)]
    table = side_of(given(spark, tmp_path, events), "l", "ref")
    assert shown(newest(table), tmp_path) == [[(1, 1, False)], [], [(1, 1, True), (1, 2, False)]]


@pytest.mark.parametrize("mode", ["append", "update"])
def test_upserts_have_one_row_for_each_key_of_a_batch(spark, tmp_path: Path, mode: str) -> None:
    events = [event(0, 1, ref=1), event(0, 2, ref=1), event(1, 1, ref=2), event(1, 2, gone=True)]
    table = side_of(given(spark, tmp_path, events), "l", "ref")
    rows = upserts(newest(table), ["id"])
    assert shown(rows, tmp_path, mode) == [[(1, 1, False), (2, 1, False)], [(1, 2, False), (2, 1, True)]]


def test_having_that_no_longer_holds_removes_the_row_of_a_stream(spark, tmp_path: Path) -> None:
    events = [event(batch, 1, amount=amount) for batch, amount in enumerate([4, 9, -9, 1])]
    stream = given(spark, tmp_path, events).select("id", "amount")
    totals = aggregate(stream, ["id"], [Aggregate("sum", "amount", "total"), Aggregate("max", "amount", "most")])
    rows = upserts(totals.where("total > 5"), ["id"])
    assert shown(rows, tmp_path) == [[], [(1, 13, 9, False)], [(1, 13, 9, True)], []]


def test_having_over_an_aggregate_of_spark_removes_its_rows_too(spark, tmp_path: Path) -> None:
    amounts = [(1, 4), (1, 9), (2, 7), (1, -9)]
    events = [event(batch, key, amount=amount) for batch, (key, amount) in enumerate(amounts)]
    groups = given(spark, tmp_path, events).groupBy("id").agg(f.expr("median(amount) as middle"), f.expr("count(*) n"))
    rows = upserts(having(groups, ["id"], "middle > 5"), ["id"])
    assert shown(rows, tmp_path) == [[], [(1, 6.5, 2, False)], [(2, 7.0, 1, False)], [(1, 6.5, 2, True)]]


def test_all_rows_are_one_group_which_stays(spark, tmp_path: Path) -> None:
    table = side_of(given(spark, tmp_path, [event(0, 1, ref=5), event(1, 1, gone=True)]), "l", "ref")
    whole = aggregate(newest(table), [], [Aggregate("count", None, "n"), Aggregate("sum", "ref", "total")])
    assert shown(upserts(whole, ["n"]), tmp_path) == [[(1, 5, False)], [(0, None, False), (1, 5, True)]]


def test_keys_with_a_null_meet_no_other(spark, tmp_path: Path) -> None:
    events = [event(0, 1, "l"), event(0, 2, "r"), event(1, 1, "l", gone=True)]
    stream = given(spark, tmp_path, events)
    left, right = (Side(newest(side_of(stream, name, "ref")), ("ref",), name=name) for name in "lr")
    wanted = [("l.id", 1, None), ("r.id", None, 2)]
    rows = join(left, right, "full").select("l.id", "r.id", DELETED)
    first, second = shown(rows, tmp_path)
    assert first == sorted([(*ids, False) for _, *ids in wanted], key=repr)
    assert second == [(1, None, True)]


def test_many_rows_that_refer_to_one_follow_it(spark, tmp_path: Path) -> None:
    # of one bucket, and each with more rows than Spark's state store gives in one answer (500)
    shared = spark.range(20_000).where(f"pmod(hash(id), {BUCKETS}) = 0").limit(3).collect()
    referred = [row.id for row in shared]
    lefts = [(number, one) for number, one in enumerate(referred * 600)]
    events = [event(0, number, ref=one) for number, one in lefts]
    events += [event(1, one, "r", kind="a") for one in referred] + [event(1, 0, gone=True) | {"place": 9}]
    events += [event(2, one, "r", gone=True) for one in referred[:2]]
    stream = given(spark, tmp_path, events)
    rows = join_by_reference(side_of(stream, "l", "ref"), ("ref",), side_of(stream, "r", "kind"))
    first, second, third = shown(rows.select("l.id", "r.id", "r.kind", DELETED), tmp_path)
    assert first == []
    assert second == sorted([(number, one, "a", False) for number, one in lefts[1:]], key=repr)
    assert third == sorted([(number, one, "a", True) for number, one in lefts[1:] if one in referred[:2]], key=repr)


def test_a_stream_sees_the_newest_row_of_a_table(spark, tmp_path: Path) -> None:
    events = [
        event(0, 1, "l", ref=7), event(0, 7, "r", kind="a"), event(1, 2, "l", ref=7), event(1, 3, "l"),
        event(2, 7, "r", kind="b"), event(2, 4, "l", ref=7), event(3, 7, "r", gone=True), event(3, 5, "l", ref=7),
    ]  # fmt: skip
    stream = given(spark, tmp_path, events)
    orders = Side(stream.where("side = 'l'").select("id", "ref"), ("ref",), name="l")
    rows = look_up(orders, side_of(stream, "r", "kind"), "left").select("l.id", "r.kind")
    assert shown(rows, tmp_path, "append") == [[(1, "a")], [(2, "a"), (3, None)], [(4, "b")], [(5, None)]]


def test_an_aggregate_of_a_nested_value_is_refused(spark, tmp_path: Path) -> None:
    stream = given(spark, tmp_path, [event(0, 1)]).withColumn("pair", f.struct("id", "ref"))
    with pytest.raises(AggregateError, match=r"max\(pair\) .* `to_json` of it"):
        aggregate(stream, ["id"], [Aggregate("max", "pair", "most")])


def test_targets_of_pipelines_have_the_same_name_for_a_removal() -> None:
    assert changes.DELETED == DELETED
