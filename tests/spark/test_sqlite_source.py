"""A pipeline that reads a table in an SQLite file: every row once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from moldau.errors import MoldauError
from moldau.products.pipelines.sources.sqlite import SqliteSource
from tests.spark.feeds import Reader


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "a shop.db"
    run(file, "create table orders (id integer primary key autoincrement, name varchar(9), price real, raw blob, any)")
    return file


def run(file: Path, *statements: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def feed(file: Path, table: str = "orders", by: str = "id", **more: int):
    return SqliteSource(file=file, table=table, by=by, **more).feed()


def test_each_row_is_read_once(file):
    reader = Reader(feed(file))
    assert reader.batch() == []
    run(
        file,
        "insert into orders (name, price, raw, any) values ('a', 1.5, x'41', 7)",
        "insert into orders default values",
    )
    assert reader.batch() == [
        {"id": 1, "name": "a", "price": 1.5, "raw": b"A", "any": "7"},
        {"id": 2, "name": None, "price": None, "raw": None, "any": None},
    ]
    run(file, "delete from orders", "insert into orders (name) values ('b')")
    assert [row["id"] for row in reader.batch()] == [3]
    assert reader.batch() == []


def test_a_row_is_there_when_its_writer_has_committed(file):
    reader = Reader(feed(file))
    with closing(sqlite3.connect(file)) as writer:
        writer.execute("insert into orders (name) values ('late')")
        assert reader.batch() == []
        writer.commit()
    assert [row["name"] for row in reader.batch()] == ["late"]


def test_a_large_table_is_read_in_batches(file):
    run(file, *["insert into orders default values"] * 6)
    reader = Reader(feed(file, max_records=4))
    assert [[row["id"] for row in reader.batch()] for _ in range(2)] == [[1, 2, 3, 4], [5, 6]]


def test_a_batch_may_end_at_the_number_0(file):
    run(file, *[f"insert into orders (id) values ({number})" for number in (-1, 0, 1)])
    reader = Reader(feed(file, max_records=1))
    assert [[row["id"] for row in reader.batch()] for _ in range(4)] == [[-1], [0], [1], []]


def test_what_cannot_be_read_is_refused(file, tmp_path):
    with pytest.raises(MoldauError, match="'name' of orders is none"):
        feed(file, by="name")
    with pytest.raises(MoldauError, match="has no table sales"):
        feed(file, "sales")
    with pytest.raises(MoldauError, match=r"absent\.db cannot be read: unable to open"):
        feed(tmp_path / "absent.db")
    assert not (tmp_path / "absent.db").exists()


def test_a_value_that_does_not_fit_its_column_ends_the_batch(file):
    run(file, "create table loose (id integer primary key, price real)", "insert into loose values (1, 'cheap')")
    with pytest.raises(MoldauError, match="the column 'price' has 'cheap'"):
        Reader(feed(file, "loose")).batch()


def test_a_page_goes_on_where_its_last_run_ended(run_page, file, tmp_path):
    page = f"""
source: {{sqlite: "{file}", table: orders, by: id}}
sql: select id, name from source
sink: {{sqlite: out.db, table: copy}}
"""
    run(file, "insert into orders (name) values ('a')")
    assert [state.state for state in run_page(page)] == ["finished"]
    run(file, "insert into orders (name) values ('b')")
    run_page(page)
    with closing(sqlite3.connect(tmp_path / "out.db")) as connection:
        assert connection.execute("select id, name from copy order by id").fetchall() == [(1, "a"), (2, "b")]
