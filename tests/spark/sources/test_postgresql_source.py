"""A pipeline that reads a PostgreSQL table: every row once, even one that commits late."""

from __future__ import annotations

import threading
from secrets import token_hex
from urllib.parse import quote

import psycopg
import pytest

from moldau.errors import MoldauError
from moldau.products.pipelines.sources.by_key import ROWS_AT_A_TIME
from moldau.products.pipelines.sources.postgresql import PostgresqlSource
from tests.spark.feeds import Reader

MANY = ROWS_AT_A_TIME + 1
"""Rows that the server sends in two pieces."""


def in_zone(url: str, zone: str) -> str:
    """The address, with the time zone of its connections."""
    return f"{url}{'&' if '?' in url else '?'}options=-c%20TimeZone%3D{quote(zone, safe='')}"


@pytest.fixture
def connection(postgresql):
    with psycopg.connect(postgresql.url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def table(connection) -> str:
    name = f"orders_{token_hex(4)}"
    connection.execute(f"create table {name} (id bigserial primary key, name text, at timestamptz default now())")
    return name


@pytest.fixture
def feed(postgresql, table):
    def make(by: str = "id", **more):
        return PostgresqlSource(server=postgresql.url, table=table, by=by, **more).feed()

    return make


@pytest.mark.slow
def test_a_row_that_commits_late_is_not_lost(feed, table, connection, postgresql):
    reader = Reader(feed())
    with psycopg.connect(postgresql.url) as late:
        late.execute(f"insert into {table} (name) values ('late')")
        connection.execute(f"insert into {table} (name) values ('early')")
        assert reader.batch() == []
    assert [(row["id"], row["name"]) for row in reader.batch()] == [(1, "late"), (2, "early")]
    assert reader.batch() == []
    connection.execute(f"insert into {table} (name) values ('next')")
    assert [row["name"] for row in reader.batch()] == ["next"]


def test_who_writes_later_or_elsewhere_holds_nothing_back(feed, table, connection, postgresql):
    reader = Reader(feed())
    connection.execute(f"insert into {table} (name) values ('a')")
    with psycopg.connect(postgresql.url) as other:
        other.execute(f"create table other_{table} (id int)")
        other.execute(f"select * from {table}")
        assert [row["name"] for row in reader.batch()] == ["a"]


def test_writers_of_partitions_are_waited_for(connection, postgresql):
    name = f"parts_{token_hex(4)}"
    connection.execute(f"create table {name} (id bigserial, name text) partition by list (name)")
    connection.execute(f"create table {name}_a partition of {name} for values in ('a')")
    reader = Reader(PostgresqlSource(server=postgresql.url, table=name, by="id").feed())
    with psycopg.connect(postgresql.url) as late:
        late.execute(f"insert into {name}_a (id, name) select nextval('{name}_id_seq'), 'a'")
        connection.execute(f"insert into {name} (name) values ('a')")
        assert reader.batch() == []
    assert [row["id"] for row in reader.batch()] == [1, 2]


def test_writers_of_tables_that_inherit_the_table_are_waited_for(table, feed, connection, postgresql):
    connection.execute(f"create table child_{table} () inherits ({table})")
    connection.execute(f"create table grandchild_{table} () inherits (child_{table})")
    reader = Reader(feed())
    with psycopg.connect(postgresql.url) as late:
        late.execute(f"insert into grandchild_{table} (name) values ('late')")
        connection.execute(f"insert into {table} (name) values ('early')")
        assert reader.batch() == []
    assert sorted(row["name"] for row in reader.batch()) == ["early", "late"]


def test_by_a_time_young_rows_wait(feed, table, connection):
    reader = Reader(feed("at", delay_ms=3_600_000))
    connection.execute(f"insert into {table} (name, at) values ('old', now() - interval '2 hours'), ('young', now())")
    assert [row["name"] for row in reader.batch()] == ["old"]
    assert reader.batch() == []
    connection.execute(f"insert into {table} (name, at) values ('in between', now() - interval '61 minutes')")
    assert [row["name"] for row in reader.batch()] == ["in between"]


def test_the_address_names_the_zone_that_tells_the_age_of_a_time_without_zone(connection, postgresql):
    """With any time zone of the server; the writers write UTC."""
    name = f"zoned_{token_hex(4)}"
    connection.execute(f"create table {name} (name text, at timestamp)")
    utc = "(now() at time zone 'UTC')"
    connection.execute(f"insert into {name} values ('old', {utc} - interval '2 hours'), ('young', {utc})")
    for zone, expected in (("UTC", ["old"]), ("Etc/GMT-12", ["old", "young"]), ("Etc/GMT+12", [])):
        reader = Reader(
            PostgresqlSource(server=in_zone(postgresql.url, zone), table=name, by="at", delay_ms=3_600_000).feed()
        )
        assert [row["name"] for row in reader.batch()] == expected


def test_a_large_table_is_read_in_batches_and_a_batch_that_runs_again_is_the_same(feed, table, connection):
    connection.execute(f"insert into {table} (name) select 'n' from generate_series(1, {2 * MANY})")
    connection.execute(f"delete from {table} where id = 2")
    reader = Reader(feed(max_records=MANY))
    first = reader.batch()
    assert [row["id"] for row in first] == [1, *range(3, MANY + 2)]
    connection.execute(f"insert into {table} (name) values ('later')")
    assert reader.between({"after": None}, reader.place) == first
    assert [[row["id"] for row in reader.batch()] for _ in range(3)] == [[*range(MANY + 2, 2 * MANY + 2)], [], []]


@pytest.mark.slow
def test_a_server_that_is_away_for_a_while_is_waited_for(feed, table, connection, postgresql):
    connection.execute(f"insert into {table} (name) values ('a')")
    connection.close()
    reader = Reader(feed())
    postgresql.stop()
    back = threading.Timer(1.0, postgresql.start)
    back.start()
    try:
        end = reader.feed.end(reader.place)
    finally:
        back.join(60)
    postgresql.stop()
    back = threading.Timer(1.0, postgresql.start)
    back.start()
    try:
        assert [row["name"] for row in reader.between(reader.place, end)] == ["a"]
    finally:
        back.join(60)


def test_every_type_has_its_column(connection, postgresql):
    name = f"types_{token_hex(4)}"
    connection.execute(
        f"create table {name} (id int, small smallint, real real, wide double precision, yes boolean, day date, "
        "raw bytea, at timestamptz, local timestamp, money numeric(12, 2), any_size numeric, doc jsonb, uid uuid, "
        "list int[])"
    )
    connection.execute(
        f"insert into {name} values (1, 2, 1.5, 2.5, true, '2026-01-02', '\\x41', '2026-01-02T00:00:00Z', "
        "'2026-01-02 01:00:00', 1.50, 123456789.123, '{\"a\": 1}', '00000000-0000-0000-0000-000000000001', '{1,2}')"
    )
    connection.execute(f"insert into {name} (id) values (2)")
    row, empty = Reader(PostgresqlSource(server=postgresql.url, table=name, by="id").feed()).batch()
    assert (row["at"].isoformat(), str(row["money"]), row["any_size"]) == (
        "2026-01-02T00:00:00+00:00", "1.50", "123456789.123",
    )  # fmt: skip
    assert (row["doc"], row["uid"][-1], row["list"], row["raw"]) == ('{"a": 1}', "1", "{1,2}", b"A")
    assert {value for key, value in empty.items() if key != "id"} == {None}


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Pacific/Midway"])
def test_infinity_is_the_last_or_the_first_day(connection, postgresql, zone):
    name = f"histories_{token_hex(4)}"
    connection.execute(f"create table {name} (id int, day date, at timestamptz, local timestamp)")
    connection.execute(
        f"insert into {name} values (1, 'infinity', 'infinity', 'infinity'), "
        "(2, '-infinity', '-infinity', '-infinity'), "
        "(3, '9999-12-31', '9999-12-31T23:59:59.999Z', '9999-12-31 23:59:59.999')"
    )
    rows = Reader(PostgresqlSource(server=in_zone(postgresql.url, zone), table=name, by="id").feed()).batch()
    (_, *last), (_, *first), (_, *given) = ([str(value) for value in row.values()] for row in rows)
    assert last == given == ["9999-12-31", "9999-12-31 23:59:59.999000+00:00", "9999-12-31 23:59:59.999000"]
    assert first == ["0001-01-01", "0001-01-01 00:00:00+00:00", "0001-01-01 00:00:00"]


@pytest.mark.parametrize(
    ("by", "refused"),
    [
        ("name", "must name a column of whole numbers or of times; 'name' of .* is text"),
        ("nothing", "'nothing' of .* has no such column"),
    ],
)
def test_a_column_without_an_order_is_refused(feed, by, refused):
    with pytest.raises(MoldauError, match=refused):
        feed(by)


def test_what_is_no_table_is_refused(connection, postgresql, table):
    connection.execute(f"create view view_{table} as select * from {table}")
    with pytest.raises(MoldauError, match="is not a table: PostgreSQL does not tell"):
        PostgresqlSource(server=postgresql.url, table=f"view_{table}", by="id").check()
    with pytest.raises(MoldauError, match="PostgreSQL has no table absent"):
        PostgresqlSource(server=postgresql.url, table="absent", by="id").check()
    with pytest.raises(MoldauError, match=r"^PostgreSQL cannot be reached"):
        PostgresqlSource(server="postgresql://ann@127.0.0.1:1/shop", table="t", by="id").check()


@pytest.mark.slow
def test_a_pipeline_goes_on_where_its_last_run_ended(run_spec, new_topic, read_back, connection, postgresql, table):
    target = new_topic()
    spec = f"""
source: {{postgresql: "{postgresql.url}", table: {table}, by: id, event_time: at, watermark: 1 minute}}
sql: select id, name from source
sink: {{topic: {target}}}
"""
    connection.execute(f"insert into {table} (name) values ('a'), ('b')")
    assert [state.state for state in run_spec(spec)] == ["finished"]
    connection.execute(f"insert into {table} (name) values ('c')")
    run_spec(spec)
    assert sorted(value for _, value in read_back(target)) == [
        b'{"id":1,"name":"a"}', b'{"id":2,"name":"b"}', b'{"id":3,"name":"c"}',
    ]  # fmt: skip
