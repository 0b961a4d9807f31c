"""Common behavior of all tables as pipeline targets: a batch already in the table is evaluated, but not written
again."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from uuid import uuid4

import pytest

from moldau.errors import MoldauError
from moldau.products.pipelines.targets.delta import DeltaTarget
from moldau.products.pipelines.targets.iceberg import IcebergTarget
from moldau.products.pipelines.targets.postgresql import PostgresqlTarget
from moldau.products.pipelines.targets.sqlite import SqliteTarget
from moldau.products.pipelines.targets.table_target import TableTarget

KINDS = ("delta", "iceberg", "postgresql", "sqlite")


@pytest.fixture
def made(tmp_path: Path, postgresql) -> Callable[..., TableTarget]:
    """`made(kind, **keys)`: a table of that kind that does not exist yet."""
    kinds = {
        "delta": lambda **keys: DeltaTarget(location=str(tmp_path / "lake"), **keys),
        "iceberg": lambda **keys: IcebergTarget(
            table="a.t", warehouse=str(tmp_path / "warehouse"), catalog=tmp_path / "catalog.db", **keys
        ),
        "postgresql": lambda **keys: PostgresqlTarget(server=postgresql.url, table=(f"t{token_hex(4)}",), **keys),
        "sqlite": lambda **keys: SqliteTarget(file=tmp_path / "shop.db", table="t", **keys),
    }
    return lambda kind, **keys: kinds[kind](**keys)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_that_the_table_has_is_evaluated_to_the_end(spark, target_query, made, kind: str, tmp_path: Path):
    ends = tmp_path / "ends"
    ends.mkdir()

    def note_the_end(batches):
        yield from batches
        (ends / uuid4().hex).touch()

    target = made(kind, mode="append")
    target.writer(target_query)(spark.range(0, 100, 1, 2), 0)
    again = spark.range(0, 100, 1, 2).mapInArrow(note_the_end, "id long")
    target.writer(target_query)(again, 0)
    assert len(list(ends.iterdir())) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_an_upsert_cannot_tell_apart_are_rejected(spark, target_query, made, kind: str):
    write = made(kind, mode="update", key=("id",)).writer(target_query)
    with pytest.raises(MoldauError, match=r"several rows of one key \(id\), such as \(1,\)"):
        write(spark.sql("select * from values (1), (1) as t(id)"), 0)
    with pytest.raises(MoldauError, match="a row has no 'id', which `key` names"):
        write(spark.sql("select * from values (1), (null) as t(id)"), 0)


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
