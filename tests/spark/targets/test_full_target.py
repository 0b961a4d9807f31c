"""A full disk under a target: the batch fails with a reason, and is there once after it runs again."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars
import psutil
import pytest

from moldau.products.pipelines.targets.delta import DeltaTarget
from moldau.products.pipelines.targets.iceberg import IcebergTarget
from moldau.products.pipelines.targets.parquet import FilesTarget
from moldau.products.pipelines.targets.table_target import TableTarget


@contextmanager
def without_room() -> Iterator[None]:
    """Spark's Python processes and their forks can no longer write a file, as on a full disk."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    def limit(to: int) -> None:
        for process in psutil.Process().children(recursive=True):
            if "java" not in process.name():
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (to, hard))

    limit(0)
    try:
        yield
    finally:
        limit(hard)


def rows_in(target: FilesTarget | TableTarget) -> list[int]:
    if isinstance(target, IcebergTarget):
        found = target.open_catalog().load_table(target.table).scan().to_arrow().column("id").to_pylist()
    elif isinstance(target, DeltaTarget):
        found = polars.read_delta(target.location)["id"].to_list()
    else:
        assert isinstance(target, FilesTarget)
        found = polars.read_parquet(target.location)["id"].to_list()
    return sorted(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda folder: FilesTarget(mode="append", location=str(folder / "files")), id="parquet"),
        pytest.param(lambda folder: DeltaTarget(mode="append", location=str(folder / "delta")), id="delta"),
        pytest.param(
            lambda folder: IcebergTarget(
                mode="append", table="a.t", warehouse=str(folder / "lake"), catalog=folder / "catalog.db"
            ),
            id="iceberg",
        ),
    ],
)
def test_a_batch_that_finds_no_room_fails_and_is_there_once_when_it_runs_again(
    spark, target_query, tmp_path: Path, make: Callable[[Path], FilesTarget | TableTarget]
):
    target = make(tmp_path)
    write = target.writer(target_query)
    write(spark.range(10), 0)
    with without_room(), pytest.raises(Exception, match="File too large"):
        write(spark.range(10, 20), 1)
    assert rows_in(target) == list(range(10))
    write(spark.range(10, 20), 1)
    target.writer(target_query)(spark.range(10, 20), 1)
    assert rows_in(target) == list(range(20))
