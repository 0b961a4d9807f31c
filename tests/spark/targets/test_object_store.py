"""Targets and sources in an object store: a real server on this machine with Amazon's protocol."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from moldau.errors import MoldauError
from moldau.products.pipelines.sources.iceberg import IcebergSource
from moldau.products.pipelines.targets.delta import DeltaTarget
from moldau.products.pipelines.targets.iceberg import IcebergTarget
from moldau.products.pipelines.targets.parquet import FilesTarget
from moldau.products.pipelines.targets.target import Owner
from moldau.spark.sink.checkpoint_offsets import CheckpointUnreadableError, batch_ends, query_id
from moldau.spark.source.feeds import read_whole
from tests.support.object_store import Bucket


@pytest.fixture(scope="module")
def store(spark, object_store) -> str:
    """The address of a bucket that is empty at first."""
    return Bucket().address


def ids(rows: pa.Table) -> list[int]:
    return sorted(rows.column("id").to_pylist())


def read_files(location: str) -> pa.Table:
    files, root = fs.FileSystem.from_uri(location)
    return pq.read_table(root, filesystem=files)


@pytest.mark.slow
def test_a_pipeline_fills_three_kinds_of_targets(store, run_spec, new_topic, produce, tmp_path):
    source = new_topic(2)
    spec = f"""
sources:
  records: {{topic: {source}, format: string}}
flows:
  numbers: select cast(value as bigint) as id from records
targets:
  files: {{from: numbers, path: {store}/files}}
  delta: {{from: numbers, delta: {store}/delta}}
  iceberg: {{from: numbers, iceberg: shop.numbers, warehouse: {store}/iceberg, catalog: catalog.db}}
"""
    for first in (0, 100):
        produce(source, [(None, b"%d" % number) for number in range(first, first + 100)], partition=first // 100)
        assert {state.state for state in run_spec(spec)} == {"finished"}
    target = IcebergTarget(
        mode="append", table="shop.numbers", warehouse=f"{store}/iceberg", catalog=tmp_path / "catalog.db"
    )
    source_of = IcebergSource(table=target.table, warehouse=target.warehouse, catalog=target.catalog)
    found = {
        "files": read_files(f"{store}/files"),
        "delta": DeltaTable(f"{store}/delta").to_pyarrow_table(),
        "iceberg, as a source": pa.Table.from_batches(read_whole(source_of.feed())),
        "iceberg": target.open_catalog().load_table("shop.numbers").scan().to_arrow(),
    }
    assert {name: ids(rows) == list(range(200)) for name, rows in found.items()} == dict.fromkeys(found, True)


def test_a_batch_that_runs_again_is_there_once(store, spark, target_query):
    files = FilesTarget(mode="append", location=f"{store}/again")
    delta = DeltaTarget(mode="append", location=f"{store}/again-delta")
    for target in (files, delta):
        target.writer(target_query)(spark.range(0, 1_000, 1, 3), 0)
        target.writer(target_query)(spark.range(0, 1_000, 1, 2), 0)
    assert ids(read_files(files.location)) == ids(DeltaTable(delta.location).to_pyarrow_table()) == list(range(1_000))
    system, root = fs.FileSystem.from_uri(files.location)
    there = system.get_file_info(fs.FileSelector(root, recursive=True))
    name = f"{target_query.pipeline}-{target_query.checkpoint_id}-0000000000.parquet"
    assert [one.base_name for one in there if one.is_file] == [name]


@pytest.mark.slow
def test_a_row_takes_the_place_of_the_older_one_of_its_key(store, spark, target_query, tmp_path):
    delta = DeltaTarget(mode="update", key=("id",), location=f"{store}/totals")
    iceberg = IcebergTarget(
        mode="update", key=("id",), table="a.totals", warehouse=f"{store}/iceberg", catalog=tmp_path / "catalog.db"
    )
    for target in (delta, iceberg):
        write = target.writer(target_query)
        write(spark.sql("select id, 1 as n from range(10)"), 0)
        write(spark.sql("select id, 2 as n from range(5, 15)"), 1)
    table = iceberg.open_catalog().load_table("a.totals")
    for rows in (DeltaTable(delta.location).to_pyarrow_table(), table.scan().to_arrow()):
        wanted = [{"id": number, "n": 1 if number < 5 else 2} for number in range(15)]
        assert rows.sort_by("id").to_pylist() == wanted


def test_a_pipeline_reads_a_growing_table_version_by_version(store, run_spec, new_topic, read_back):
    target, table = new_topic(), f"{store}/a growing table"
    spec = f"""
source: {{delta: "{table}"}}
sql: select id, day from source where id > 1
sink: {{topic: {target}}}
"""
    for numbers in ([1, 2], [3]):
        rows = pa.table({"id": numbers, "day": ["a b"] * len(numbers)})
        write_deltalake(table, rows, mode="append", partition_by="day")
        assert {state.state for state in run_spec(spec)} == {"finished"}
    assert sorted(value for _, value in read_back(target)) == [b'{"id":2,"day":"a b"}', b'{"id":3,"day":"a b"}']


def test_a_store_that_does_not_take_the_batch_is_told(store, spark, target_query):
    with pytest.raises(MoldauError, match="the Delta table s3://no-such-bucket/a cannot be reached"):
        DeltaTarget(mode="append", location="s3://no-such-bucket/a").writer(target_query)(spark.range(1), 0)


def test_a_folder_in_a_store_belongs_to_one_pipeline(store):
    for kind in (FilesTarget, DeltaTarget):
        target = kind(mode="append", location=f"{store}/of one/{kind.NAMED_BY}")
        assert target.owner() is None
        for pipeline in ("shop", "shops"):
            target.claim(pipeline)
        assert target.owner() == Owner("shop", f"delete {target.location}/.moldau-owner-shop")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_sink_reads_its_querys_checkpoint_by_hadoops_names_of_a_store(store, scheme):
    files, root = fs.FileSystem.from_uri(store)
    with files.open_output_stream(f"{root}/a checkpoint%20/metadata") as stream:
        stream.write(b'{"id":"abc"}')
    checkpoint = f"{scheme}://{root}/a checkpoint%20"
    assert query_id(checkpoint) == "abc"
    with pytest.raises(CheckpointUnreadableError, match=f"^{scheme}://{root}/a checkpoint%20/offsets/0 cannot be read"):
        batch_ends(checkpoint, 0)
