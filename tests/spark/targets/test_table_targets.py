"""What all tables have in common as targets of a pipeline: a batch that one has is evaluated, and not written again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from uuid import uuid4

import pytest

from moldau.products.pipelines.targets.delta import DeltaTarget
from moldau.products.pipelines.targets.iceberg import IcebergTarget
from moldau.products.pipelines.targets.postgresql import PostgresqlTarget
from moldau.products.pipelines.targets.sqlite import SqliteTarget
from moldau.products.pipelines.targets.table_target import TableTarget


@pytest.fixture
def made(tmp_path: Path, postgresql) -> Callable[[str], TableTarget]:
    """A table of each kind that is nowhere yet."""
    kinds = {
        "delta": lambda: DeltaTarget(mode="append", location=str(tmp_path / "lake")),
        "iceberg": lambda: IcebergTarget(
            mode="append", table="a.t", warehouse=str(tmp_path / "warehouse"), catalog=tmp_path / "catalog.db"
        ),
        "postgresql": lambda: PostgresqlTarget(mode="append", server=postgresql.url, table=(f"t{token_hex(4)}",)),
        "sqlite": lambda: SqliteTarget(mode="append", file=tmp_path / "shop.db", table="t"),
    }
    return lambda kind: kinds[kind]()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg", "postgresql", "sqlite"])
def test_a_batch_that_the_table_has_is_evaluated_to_the_end(spark, target_query, made, kind: str, tmp_path: Path):
    ends = tmp_path / "ends"
    ends.mkdir()

    def note_the_end(batches):
        yield from batches
        (ends / uuid4().hex).touch()

    target = made(kind)
    target.writer(target_query)(spark.range(0, 100, 1, 2), 0)
    again = spark.range(0, 100, 1, 2).mapInArrow(note_the_end, "id long")
    target.writer(target_query)(again, 0)
    assert len(list(ends.iterdir())) == 2


@pytest.mark.slow
def test_the_dead_letters_of_a_batch_that_the_table_has_are_kept(run_spec, new_topic, produce, tmp_path: Path):
    """The driver ended between the commit of the table and that of Spark."""
    source = new_topic()
    produce(source, [(None, b'{"n":1}'), (None, b"no JSON")])
    spec = f"""
source: {{topic: {source}, format: json, schema: n int}}
sql: select n from source
sink: {{sqlite: shop.db, table: t}}
"""
    assert run_spec(spec)[0].dead_letters == 1
    for path in ("commits/0", "commits/.0.crc", "dead-letters.json"):
        (tmp_path / "state" / path).unlink()
    assert run_spec(spec)[0].dead_letters == 1
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        assert connection.execute("select n from t").fetchall() == [(1,)]
