"""Classes of the package pyspark-data-sources, unchanged, in the light task and on Spark: the same rows.

`fake` has no setting for a seed. `Seeded` sets the seed of Faker where rows are read; the rows come from the package's
own `read`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSource

from benchmarks.peers import CACHE
from moldau.testing.connect import read_all
from tests.support.connect_cluster import connect_cluster

PACKAGES = ("pyspark-data-sources==0.1.11", "faker==23.3.0")
"""Without what they depend on: the package asks for mkdocstrings, and the rest is here."""
SEEDED = """
from faker import Faker
from pyspark_datasources import ArrowDataSource, FakeDataSource
from pyspark_datasources.fake import FakeDataSourceReader

class Seeded(FakeDataSource):
    @classmethod
    def name(cls):
        return "seeded"
    def reader(self, schema):
        super().reader(schema)
        return SeededReader(schema, self.options)

class SeededReader(FakeDataSourceReader):
    def read(self, partition):
        Faker.seed(int(self.options["seed"]))
        return super().read(partition)
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def packages() -> Path:
    """A folder with the package, fetched once."""
    folder = CACHE / "pyspark-data-sources-0.1.11"
    if not (folder / "complete").exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *PACKAGES]
        subprocess.run(command, check=True, timeout=240)
        (folder / "complete").touch()
    return folder


def on_spark(spark: Any, found: type[DataSource], options: dict[str, str]) -> list[dict[str, Any]]:
    spark.dataSource.register(found)
    rows = [row.asDict() for row in spark.read.format(found.name()).options(**options).load().collect()]
    for row in rows:
        if "at" in row:
            row["at"] = round(row["at"].timestamp() * 1000)
    return rows


def write_arrow_files(folder: Path) -> None:
    folder.mkdir()
    for number in range(3):
        at = [datetime(2026, 1, number + 1, hour, tzinfo=UTC) for hour in range(20)]
        table = pa.table(
            {
                "id": pa.array([number * 20 + row for row in range(20)], pa.int64()),
                "name": [f"name {row}" if row % 3 else None for row in range(20)],
                "price": [row / 8 for row in range(20)],
                "is_new": [row % 2 == 0 for row in range(20)],
                "at": pa.array(at, pa.timestamp("us", "UTC")),
            }
        )
        with pa.ipc.new_file(folder / f"{number}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=7)


def test_the_classes_of_a_package_give_the_same_rows(
    spark: Any, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "seeded.py").write_text(SEEDED)
    write_arrow_files(tmp_path / "files")
    for folder in (packages, tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    # of the Python processes of Spark that run what is registered now
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", f"{packages}{os.pathsep}{tmp_path}")
    from seeded import ArrowDataSource, FakeDataSource, Seeded  # type: ignore[import-not-found]

    asked = {
        "pyspark_datasources:ArrowDataSource": (ArrowDataSource, {"path": str(tmp_path / "files")}),
        "seeded:Seeded": (Seeded, {"seed": "7", "numRows": "50"}),
        "pyspark_datasources:FakeDataSource": (FakeDataSource, {"numRows": "50"}),
    }
    light: list[list[dict[str, Any]]] = []
    with connect_cluster() as cluster:
        for name, (_, options) in asked.items():
            topic = cluster.topic()
            more = {"topic": topic, "row.reader": "reader", "value.converter.schemas.enable": "false"}
            config = {"name": topic, "connector.class": name, "value.converter": "json", **more, **options}
            records = read_all(cluster, config, topic, path=[packages, tmp_path])
            light.append([json.loads(record.value or b"") for record in records])
    arrow, seeded, fake = (on_spark(spark, found, options) for found, options in asked.values())
    assert light[0] == sorted(arrow, key=lambda row: row["id"])
    assert len(light[0]) == 60
    assert light[1] == seeded
    assert len({json.dumps(row) for row in seeded}) == 50
    assert [list(row) for row in light[2]] == [list(row) for row in fake]
    assert len(fake) == 50
