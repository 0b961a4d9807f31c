"""A pipeline that reads a Delta table version by version: every row once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from moldau.errors import MoldauError
from moldau.products.pipelines.sources.delta import DeltaSource
from moldau.products.pipelines.sources.feed_source import SKIP
from moldau.spark.source.feeds import stream_of
from tests.spark.feeds import Reader


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "a lake"


def append(lake: Path, *numbers: int, **more: object) -> None:
    write_deltalake(
        lake, pa.table({"id": pa.array(numbers, pa.int64()), "day": ["a b"] * len(numbers)}), mode="append", **more
    )


def ids(rows: list[dict]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("partition", [{}, {"partition_by": "day"}], ids=["plain", "partitioned"])
def test_the_first_batch_is_the_table_and_each_later_one_what_versions_add(lake, partition):
    append(lake, 1, **partition)
    append(lake, 2, **partition)
    reader = Reader(DeltaSource(location=str(lake)).feed())
    first = reader.batch()
    assert (ids(first), first[0]["day"]) == ([1, 2], "a b")
    assert reader.batch() == []
    append(lake, 3, 4, **partition)
    append(lake, 5, **partition)
    DeltaTable(lake).optimize.compact()
    place = reader.place
    assert ids(reader.batch()) == [3, 4, 5]
    assert ids(reader.between(place, reader.place)) == [3, 4, 5]
    assert ids(reader.between({"version": -1}, place)) == [1, 2]


def test_a_batch_takes_so_many_files_as_the_pipeline_says(lake):
    """The table's first state in parts, also if it has grown meanwhile; later versions whole."""
    for number in range(5):
        append(lake, number)
    reader = Reader(DeltaSource(location=str(lake), max_files=2).feed())
    first, place = reader.batch(), reader.place
    append(lake, 5)
    append(lake, 6)
    second = reader.batch()
    assert [len(first), len(second)] == [2, 2]
    assert reader.between({"version": -1}, place) == first
    assert reader.between(place, reader.place) == second
    # without the bound that the checkpoint began with, the rest of the first state comes in one piece
    unbound = Reader(DeltaSource(location=str(lake)).feed())
    unbound.place = reader.place
    rest = reader.batch()
    assert unbound.batch() == rest
    assert ids([*first, *second, *rest]) == [0, 1, 2, 3, 4]
    append(lake, 7)
    assert [ids(reader.batch()) for _ in range(3)] == [[5, 6], [7], []]
    assert [ids(unbound.batch()) for _ in range(2)] == [[5, 6, 7], []]


def test_a_version_that_takes_rows_away_is_refused_or_left_out(lake):
    append(lake, 1, 2)
    reader, skipping = (Reader(DeltaSource(location=str(lake), **more).feed()) for more in ({}, {"removed_rows": SKIP}))
    assert ids(reader.batch()) == ids(skipping.batch()) == [1, 2]
    DeltaTable(lake).update(updates={"id": "id + 10"})
    append(lake, 3)
    assert ids(skipping.batch()) == [3]
    with pytest.raises(MoldauError, match=r"version 1 of the Delta table .* takes rows away"):
        reader.batch()
    assert ids(Reader(DeltaSource(location=str(lake)).feed()).batch()) == [3, 11, 12]


def test_a_column_that_came_later_is_null_in_older_files(lake):
    append(lake, 1)
    reader = Reader(DeltaSource(location=str(lake)).feed())
    assert ids(reader.batch()) == [1]
    append(lake, 2)
    rows = pa.table({"id": pa.array([3], pa.int64()), "day": ["c"], "name": ["new"]})
    write_deltalake(lake, rows, mode="append", schema_mode="merge")
    with pytest.raises(MoldauError, match=r"version 2 .* has other columns: start the pipeline again"):
        reader.batch()
    again = DeltaSource(location=str(lake)).feed()
    assert [row["name"] for row in Reader(again).between({"version": 0}, {"version": 2})] == [None, "new"]


def test_what_is_gone_is_named(lake):
    append(lake, 1)
    reader = Reader(DeltaSource(location=str(lake)).feed())
    reader.batch()
    append(lake, 2)
    append(lake, 3)
    (lake / "_delta_log" / f"{1:020}.json").rename(lake / "elsewhere")
    with pytest.raises(MoldauError, match="version 1 is gone from the log"):
        reader.batch()
    (lake / "elsewhere").rename(lake / "_delta_log" / f"{1:020}.json")
    for file in lake.glob("*.parquet"):
        file.unlink()
    with pytest.raises(MoldauError, match="a vacuum removed it before it was read"):
        reader.between({"version": 0}, {"version": 2})


