"""A stream that is joined with tables of other places, which are read anew by each batch."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from moldau.products.pipelines.formats.text import JsonFormat
from moldau.products.pipelines.sources.topic import TopicSource


@pytest.mark.parametrize("read_as", [{}, {"stops": True}, {"as_table": True}])
def test_spark_parses_each_record_once_whatever_filters_there_are(spark, read_as):
    decoder = JsonFormat(schema="user string, amount double")
    source = TopicSource(bootstrap_servers="nowhere:1", topic="t", format="json", decoder=decoder, **read_as)
    records = spark.createDataFrame([], source.GIVEN_COLUMNS)
    rows = source.rows(records, "parsed").where("amount > 1 and user <> 'ann'").selectExpr("amount * 2", "user")
    assert rows._jdf.queryExecution().optimizedPlan().toString().count("from_json") == 1


def test_each_batch_joins_what_the_tables_hold_then(run_page, new_topic, produce, read_back, postgresql, tmp_path):
    orders, target = new_topic(), new_topic()
    page = f"""
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
        run_page(page)
        write_deltalake(
            tmp_path / "items", pa.table({"id": pa.array([2], pa.int32()), "name": ["milk"]}), mode="append"
        )
        with psycopg.connect(postgresql.url) as connection:
            connection.execute("insert into prices values (2, 2.25)")
        users.execute("update users set name = 'bob'")
        users.commit()
        produce(orders, [(None, b'{"item": 2, "user": 7}')])
        run_page(page)
    assert sorted(value for _, value in read_back(target)) == [
        b'{"item":"milk","user":"bob","price":2.25}',
        b'{"item":"tea","user":"ann","price":1.50}',
    ]
