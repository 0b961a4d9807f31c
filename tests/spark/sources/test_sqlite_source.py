"""A pipeline that reads a table in an SQLite file: every row once."""

from __future__ import annotations

import json
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


def test_a_text_that_is_no_utf8_is_replaced(file):
    reader = Reader(feed(file))
    run(file, "insert into orders (name, raw) values (cast(x'62fffe' as text), x'62fffe')")
    (row,) = reader.batch()
    assert (row["name"], row["raw"]) == ("b\ufffd\ufffd", b"b\xff\xfe")


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


@pytest.mark.parametrize("key", ["'soon'", "x'41'", "1e300"])
def test_a_key_that_is_no_number_is_passed_over_by_no_row(tmp_path: Path, key: str):
    file = tmp_path / "loose.db"
    run(file, "create table loose (id integer, name text)", "insert into loose values (1, 'a')")
    reader = Reader(feed(file, "loose"))
    assert [row["id"] for row in reader.batch()] == [1]
    run(file, f"insert into loose values ({key}, 'b')", "insert into loose values (2, 'c')")
    with pytest.raises(MoldauError, match=r"the column 'id' has .*, which is no whole number"):
        reader.batch()
    run(file, "update loose set id = 3 where name = 'b'")
    assert sorted(row["id"] for row in reader.batch()) == [2, 3]
    run(file, "insert into loose values (4, 'd')")
    assert [row["id"] for row in reader.batch()] == [4]


HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def events(tmp_path: Path, kind: str) -> Path:
    file = tmp_path / "events.db"
    run(file, f"create table events (name text, at {kind})")
    return file


def happened(file: Path, moment: str, *names: str) -> None:
    """`moment`: SQL."""
    run(file, *[f"insert into events values ('{name}', {moment})" for name in names])


def names(reader: Reader) -> list[str]:
    return sorted(row["name"] for row in reader.batch())


@pytest.mark.parametrize(
    ("kind", "moment"),
    [
        ("text", "datetime('now', {})"),
        ("datetime", "datetime('now', {})"),
        ("timestamp", "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', {})"),
        ("varchar(40)", "strftime('%Y-%m-%d %H:%M:%f', 'now', {}) || '+00:00'"),
        ("real", "julianday('now', {})"),
        ("double", "unixepoch('now', {})"),
        ("datetime", "unixepoch('now', {})"),
        ("integer", "unixepoch('now', {})"),
        ("integer", "1000 * unixepoch('now', {})"),
    ],
)
def test_rows_that_share_a_time_are_read_once_when_they_are_older_than_the_delay(tmp_path, kind, moment):
    file = events(tmp_path, kind)
    old, older, young = (moment.format(f"'{back}'") for back in ("-3 hours", "-4 hours", "-10 minutes"))
    reader = Reader(feed(file, "events", "at", delay_ms=HOUR_MS, max_records=1))
    assert reader.batch() == []
    happened(file, older, "a")
    run(file, "insert into events select 'b', at from events", "insert into events select 'c', at from events limit 1")
    happened(file, young, "young")
    happened(file, "null", "timeless")
    assert names(reader) == ["a", "b", "c"]
    assert reader.batch() == []
    happened(file, old, "d")
    happened(file, young, "young too")
    assert names(reader) == ["d"]
    assert reader.batch() == []
    file.with_name("place").write_text(json.dumps(reader.place), "utf-8")
    later = Reader(feed(file, "events", "at", delay_ms=0))
    later.place = json.loads(file.with_name("place").read_text("utf-8"))
    assert names(later) == ["young", "young too"]


def test_a_day_of_dates_is_read_when_it_is_over(tmp_path):
    file = events(tmp_path, "date")
    happened(file, "date('now', '+1 day')", "tomorrow")
    happened(file, "date('now', '-2 days')", "a", "b")
    reader = Reader(feed(file, "events", "at", delay_ms=0))
    assert names(reader) == ["a", "b"]
    assert reader.batch() == []


def test_a_whole_number_is_a_time_where_the_pipeline_says_a_delay(tmp_path):
    file = events(tmp_path, "integer")
    happened(file, "unixepoch('now')", "now")
    assert Reader(feed(file, "events", "at", delay_ms=DAY_MS)).batch() == []
    assert names(Reader(feed(file, "events", "at"))) == ["now"]


