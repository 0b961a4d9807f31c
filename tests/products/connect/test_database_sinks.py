"""The sinks of PostgreSQL and SQLite: rows by key, new tables and columns, and each batch once."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource
from pyspark.sql.types import Row, StructType, VariantType

from moldau.connect.configuration import ConfigError
from moldau.connect.contract.columns import sink_schema
from moldau.connect.contract.ddl import parse_ddl
from moldau.connect.handling.stages import RetriableError, RowsRejectedError
from moldau.connect.running.contexts import set_context
from moldau.connectors.databases.dialect import DatabaseError
from moldau.connectors.postgresql import Postgresql, PostgresqlDatabase
from moldau.connectors.sqlite import Sqlite, SqliteDatabase
from moldau.testing import Cluster
from moldau.testing.connect import ConnectorError, ConnectorTask
from tests.support.connect_cluster import connect_cluster
from tests.support.database_tables import Tables
from tests.support.postgresql import PostgresqlServer

SETTINGS = {"auto.create": "true", "pk.mode": "record_key", "insert.mode": "upsert"}
JSON = {"key.converter": "json", "value.converter": "json"}
KEY = parse_ddl("id INT NOT NULL")
VALUE = parse_ddl("id INT NOT NULL, name STRING")
RECORDS = 3_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with connect_cluster() as started:
        yield started


def message(fields: dict[str, tuple[str, object]], optional: Sequence[str] = ()) -> str:
    """JSON with its schema."""
    schema = [{"field": name, "type": kind, "optional": name in optional} for name, (kind, _) in fields.items()]
    payload = {name: value for name, (_, value) in fields.items()}
    return json.dumps({"schema": {"type": "struct", "fields": schema}, "payload": payload})


def key(number: int) -> str:
    return message({"id": ("int32", number)})


def order(number: int, name: str | None, **more: tuple[str, object]) -> str:
    return message({"id": ("int32", number), "name": ("string", name), **more}, ("name", *more))


def run(cluster: Cluster, tables: Tables, topic: str, **more: str) -> None:
    config = SETTINGS | JSON | tables.settings | {"name": topic, "topics": topic} | more
    with ConnectorTask(cluster, config) as task:
        task.wait_until_idle()


def new_sink(config: dict[str, str]) -> DataSource:
    found = Postgresql if "postgresql" in config["connector.class"] else Sqlite
    return found(CaseInsensitiveDict(config))


class RejectedError(Exception):
    """A row that a writer rejects."""


class Sink:
    """A writer in this process, as a task calls it. Rows are (key, value) at the offsets 0, 1, ..."""

    def __init__(self, tables: Tables, topic: str, key: Any = KEY, value: Any = VALUE, **more: str) -> None:
        config = SETTINGS | tables.settings | more
        self._topic = topic
        self._writer: Any = new_sink(config).streamWriter(sink_schema(key, value), False)

    def write(self, *records: tuple[Any, Any], batch: int = 0, writer: str = "") -> None:
        set_context(writer or self._topic, batch, 0)
        shape = Row("key", "value", "topic", "partition", "offset", "timestamp", "headers")
        rows = (
            shape(key, value, self._topic, 0, offset, dt.datetime(2026, 1, 1), [])
            for offset, (key, value) in enumerate(records)
        )
        written = self._writer.write(rows)
        for place, reason in written.rejected:
            raise RejectedError(f"row {place}: {reason}")
        self._writer.commit([written], batch)


def row(number: int, name: str | None = None) -> Row:
    return Row("id", "name")(number, name)


def by(number: int) -> Row:
    return Row("id")(number)


def test_a_task_upserts_deletes_and_adds_columns(cluster: Cluster, tables: Tables) -> None:
    topic, more = cluster.topic("orders"), {"delete.enabled": "true", "auto.evolve": "true"}
    for number, name in ((1, "a"), (2, "b"), (1, "c"), (3, None)):
        cluster.produce(topic, order(number, name), key=key(number))
    cluster.produce(topic, None, key=key(2))
    cluster.produce(topic, order(3, "d", price=("double", 1.5), tags=("string", "x'); drop table x; --")), key=key(3))
    run(cluster, tables, topic, **more)
    rows = tables.ask(f'select id, name, price, tags from "{topic}" order by id')
    assert rows == [(1, "c", None, None), (3, "d", 1.5, "x'); drop table x; --")]


def test_a_rejected_record_becomes_a_dead_letter(cluster: Cluster, tables: Tables) -> None:
    topic, dead = cluster.topic("sick"), cluster.topic("dead")
    cluster.produce(topic, order(1, "a"), key=key(1))
    cluster.produce(topic, None, key=key(1))
    cluster.produce(topic, order(2, "b"), key=key(2))
    more = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": dead}
    run(cluster, tables, topic, **more, **{"errors.deadletterqueue.context.headers.enable": "true"})
    assert tables.ask(f'select id, name from "{topic}" order by id') == [(1, "a"), (2, "b")]
    ((letter,),) = [list(cluster.records(dead))]
    reason = dict(letter.headers)["__connect.errors.exception.message"]
    assert (letter.value, b"offset 1 has no value" in (reason or b"")) == (None, True)


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_rows_that_the_database_rejects(cluster: Cluster, tables: Tables, tolerance: str) -> None:
    """They become dead letters and the rest is written once, or the task fails and names the first one."""
    topic, dead = cluster.topic("checked"), cluster.topic("dead")
    tables.ask(f'create table "{topic}" (id int primary key, name varchar(9) check (length(name) < 5))')
    for number in range(40):
        name = "too long for it" if number in (7, 8, 31) else f"n{number}"
        cluster.produce(topic, order(number, name), key=key(number))
    cluster.produce(topic, order(3, "n3"), key=key(3))
    more = {"insert.mode": "insert", "auto.create": "false", "errors.tolerance": tolerance}
    more |= {"errors.deadletterqueue.topic.name": dead, "errors.deadletterqueue.context.headers.enable": "true"}
    if tolerance == "none":
        with pytest.raises(ConnectorError, match=rf"The record {topic}-0 at offset 7 was rejected: "):
            run(cluster, tables, topic, **more)
        assert tables.ask(f'select count(*) from "{topic}"') == [(0,)]
        return
    run(cluster, tables, topic, **more)
    assert [n for (n,) in tables.ask(f'select id from "{topic}" order by id')] == [
        number for number in range(40) if number not in (7, 8, 31)
    ]
    letters = [dict(one.headers) for one in cluster.records(dead)]
    assert [one["__connect.errors.offset"] for one in letters] == [b"7", b"8", b"31", b"40"]
    assert b"at offset 31 was rejected: " in (letters[2]["__connect.errors.exception.message"] or b"")


def test_spark_fails_at_a_rejected_row(tables: Tables) -> None:
    """Spark pickles the writer, and commits in another process than it writes."""
    config = SETTINGS | tables.settings | {"pk.mode": "record_value", "pk.fields": "id", "table.name.format": "sick"}
    writer: Any = new_sink(config).streamWriter(parse_ddl("id INT, name STRING"), False)
    set_context("a query", 0, 0)
    written = writer.write(iter([row(1, "a"), Row("id", "name")(None, "b")]))
    program = "import pickle, sys; writer, messages = pickle.load(sys.stdin.buffer); writer.commit(messages, 0)"
    given = cloudpickle.dumps((writer, [written]))
    done = subprocess.run([sys.executable, "-c", program], input=given, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert b"DatabaseError: The value has no id" in done.stderr


@pytest.mark.slow
def test_a_killed_task_writes_each_record_once(cluster: Cluster, tables: Tables) -> None:
    topic = cluster.topic("kills")
    cluster.produce(topic, *(order(number, "x") for number in range(RECORDS)))
    config = SETTINGS | JSON | tables.settings | {"name": topic, "topics": topic, "batch.max.rows": "50"}
    config |= {"pk.mode": "none", "insert.mode": "insert"}
    for rows in (300, 1_200):
        with ConnectorTask(cluster, config) as task:
            cluster.wait_for(lambda rows=rows: count(tables, topic) >= rows)
            task.kill()
    assert count(tables, topic) < RECORDS
    with ConnectorTask(cluster, config) as task:
        task.wait_until_idle()
    assert tables.ask(f'select count(*), count(distinct id) from "{topic}"') == [(RECORDS, RECORDS)]


def count(tables: Tables, table: str) -> int:
    try:
        return int(tables.ask(f'select count(*) from "{table}"')[0][0])
    except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
        return 0


def test_a_batch_that_comes_again_changes_nothing(tables: Tables) -> None:
    sink = Sink(tables, "again", **{"pk.mode": "none", "insert.mode": "insert"})
    sink.write((by(1), row(1)), batch=0)
    sink.write((by(1), row(1)), batch=0)
    sink.write((by(2), row(2)), batch=1)
    sink.write((by(1), row(1)), batch=0)
    assert tables.ask('select id from "again" order by id') == [(1,), (2,)]
    sink.write((by(3), row(3)), batch=0, writer="another one")
    assert tables.ask('select id from "again" order by id') == [(1,), (2,), (3,)]


def test_a_batch_is_written_whole_or_not_at_all(tables: Tables) -> None:
    tables.ask('create table "whole" (id integer primary key, name text not null)')
    sink = Sink(tables, "whole")
    with pytest.raises(RowsRejectedError, match="1 rows were rejected"):
        sink.write((by(1), row(1, "a")), (by(2), row(2, None)))
    assert tables.ask('select * from "whole"') == []
    sink.write((by(1), row(1, "a")), (by(2), row(2, "b")))
    assert tables.ask('select id, name from "whole" order by id') == [(1, "a"), (2, "b")]


def test_a_column_is_dropped_between_two_batches(tables: Tables) -> None:
    tables.ask('create table "cut" (id integer, name text, other text)')
    sink = Sink(tables, "cut", **{"pk.mode": "none", "insert.mode": "insert", "auto.create": "false"})
    sink.write((by(1), row(1, "a")))
    tables.ask('alter table "cut" drop column name')
    with pytest.raises(DatabaseError, match="lacks name, and"):
        sink.write((by(2), row(2, "b")), batch=1)
    tables.ask('alter table "cut" add column name text')
    sink.write((by(2), row(2, "b")), batch=1)
    assert tables.ask('select id, name from "cut" order by id') == [(1, None), (2, "b")]
    # SQLite would compare the text 'id' with the key, and delete nothing
    tables.ask('alter table "cut" rename column id to number')
    deleting = Sink(tables, "cut", **{"delete.enabled": "true"})
    with pytest.raises(DatabaseError, match="id"):
        deleting.write((by(1), None), batch=2)


def test_a_full_disk_may_pass(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "full.db"))

    def fill() -> None:
        with database.transaction() as session:
            session.execute("PRAGMA max_page_count = 2")
            session.execute("CREATE TABLE one (a)")
            session.execute("CREATE TABLE two (a)")

    with pytest.raises(RetriableError, match="database or disk is full"):
        fill()


def test_deletes_and_new_rows_keep_their_order(tables: Tables) -> None:
    sink = Sink(tables, "order", **{"delete.enabled": "true"})
    sink.write((by(1), row(1, "a")), (by(1), None), (by(2), row(2, "b")), (by(2), None), (by(2), row(2, "c")))
    assert tables.ask('select id, name from "order"') == [(2, "c")]


def test_updates_change_rows_that_exist(tables: Tables) -> None:
    tables.ask('create table "updates" (name text, id integer primary key)')
    tables.ask("insert into \"updates\" values ('old', 1)")
    more = {"insert.mode": "update", "pk.mode": "record_value", "pk.fields": "id", "auto.create": "false"}
    Sink(tables, "updates", **more).write((None, row(1, "new")), (None, row(2, "nobody")))
    assert tables.ask('select id, name from "updates"') == [(1, "new")]


def test_the_place_of_a_record_can_be_its_key(tables: Tables) -> None:
    more = {"pk.mode": "kafka", "table.name.format": "from_${topic}", "fields.whitelist": "name"}
    Sink(tables, "a.b", **more).write((None, row(1, "a")), (None, row(1, "b")))
    assert tables.ask('select * from "from_a.b" order by 3') == [("a.b", 0, 0, "a"), ("a.b", 0, 1, "b")]


def test_a_key_that_is_no_struct_has_a_name(tables: Tables) -> None:
    key_kind = parse_ddl("k STRING")["k"].dataType
    sink = Sink(tables, "texts", key_kind, parse_ddl("name STRING"), **{"pk.fields": "code"})
    sink.write(("x", Row("name")("a")), ("x", Row("name")("b")))
    assert tables.ask('select code, name from "texts"') == [("x", "b")]
    with pytest.raises(DatabaseError, match=r"pk\.fields must have the name of one column"):
        Sink(tables, "texts", key_kind)


def test_values_without_a_schema_fit_a_table_that_exists(tables: Tables) -> None:
    tables.ask('create table "plain" (id integer primary key, name text, size double precision)')
    sink = Sink(tables, "plain", KEY, VariantType(), **{"pk.mode": "record_value", "pk.fields": "id"})
    sink.write((None, {"id": 1, "name": "a"}), (None, {"id": 2, "size": 2.5}), (None, {"name": "c", "id": 1}))
    assert tables.ask('select id, name, size from "plain" order by id') == [(1, "c", None), (2, None, 2.5)]
    with pytest.raises(DatabaseError, match="has no type: the records have no schema"):
        Sink(tables, "no table", KEY, VariantType(), **{"pk.fields": "id"}).write((by(1), {"id": 1, "x": 2}))
    with pytest.raises(RejectedError, match="The value has no id"):
        sink.write((None, {"name": "a"}), batch=1)


def test_types_and_nested_values(tables: Tables) -> None:
    ddl = "flag BOOLEAN, big BIGINT, raw BINARY, list ARRAY<INT>, day DATE, at TIMESTAMP_NTZ, price DECIMAL(9, 2)"
    moment = dt.datetime(2026, 3, 9, 14, 5, 6, 78_000)
    values = (True, 1 << 40, b"\x00\xff", [1, 2], dt.date(2026, 3, 9), moment, Decimal("12.30"))
    value = Row("flag", "big", "raw", "list", "day", "at", "price")(*values)
    Sink(tables, "types", KEY, parse_ddl(ddl)).write((by(1), value))
    ((flag, big, raw, listed, day, at, price),) = tables.ask('select flag, big, raw, list, day, at, price from "types"')
    assert (bool(flag), big, bytes(raw)) == (True, 1 << 40, b"\x00\xff")
    assert (listed if isinstance(listed, list) else json.loads(listed)) == [1, 2]
    assert (str(day), str(price)) == ("2026-03-09", "12.30")
    assert at in ("2026-03-09T14:05:06.078Z", moment.replace(tzinfo=dt.UTC))


def test_rows_of_spark_without_records(tables: Tables) -> None:
    config = tables.settings | {"auto.create": "true", "pk.mode": "record_value", "pk.fields": "id"}
    config |= {"insert.mode": "upsert", "table.name.format": "sparks"}
    writer = new_sink(config).streamWriter(VALUE, False)
    set_context("a query", 0, 0)
    writer.commit([writer.write(iter([row(1, "a"), row(1, "b")])), writer.write(iter([])), None], 0)
    assert tables.ask('select id, name from "sparks"') == [(1, "b")]
    with pytest.raises(DatabaseError, match="have no key and no topic"):
        new_sink(config | {"pk.mode": "kafka", "pk.fields": ""}).streamWriter(VALUE, False)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"pk.mode": "none"}, "needs a primary key: set pk.mode"),
        ({"pk.mode": "record_value", "delete.enabled": "true"}, r"delete\.enabled needs pk\.mode=record_key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "needs three names"),
        ({"insert.mode": "upsrt"}, "String must be one of: insert, upsert, update"),
        ({"connection.url": ""}, "non-empty|Expected postgresql"),
    ],
)
def test_settings_that_cannot_work(tables: Tables, more: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Sink(tables, "wrong", **more)


def test_records_that_do_not_fit(tables: Tables) -> None:
    with pytest.raises(DatabaseError, match=r'"none" does not exist, and auto\.create is false'):
        Sink(tables, "none", **{"auto.create": "false"}).write((by(1), row(1)))
    with pytest.raises(DatabaseError, match=r"pk\.fields names nope, and the schema has id"):
        Sink(tables, "none", **{"pk.fields": "nope"})
    sink = Sink(tables, "fits")
    sink.write((by(1), row(1)))
    with pytest.raises(RejectedError, match=r"row 1: The record fits-0 at offset 1 has no value"):
        sink.write((by(1), row(1)), (by(1), None), batch=1)
    with pytest.raises(RejectedError, match="fits-0 at offset 0 has no id, which is in the primary key"):
        sink.write((None, row(1)), batch=1)
    wider = Sink(tables, "fits", KEY, parse_ddl("id INT, price DOUBLE"))
    with pytest.raises(DatabaseError, match=r"lacks price, and auto\.evolve is false"):
        wider.write((by(1), Row("id", "price")(1, 1.0)), batch=1)
    if "Postgresql" in tables.settings["connector.class"]:
        with pytest.raises(RejectedError, match="cannot store a text with a NUL"):
            sink.write((by(1), row(1, "a\0b")), batch=1)
    odd = StructType.fromJson(VALUE.jsonValue()).add("a\0b", "string")
    with pytest.raises(RejectedError, match="cannot be the name of a table or a column"):
        Sink(tables, "fits", KEY, odd).write((by(1), Row("id", "name", "a\0b")(1, "a", "b")), batch=1)
    assert tables.ask('select * from "fits"') == [(1, None)]


def test_names_are_quoted(tables: Tables) -> None:
    odd = 'na"me; drop table x'
    kind = StructType().add("id", "integer", False).add(odd, "string")
    Sink(tables, 'ta"ble', KEY, kind).write((by(1), Row("id", odd)(1, "a")))
    assert tables.ask('select * from "ta""ble"') == [(1, "a")]


def test_a_transaction_in_postgresql_does_not_stand_still(postgresql: PostgresqlServer) -> None:
    settings = Tables.of_postgresql(postgresql.url).settings
    with Postgresql(CaseInsensitiveDict(settings)).database().transaction() as session:
        assert session.execute("SHOW idle_in_transaction_session_timeout") == [("1min",)]


def test_a_transaction_in_postgresql_has_an_end(postgresql: PostgresqlServer) -> None:
    database = PostgresqlDatabase(postgresql.url, None, None, 1.0)
    with pytest.raises(RetriableError, match=r"has taken 1 s \(transaction\.timeout\.ms\)"):
        database.read("select pg_sleep(60)", ())
    assert database.read("select 1", ()) == [(1,)]


@pytest.mark.slow
def test_a_server_that_stands_still(cluster: Cluster, postgresql: PostgresqlServer) -> None:
    """A source waits in a statement, and fails after the timeout; later it goes on where it was."""
    tables, topic = Tables.of_postgresql(postgresql.url), cluster.topic("still")
    tables.ask("create table still (id int)")
    tables.ask("insert into still values (1)")
    config = tables.settings | {"name": topic, "topic": topic, "mode": "incrementing", "table.whitelist": "still"}
    config |= {"incrementing.column.name": "id", "transaction.timeout.ms": "1000", "poll.interval.ms": "10"}
    separator = "&" if "?" in postgresql.url else "?"
    config |= {"connection.url": f"{postgresql.url}{separator}connect_timeout=2"}
    config |= {"value.converter": "json", "value.converter.schemas.enable": "false"}
    with ConnectorTask(cluster, config) as task:
        task.wait_until_idle()
        with postgresql.standing_still():
            trace = task.wait_for_failure()
    assert "a transaction has taken 1 s" in trace or "connection timeout expired" in trace
    tables.ask("insert into still values (2)")
    with ConnectorTask(cluster, config) as task:
        task.wait_until_idle()
    assert [record.value for record in cluster.records(topic)] == [b'{"id":1}', b'{"id":2}']


def test_a_password_stays_out_of_the_address() -> None:
    config = {"connection.url": "postgresql://u:geheim@h/d"}
    with pytest.raises(ConfigError, match=r"The password belongs in connection\.password") as raised:
        Postgresql(CaseInsensitiveDict(config)).streamWriter(VALUE, False)
    assert "geheim" not in str(raised.value)