def test_a_table_that_was_made_anew_is_noticed(lake):
    """Its versions count from 0 again: those up to the last read version would be skipped."""
    for number in range(3):
        append(lake, number)
    reader = Reader(DeltaSource(location=str(lake)).feed())
    assert ids(reader.batch()) == [0, 1, 2]
    shutil.rmtree(lake)
    with pytest.raises(MoldauError, match="has no version now, and version 2 of it was read before"):
        reader.batch()
    append(lake, 7)
    with pytest.raises(MoldauError, match="has version 0 as its newest one now, and version 2 of it was read before"):
        reader.batch()
    for number in (8, 9, 10):
        append(lake, number)
        if number > 8:  # as many versions as were read, and more
            with pytest.raises(
                MoldauError, match=r"version 2 of .* is another one than was read before: .* created again"
            ):
                reader.batch()


def test_a_table_that_is_read_in_parts_and_made_anew_is_noticed(lake):
    for number in range(3):
        append(lake, number)
    reader = Reader(DeltaSource(location=str(lake), max_files=2).feed())
    assert len(reader.batch()) == 2
    shutil.rmtree(lake)
    for number in range(3):
        append(lake, number)
    with pytest.raises(MoldauError, match=r"version 2 of .* is another one than was read before"):
        reader.batch()


def test_a_place_that_an_older_release_noted_is_gone_on_from(lake):
    append(lake, 1)
    reader = Reader(DeltaSource(location=str(lake)).feed())
    reader.place = {"version": 0}
    assert reader.batch() == []
    append(lake, 2)
    assert ids(reader.batch()) == [2]


def test_a_place_whose_version_the_log_has_forgotten_is_gone_on_from(lake):
    append(lake, 1)
    reader = Reader(DeltaSource(location=str(lake)).feed())
    assert ids(reader.batch()) == [1]
    append(lake, 2)
    DeltaTable(lake).create_checkpoint()
    (lake / "_delta_log" / f"{0:020}.json").unlink()  # as the table's own clean-up does
    assert ids(reader.batch()) == [2]


def test_what_is_no_table_of_rows_is_refused(tmp_path, lake):
    with pytest.raises(MoldauError, match="is no Delta table that can be read"):
        DeltaSource(location=str(tmp_path / "absent")).check()
    rows = pa.table({"id": [1]})
    write_deltalake(lake, rows, configuration={"delta.enableDeletionVectors": "true", "delta.minReaderVersion": "3"})
    log = lake / "_delta_log" / f"{0:020}.json"
    text = log.read_text("utf-8")
    assert '"deletionVectors"' in text
    with pytest.raises(MoldauError, match="has deletionVectors, which a pipeline cannot read"):
        DeltaSource(location=str(lake)).check()


@pytest.mark.slow
def test_a_running_stream_takes_up_versions_as_they_come(spark, lake, tmp_path):
    append(lake, 1)
    found: list[int] = []
    rows = stream_of(spark, DeltaSource(location=str(lake)).feed())
    stream = rows.writeStream.option("checkpointLocation", str(tmp_path / "state"))
    query = stream.foreachBatch(lambda batch, _: found.extend(row.id for row in batch.collect())).start()
    try:
        query.processAllAvailable()
        assert found == [1]
        append(lake, 2)
        query.processAllAvailable()
        assert found == [1, 2]
    finally:
        query.stop()


@pytest.mark.slow
def test_a_pipeline_copies_a_growing_table_and_goes_on_where_it_ended(run_spec, lake, new_topic, read_back):
    target = new_topic()
    spec = f'source: {{delta: "{lake}"}}\nsql: select id, day from source where id > 1\nsink: {{topic: {target}}}'
    append(lake, 1, 2)
    assert [state.state for state in run_spec(spec)] == ["finished"]
    append(lake, 3)
    run_spec(spec)
    run_spec(spec)
    assert sorted(value for _, value in read_back(target)) == [b'{"id":2,"day":"a b"}', b'{"id":3,"day":"a b"}']
    append(lake, 4)
    DeltaTable(lake).delete("id = 4")
    with pytest.raises(MoldauError, match="`removed_rows: skip` leaves such versions out"):
        run_spec(spec)