def test_texts_are_read_in_their_order(tmp_path):
    file = events(tmp_path, "text")
    reader = Reader(feed(file, "events", "name", max_records=2))
    happened(file, "0", "01ARZ", "01ARX", "01ARY")
    assert [names(reader) for _ in range(3)] == [["01ARX", "01ARY"], ["01ARZ"], []]
    happened(file, "0", "01AS0", "01ARW")
    assert names(reader) == ["01AS0"]


@pytest.mark.parametrize(
    ("kind", "moments", "refused"),
    [
        ("text", ("'2026-01-01 00:00:00'", "'unknown'"), "has '2026-01-01 00:00:00' and 'unknown': keys of one form"),
        ("text", ("'2026-01-01 00:00:00'", "'2026-01-01T00:00:00'"), "keys of one form"),
        ("text", ("'2026-01-01T00:00:00Z'", "'2026-01-01T00:00:00+02:00'"), "keys of one form"),
        ("real", ("2461000.5", "1767225600"), "has 2461000.5 and 1767225600.0: keys of one form"),
        ("datetime", ("'soon'",), "has 'soon', which is no time"),
        ("real", ("-1",), "has -1.0, which is no time"),
        ("text", ("x'41'",), "has b'A', which is no time"),
    ],
)
def test_keys_that_have_no_order_are_refused(tmp_path, kind, moments, refused):
    file = events(tmp_path, kind)
    for moment in moments:
        happened(file, moment, "a")
    with pytest.raises(MoldauError, match=refused):
        Reader(feed(file, "events", "at")).batch()


def test_a_key_of_another_form_than_those_before_is_refused(tmp_path):
    file = events(tmp_path, "text")
    reader = Reader(feed(file, "events", "at"))
    happened(file, "'2026-01-01 00:00:00'", "a")
    assert names(reader) == ["a"]
    happened(file, "'unknown'", "b")
    with pytest.raises(MoldauError, match="keys of one form"):
        reader.batch()
    with pytest.raises(MoldauError, match="has 'b', which is no time"):
        Reader(feed(file, "events", "name", delay_ms=1)).batch()


def test_what_cannot_be_read_is_refused(file, tmp_path):
    for column in ("any", "raw", "absent"):
        with pytest.raises(MoldauError, match=f"whole numbers, texts or times; '{column}' of orders is none"):
            feed(file, by=column)
    with pytest.raises(MoldauError, match="has no table sales"):
        feed(file, "sales")
    with pytest.raises(MoldauError, match=r"absent\.db cannot be read: unable to open"):
        feed(tmp_path / "absent.db")
    assert not (tmp_path / "absent.db").exists()


def test_a_value_that_does_not_fit_its_column_ends_the_batch(file):
    run(file, "create table loose (id integer primary key, price real)", "insert into loose values (1, 'cheap')")
    with pytest.raises(MoldauError, match="the column 'price' has 'cheap'"):
        Reader(feed(file, "loose")).batch()


def test_a_pipeline_goes_on_where_its_last_run_ended(run_spec, file, tmp_path):
    spec = f"""
source: {{sqlite: "{file}", table: orders, by: id}}
sql: select id, name from source
sink: {{sqlite: out.db, table: copy}}
"""
    run(file, "insert into orders (name) values ('a')")
    assert [state.state for state in run_spec(spec)] == ["finished"]
    run(file, "insert into orders (name) values ('b')")
    run_spec(spec)
    with closing(sqlite3.connect(tmp_path / "out.db")) as connection:
        assert connection.execute("select id, name from copy order by id").fetchall() == [(1, "a"), (2, "b")]


def test_a_pipeline_reads_by_time_and_goes_on_where_its_last_run_ended(run_spec, tmp_path):
    file = events(tmp_path, "datetime default current_timestamp")
    spec = f"""
source: {{sqlite: "{file}", table: events, by: at, delay: 1 hour}}
sql: select name, at from source
sink: {{sqlite: out.db, table: copy}}
"""
    happened(file, "datetime('now', '-3 hours')", "a", "b")
    run(file, "insert into events (name) values ('young')")
    run_spec(spec)
    happened(file, "datetime('now', '-2 hours')", "c")
    assert [state.state for state in run_spec(spec)] == ["finished"]
    with closing(sqlite3.connect(tmp_path / "out.db")) as connection:
        assert connection.execute("select name from copy order by name").fetchall() == [("a",), ("b",), ("c",)]
