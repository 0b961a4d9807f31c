"""A stream that is joined with tables from other places, which each batch reads again."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.formats.text import JsonFormat
from moldau.products.pipelines.sources.topic import TopicSource


@pytest.mark.parametrize("read_as", [{}, {"stops": True}, {"as_table": True}])
def test_spark_parses_each_record_once_whatever_filters_there_are(spark, read_as):
    decoder = JsonFormat(schema="user string, amount double")
    source = TopicSource(access=ClusterAccess("nowhere:1"), topic="t", format="json", decoder=decoder, **read_as)
    records = spark.createDataFrame([], source.GIVEN_COLUMNS)
    rows = source.rows(records, "parsed").where("amount > 1 and user <> 'ann'").selectExpr("amount * 2", "user")
    assert rows._jdf.queryExecution().optimizedPlan().toString().count("from_json") == 1


@pytest.mark.slow
def test_each_batch_joins_what_the_tables_hold_then(run_spec, new_topic, produce, read_back, postgresql, tmp_path):
    orders, target = new_topic(), new_topic()
    spec = f"""
sources:
  orders: {{topic: {orders}, format: json, schema: "item int, user int"}}
  items: {{delta: items, as: table}}
  users: {{sqlite: users.db, table: users, as: table}}
  prices: {{postgresql: "{postgresql.url}", table: current_prices, as: table}}
flows:
  named: |
    select items.name as item, users.name as user, price from orders
    join items on item = items.id join users on user = users.id join prices on item = prices.id
targets:
  out: {{from: named, topic: {target}}}
"""
    write_deltalake(tmp_path / "items", pa.table({"id": pa.array([1], pa.int32()), "name": ["tea"]}))
    with psycopg.connect(postgresql.url) as connection:
        connection.execute("create table prices as select 1 as id, 1.5::numeric(5, 2) as price")
        connection.execute("create view current_prices as select * from prices")
    with closing(sqlite3.connect(tmp_path / "users.db")) as users:
        users.execute("create table users (id integer, name text)")
        users.execute("insert into users values (7, 'ann')")
        users.commit()
        produce(orders, [(None, b'{"item": 1, "user": 7}'), (None, b'{"item": 2, "user": 7}')])
        run_spec(spec)
        write_deltalake(
            tmp_path / "items", pa.table({"id": pa.array([2], pa.int32()), "name": ["milk"]}), mode="append"
        )
        with psycopg.connect(postgresql.url) as connection:
            connection.execute("insert into prices values (2, 2.25)")
        users.execute("update users set name = 'bob'")
        users.commit()
        produce(orders, [(None, b'{"item": 2, "user": 7}')])
        run_spec(spec)
    assert sorted(value for _, value in read_back(target)) == [
        b'{"item":"milk","user":"bob","price":2.25}',
        b'{"item":"tea","user":"ann","price":1.50}',
    ]


@pytest.mark.slow
def test_the_last_record_of_a_key_counts_whatever_time_it_has(run_spec, new_topic, produce, read_back):
    """As for compaction. If partitions were added, a key has records in two of them: then the later one counts."""
    orders, users, target = new_topic(), new_topic(partitions=2), new_topic()
    produce(users, [(b"7", b'{"name": "ann"}'), (b"8", b'{"name": "eve"}')], timestamp=2_000)
    produce(users, [(b"7", b'{"name": "bob"}'), (b"8", None)], timestamp=1_000)
    produce(users, [(b"9", b'{"name": "new"}')], timestamp=3_000, partition=1)
    produce(users, [(b"9", b'{"name": "old"}')], timestamp=2_000, partition=0)
    produce(orders, [(None, b'{"user": 7}'), (None, b'{"user": 8}'), (None, b'{"user": 9}')])
    run_spec(
        f"""
sources:
  orders: {{topic: {orders}, format: json, schema: user int}}
  users: {{topic: {users}, format: json, schema: name string, as: table}}
flows:
  named: select user, name from orders left join users on cast(user as string) = users._key
targets:
  out: {{from: named, topic: {target}}}
"""
    )
    values = [value for _, value in read_back(target)]
    assert sorted(values) == [b'{"user":7,"name":"bob"}', b'{"user":8}', b'{"user":9,"name":"new"}']
