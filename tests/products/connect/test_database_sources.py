"""The sources of PostgreSQL and SQLite: new rows of a table or a query, each once."""

from __future__ import annotations

import copy
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadMaxRows

from moldau.connect.configuration import ConfigError
from moldau.connect.contract.describing import split
from moldau.connect.handling.stages import RetriableError
from moldau.connectors.databases.dialect import DatabaseError
from moldau.connectors.postgresql import Postgresql
from moldau.connectors.sqlite import Sqlite
from moldau.testing.connect import ConnectorTask
from tests.support.connect_cluster import connect_cluster
from tests.support.database_tables import Tables
from tests.support.postgresql import PostgresqlServer


class Source:
    """A reader in this process, as a task calls it."""

    def __init__(self, tables: Tables, **more: str) -> None:
        config = CaseInsensitiveDict(tables.settings | {key.replace("_", "."): text for key, text in more.items()})
        found = Postgresql if "postgresql" in tables.settings["connector.class"] else Sqlite
        source = found(config)
        self.schema = source.schema()
        self._reader: Any = source.simpleStreamReader(self.schema)
        self.place = self._reader.initialOffset()

    def read(self, most: int = 100) -> list[tuple[Any, ...]]:
        start = self.place
        rows, self.place = self._reader.read(start, ReadMaxRows(most))
        found = list(copy.copy(rows))  # as Spark does
        if found:
            assert list(self._reader.readBetweenOffsets(start, json.loads(json.dumps(self.place)))) == found
        return found


def by_number(tables: Tables, table: str) -> Source:
    return Source(tables, mode="incrementing", incrementing_column_name="id", table_whitelist=table)


def test_rows_with_a_greater_number_are_new(tables: Tables) -> None:
    tables.ask("create table numbered (id bigint, name text)")
    source = by_number(tables, "numbered")
    assert source.read() == []
    assert source.place == {}
    tables.ask("insert into numbered values (2, 'b'), (1, 'a'), (null, 'x'), (3, 'c')")
    assert source.read(2) == [(1, "a"), (2, "b")]
    assert source.place == {"incrementing": 2}
    assert source.read(2) == [(3, "c")]
    assert source.read(2) == []


def test_rows_of_one_time_come_together(tables: Tables) -> None:
    tables.ask("create table timed (name text, at timestamp)")
    rows = (("a", 1), ("b", 2), ("c", 2), ("d", 2), ("e", 3))
    for name, second in rows:
        tables.ask(f"insert into timed values ('{name}', '2026-01-01 00:00:0{second}.123456')")
    source = Source(tables, mode="timestamp", timestamp_column_name="at", table_whitelist="timed")
    assert [name for name, _ in source.read(2)] == ["a", "b", "c", "d"]
    assert source.place == {"timestamp": "2026-01-01 00:00:02.123456"}
    assert [name for name, _ in source.read(2)] == ["e"]


def test_a_time_and_a_number_find_changed_rows(tables: Tables) -> None:
    tables.ask("create table changed (id int, name text, at timestamp)")
    for number in range(1, 5):
        tables.ask(f"insert into changed values ({number}, 'n{number}', '2026-01-01 00:00:00')")
    more = {"timestamp_column_name": "at", "incrementing_column_name": "id"}
    source = Source(tables, mode="timestamp+incrementing", table_whitelist="changed", **more)
    assert [row[0] for row in source.read(3)] == [1, 2, 3]
    tables.ask("update changed set name = 'new', at = '2026-01-02 00:00:00' where id = 1")
    assert [row[:2] for row in source.read(3)] == [(4, "n4"), (1, "new")]
    assert source.read(3) == []


def test_a_query_is_read_in_place_of_a_table(tables: Tables) -> None:
    tables.ask("create table joined (id int, name text)")
    tables.ask("insert into joined values (1, 'a'), (2, 'b')")
    query = "select id, name from joined where name <> 'a'"
    source = Source(tables, mode="incrementing", incrementing_column_name="id", query=query)
    assert source.read() == [(2, "b")]


def test_each_load_has_all_rows(tables: Tables) -> None:
    tables.ask("create table loaded (id int, name text)")
    tables.ask("insert into loaded values (1, 'a'), (2, 'b'), (null, 'x')")
    source = Source(tables, mode="bulk", table_whitelist="loaded", poll_interval_ms="0")
    assert sorted(row[1] for row in source.read(1)) == ["a", "b", "x"]
    tables.ask("delete from loaded where name <> 'b'")
    assert source.read() == [(2, "b")]
    assert source.place == {"loads": 2}
    rests = Source(tables, mode="bulk", query="select name from loaded")
    assert (rests.read(), rests.read(), rests.place) == ([("b",)], [], {"loads": 1})


def test_a_topic_has_the_name_of_its_table(tables: Tables) -> None:
    def topic_of(**more: str) -> str | None:
        config = tables.settings | {"mode": "bulk", "topic.prefix": "shop-"} | more
        [found] = split(Postgresql if tables.is_postgresql else Sqlite, config, 4)
        return found.get("topic")

    assert topic_of(**{"table.whitelist": "main.orders"}) == "shop-orders"
    assert topic_of(query="select 1") == "shop-"
    assert topic_of(**{"table.whitelist": "orders", "topic": "other"}) == "other"


