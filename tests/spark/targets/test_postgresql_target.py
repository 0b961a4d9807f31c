"""A pipeline into PostgreSQL: each batch is one transaction that also records the batch, in spite of repeated runs."""

from __future__ import annotations

import threading
from secrets import token_hex

import msgspec
import psycopg
import pytest

from moldau.errors import MoldauError
from moldau.products.pipelines.targets.postgresql import ATTEMPT, PostgresqlTarget


@pytest.fixture
def table() -> str:
    return f"shop {token_hex(4)}"


@pytest.fixture
def rows(postgresql, table):
    """`rows("a, b")`: those columns of the table, in order."""

    def read(columns: str = "*") -> list[tuple]:
        with psycopg.connect(postgresql.url) as connection:
            return connection.execute(f'select {columns} from "{table}" order by 1').fetchall()

    return read


@pytest.fixture
def writer(postgresql, table, target_query):
    """`writer(mode=..., key=...)` is that of a driver that starts now, with a separate checkpoint for each table."""

    query = msgspec.structs.replace(target_query, checkpoint_id=token_hex(4))

    def begin(*, mode: str = "append", key: tuple[str, ...] = (), **more: object):
        target = PostgresqlTarget(mode=mode, key=key, server=postgresql.url, table=(table,), **more)
        return target.writer(query)

    return begin


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_table_that_somebody_has_locked_does_not_hold_up_the_look_at_it(spark, postgresql, table, caplog):
    target = PostgresqlTarget(mode="append", server=postgresql.url, table=(table,))
    with psycopg.connect(postgresql.url) as holder:
        holder.execute(f'create table "{table}" (id bigint)')
        holder.commit()
        holder.execute(f'lock table "{table}" in access exclusive mode')
        target.rows_of(spark.sql("select 'of another type' as id"))
        assert "is locked: whether it takes the rows shows at the first batch" in caplog.text
    with pytest.raises(MoldauError, match=r"cannot take it: column .* of relation .* does not exist"):
        target.rows_of(spark.sql("select 1 as other"))


def test_a_pipeline_makes_a_table_with_every_type(run_spec, new_topic, produce, postgresql, table, rows):
    source = new_topic(2)
    produce(source, [(None, b'{"user":"ann, \\"a\\"","at":"2026-01-01T00:00:00Z"}'), (None, b'{"user":""}')])
    produce(source, [(None, b"{}")], partition=1)
    spec = f"""
source: {{topic: {source}, format: json, schema: "user string, at timestamp"}}
sql: |
  select _partition * 10 + _offset as `n 50%`, user, at, at is null as b, cast(1.5 as decimal(5, 2)) as d,
    cast('\\\\x41' as binary) as bytes, named_struct('n', array(1)) as nested, date'2026-01-02' as day,
    double('NaN') as nan, cast(at as timestamp_ntz) as local
  from source
sink: {{postgresql: "{postgresql.url}", table: {table}}}
"""
    assert [state.state for state in run_spec(spec)] == ["finished"]
    first, second, third = rows('"n 50%", "user", at, b, d, bytes, nested, day, nan::text, local')
    assert first[:2] == (0, 'ann, "a"')
    assert first[2].isoformat().startswith("2026-01-01T0")
    assert (first[3], str(first[4]), first[6], first[7].isoformat(), first[8]) == (
        False, "1.50", {"n": [1]}, "2026-01-02", "NaN",
    )  # fmt: skip
    assert bytes(first[5]).endswith(b"41")
    assert second[:4] == (1, "", None, True)
    assert third[:4] == (10, None, None, True)


def test_a_batch_that_runs_again_is_not_written_again(spark, writer, rows):
    writer()(spark.range(0, 1_000, 1, 3), 0)
    writer()(spark.range(0, 1_000, 1, 2), 0)
    writer()(spark.range(0), 1)
    writer()(spark.range(1_000, 1_500, 1, 1), 2)
    assert rows() == [(number,) for number in range(1_500)]


def test_what_an_attempt_that_was_lost_has_copied_is_not_taken(spark, writer, rows, postgresql):
    url = postgresql.url

    def behind_a_lost_attempt(batches):
        """The rows after another attempt has copied all of them: Spark never gets its result."""
        with psycopg.connect(url) as server:
            (staging,) = server.execute(
                "select tablename from pg_tables where tablename like 'moldau_staging_%'"
            ).fetchone()
            server.execute(f"insert into {staging} (id, {ATTEMPT}) select generate_series(0, 99), 'lost'")
        yield from batches

    writer()(spark.range(0, 100, 1, 1).mapInArrow(behind_a_lost_attempt, "id long"), 0)
    assert rows() == [(number,) for number in range(100)]


