"""A pipeline into an SQLite file: each batch is one transaction that also records the batch, in spite of repeated
runs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moldau.errors import MoldauError
from moldau.products.pipelines.targets.sqlite import SqliteTarget


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def writer(file, target_query):
    """`writer(mode=..., key=...)` is that of a driver that starts now."""

    def begin(*, mode: str = "append", key: tuple[str, ...] = ()):
        return SqliteTarget(mode=mode, key=key, file=file, table="t").writer(target_query)

    return begin


def rows(file: Path, columns: str = "*") -> list[tuple]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(f"select {columns} from t order by 1").fetchall()


def test_a_pipeline_makes_a_table_in_a_file(run_spec, new_topic, produce, file):
    source = new_topic()
    produce(source, [(None, b'{"user":"ann","at":"2026-01-01T00:00:00Z"}'), (None, b'{"user":""}')])
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, at timestamp"}}
sql: |
  select user, at is null as b, at, cast(1.5 as decimal(5, 2)) as d, cast('A' as binary) as bytes,
    named_struct('n', array(1)) as nested, date'2026-01-02' as day, 0.5D as half from source
sink: {{sqlite: {file}, table: t}}
"""
    assert [state.state for state in run_spec(spec)] == ["finished"]
    rest = ("1.50", b"A", '{"n":[1]}', "2026-01-02", 0.5)
    assert rows(file) == [("", 1, None, *rest), ("ann", 0, "2026-01-01 00:00:00.000000Z", *rest)]
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(".")] == []


def test_a_batch_that_runs_again_is_not_written_again(spark, writer, file):
    writer()(spark.range(0, 1_000, 1, 3), 0)
    writer()(spark.range(0, 1_000, 1, 2), 0)
    writer()(spark.range(0), 1)
    writer()(spark.range(1_000, 1_500, 1, 1), 2)
    assert rows(file) == [(number,) for number in range(1_500)]


def test_an_upsert_keeps_the_newest_row_and_runs_once(spark, writer, file):
    update = writer(mode="update", key=("id", "kind"))
    update(spark.sql("select 1 as id, 'a' as kind, 'old' as name union all select 2, 'a', 'other'"), 0)
    update(spark.sql("select 1 as id, 'a' as kind, 'new' as name"), 1)
    writer(mode="update", key=("id", "kind"))(spark.sql("select 1 as id, 'a' as kind, 'old' as name"), 0)
    assert rows(file) == [(1, "a", "new"), (2, "a", "other")]
    with pytest.raises(MoldauError, match=r"several rows of one key \(id, kind\), such as \(1, 'a'\)"):
        update(spark.sql("select 1 as id, 'a' as kind, explode(array('x', 'y')) as name"), 2)


@pytest.mark.parametrize("kind", ["double", "float"])
def test_a_key_that_is_no_number_is_refused(spark, writer, file, kind):
    """SQLite stores it as NULL, and no NULL is equal to another."""
    update = writer(mode="update", key=("id", "size"))
    update(spark.sql(f"select 1 as id, cast('Infinity' as {kind}) as size, 'a' as name"), 0)
    with pytest.raises(MoldauError, match="a row has NaN as 'size', which `key` names: SQLite has no NaN"):
        update(spark.sql(f"select 1 as id, cast('NaN' as {kind}) as size, 'b' as name"), 1)
    assert rows(file) == [(1, float("inf"), "a")]


def test_a_value_that_is_no_number_is_null(spark, writer, file):
    writer()(spark.sql("select 1 as id, cast('NaN' as double) as size"), 0)
    assert rows(file) == [(1, None)]


def test_a_table_that_cannot_take_the_rows_is_refused_before_the_start(spark, file):
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("create table t (id integer, name text)")
    with pytest.raises(MoldauError, match="cannot take it: table t has no column named other"):
        SqliteTarget(mode="append", file=file, table="t").rows_of(spark.sql("select 1 as id, 'x' as other"))
    with pytest.raises(MoldauError, match="does not match any PRIMARY KEY or UNIQUE constraint"):
        SqliteTarget(mode="update", key=("id",), file=file, table="t").rows_of(spark.sql("select 1 as id"))
    file.write_text("no database, but long enough to be none: " + "x" * 1_000)
    with pytest.raises(MoldauError, match=r"shop\.db took no batch: file is not a database"):
        SqliteTarget(mode="append", file=file, table="t").check()