def test_a_column_is_dropped_between_two_looks(tables: Tables) -> None:
    tables.ask("create table narrowed (id int, name text, other text)")
    tables.ask("insert into narrowed values (1, 'a', 'x')")
    source = by_number(tables, "narrowed")
    assert source.read() == [(1, "a", "x")]
    tables.ask("alter table narrowed drop column name")
    tables.ask("insert into narrowed values (2, 'y')")
    with pytest.raises(DatabaseError, match="name"):  # SQLite would give the text 'name'
        source.read()
    place = source.place
    source = by_number(tables, "narrowed")  # the task starts again
    source.place = place
    assert source.read() == [(2, "y")]
    tables.ask("alter table narrowed rename column id to number")
    tables.ask("insert into narrowed values (3, 'z')")
    with pytest.raises(DatabaseError, match="id"):
        source.read()


def test_names_are_quoted(tables: Tables) -> None:
    tables.ask('create table "odd ""name" (id int, "or ""der" text)')
    tables.ask('insert into "odd ""name" values (1, \'a\')')
    assert by_number(tables, 'odd "name').read() == [(1, "a")]


def test_types_of_postgresql(postgresql: PostgresqlServer) -> None:
    tables = Tables.of_postgresql(postgresql.url)
    tables.ask(
        "create table typed (id int8, s int2, f float4, flag bool, raw bytea, day date, at timestamptz, "
        "price numeric(9, 2), free numeric, doc jsonb, list int[], u uuid)"
    )
    uuid = "6ecd8c99-4036-403d-bf84-cf8400f67836"
    tables.ask(
        "insert into typed values (1, 2, 1.5, true, '\\x00ff', '2026-03-09', '2026-03-09 14:05:06+00', 12.30, 1e30, "
        f"""'{{"a": 1}}', '{{1,2}}', '{uuid}')"""
    )
    source = by_number(tables, "typed")
    moment = dt.datetime(2026, 3, 9, 14, 5, 6, tzinfo=dt.UTC)
    (row,) = source.read()
    assert row[:8] == (1, 2, 1.5, True, b"\x00\xff", dt.date(2026, 3, 9), moment, Decimal("12.30"))
    assert row[8:] == ("1" + "0" * 30, '{"a": 1}', "{1,2}", uuid)
    assert [field.dataType.simpleString() for field in source.schema.fields] == [
        *("bigint", "smallint", "float", "boolean", "binary", "date", "timestamp", "decimal(9,2)"),
        *("string", "string", "string", "string"),
    ]


def test_a_value_that_sqlite_takes_in_any_column(tmp_path: Path) -> None:
    tables = Tables.of_sqlite(tmp_path / "shop.db")
    tables.ask("create table loose (id integer, size real, name varchar, other)")
    tables.ask("insert into loose values (1, 2, 3, 4.5)")
    assert by_number(tables, "loose").read() == [(1, 2.0, "3", "4.5")]
    tables.ask("insert into loose values (2, 'wide', 'x', null)")
    source = by_number(tables, "loose")
    with pytest.raises(DatabaseError, match="the column size has a str, expected double"):
        source.read()


@pytest.mark.parametrize(
    ("more", "setting"),
    [
        ({"table_whitelist": "t"}, "mode"),
        ({"mode": "bulkk", "table_whitelist": "t"}, "mode"),
        ({"mode": "incrementing", "table_whitelist": "t"}, "incrementing.column.name"),
        ({"mode": "timestamp", "table_whitelist": "t"}, "timestamp.column.name"),
        ({"mode": "incrementing", "incrementing_column_name": "id"}, "table.whitelist"),
        ({"mode": "incrementing", "incrementing_column_name": "id", "table_whitelist": "a,b"}, "table.whitelist"),
    ],
)
def test_settings_that_cannot_work(tables: Tables, more: dict[str, str], setting: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Source(tables, **more)
    assert set(raised.value.errors) == {setting}


def test_what_is_missing(tables: Tables, tmp_path: Path) -> None:
    tables.ask("create table present (id int)")
    with pytest.raises(DatabaseError, match="nowhere"):
        by_number(tables, "nowhere")
    with pytest.raises(DatabaseError, match="There is no column nr, only id"):
        Source(tables, mode="incrementing", incrementing_column_name="nr", table_whitelist="present")
    with pytest.raises(RetriableError, match="unable to open"):
        by_number(Tables.of_sqlite(tmp_path / "no folder" / "x.db"), "present")


@pytest.mark.slow
def test_a_task_reads_each_row_once(tables: Tables) -> None:
    tables.ask("create table source (id bigint, name text)")
    with connect_cluster() as cluster:
        topic = cluster.topic("rows")
        config = tables.settings | {"name": "rows", "topic": topic, "batch.max.rows": "2", "mode": "incrementing"}
        config |= {"incrementing.column.name": "id", "table.whitelist": "source", "poll.interval.ms": "20"}
        config |= {"value.converter": "json", "value.converter.schemas.enable": "false"}
        tables.ask("insert into source values (1, 'a'), (2, 'b'), (3, 'c')")
        with ConnectorTask(cluster, config) as task:
            cluster.wait_for(lambda: len(list(cluster.records(topic))) == 3)
            task.kill()
        tables.ask("insert into source values (4, 'd')")
        with ConnectorTask(cluster, config) as task:
            task.wait_until_idle()
            assert task.progress["offset"] == {"incrementing": 4}
        values = [json.loads(record.value or b"") for record in cluster.records(topic)]
    assert values == [{"id": number, "name": name} for number, name in enumerate("abcd", 1)]