def test_an_upsert_keeps_the_newest_row_and_runs_once(spark, writer, rows):
    update = writer(mode="update", key=("id", "kind"))
    update(spark.sql("select 1 as id, 'a' as kind, 'old' as name union all select 2, 'a', 'other'"), 0)
    update(spark.sql("select 1 as id, 'a' as kind, 'new' as name"), 1)
    writer(mode="update", key=("id", "kind"))(spark.sql("select 1 as id, 'a' as kind, 'old' as name"), 0)
    assert rows() == [(1, "a", "new"), (2, "a", "other")]


def test_a_table_that_cannot_take_the_rows_is_refused_before_the_start(spark, postgresql, table):
    with psycopg.connect(postgresql.url) as connection:
        connection.execute(f'create table "{table}" (id bigint, name text)')
    target = PostgresqlTarget(mode="append", server=postgresql.url, table=(table,))
    with pytest.raises(MoldauError, match=r'cannot take it: column "other" of relation .* does not exist'):
        target.rows_of(spark.sql("select 1 as id, 'x' as other"))
    target.rows_of(spark.sql("select 1 as id"))
    upsert = PostgresqlTarget(mode="update", key=("id",), server=postgresql.url, table=(table,))
    with pytest.raises(MoldauError, match="no unique or exclusion constraint matching"):
        upsert.rows_of(spark.sql("select 1 as id"))
    with pytest.raises(MoldauError, match=r"type interval .*, which PostgreSQL lacks"):
        target.rows_of(spark.sql("select interval '1' day as id"))


def test_a_server_that_is_not_there_is_said_in_a_sentence(postgresql):
    away = PostgresqlTarget(mode="append", server="postgresql://ann@127.0.0.1:1/shop", table=("t",))
    with pytest.raises(MoldauError, match=r"^PostgreSQL cannot be reached: .*refused"):
        away.check()
    with pytest.raises(MoldauError, match=r"^`postgresql` is no connection string"):
        PostgresqlTarget(mode="append", server="nonsense", table=("t",)).check()
    stranger = postgresql.url.replace("postgres@", "nobody@")
    with pytest.raises(MoldauError, match=r'^PostgreSQL cannot be reached: .*role "nobody" does not exist'):
        PostgresqlTarget(mode="append", server=stranger, table=("t",)).check()


def test_a_batch_waits_for_a_server_that_is_away_for_a_while(spark, writer, rows, postgresql):
    write = writer()
    postgresql.stop()
    thread = threading.Timer(1.0, postgresql.start)
    thread.start()
    try:
        write(spark.range(10), 0)
    finally:
        thread.join(60)
    assert rows() == [(number,) for number in range(10)]


ENDS_ITS_CONNECTION_ONCE = """
create sequence looks;
create function is_fine(bigint) returns boolean language plpgsql as $$
begin
  if nextval('looks') = 1 then  -- a sequence counts on, whatever is rolled back
    perform pg_terminate_backend(pg_backend_pid());
    perform pg_sleep(60);
  end if;
  return true;
end $$;
create domain fine as bigint check (is_fine(value));
"""


def test_a_batch_whose_server_goes_in_the_middle_of_a_copy_is_written_anew(spark, writer, rows, postgresql, table):
    """A server that restarts closes each connection with an administrator's error, for which psycopg has a class."""
    with psycopg.connect(postgresql.url) as connection:
        connection.execute(ENDS_ITS_CONNECTION_ONCE)
        connection.execute(f'create table "{table}" (id fine)')
    writer()(spark.range(10), 0)
    assert rows() == [(number,) for number in range(10)]


def test_a_checkpoint_that_was_put_back_is_refused(spark, writer, target_query):
    writer()(spark.range(1), 3)
    (target_query.checkpoint / "offsets" / "9").rename(target_query.checkpoint / "offsets" / "2")
    with pytest.raises(MoldauError, match=r"holds batch 3 of the checkpoint .*, which has only come to batch 2"):
        writer()
