"""Rows as JSON keep the microseconds of their times; times of whole milliseconds are as `to_json` writes them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from secrets import token_hex

import psycopg
import pytest

from moldau.products.pipelines.formats.json_text import json_of_column, json_of_row
from moldau.products.pipelines.running.flow import rows_of

FINE, ROUND = "2026-01-02T03:04:05.123456", "2026-01-02T03:04:05.123"


def written(spark, columns: str) -> str:
    rows = spark.sql(f"select {columns}")
    (row,) = rows.selectExpr(f"{json_of_row(rows)} as text").collect()
    return row["text"]


def at(text: str) -> str:
    """In SQL."""
    return f"timestamp'{text}Z'"


def local(text: str) -> str:
    return f"timestamp_ntz'{text}'"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "fine", "plain"),
    [
        ("{at}", '"{fine}Z"', '"{plain}Z"'),
        ("{local}", '"{fine}"', '"{plain}"'),
        ("named_struct('b`c', named_struct('d', {at}))", '{{"b`c":{{"d":"{fine}Z"}}}}', '{{"b`c":{{"d":"{plain}Z"}}}}'),
        ("array(null, {at})", '[null,"{fine}Z"]', '[null,"{plain}Z"]'),
        ("array(array(), array({local}))", '[[],["{fine}"]]', '[[],["{plain}"]]'),
        ("map('k', array(named_struct('d', {at})))", '{{"k":[{{"d":"{fine}Z"}}]}}', '{{"k":[{{"d":"{plain}Z"}}]}}'),
    ],
)
def test_a_time_keeps_its_microseconds_wherever_it_stands(spark, column: str, fine: str, plain: str):
    for text, expected in ((FINE, fine), (ROUND, plain)):
        sql = f"{column.format(at=at(text), local=local(text))} as `a b`"
        value = expected.format(fine=FINE, plain=ROUND)
        assert written(spark, f"1 as n, {sql}, cast(null as timestamp) as none") == f'{{"n":1,"a b":{value}}}'
        rows = spark.sql(f"select {sql}")
        if not value.startswith('"'):
            (row,) = rows.selectExpr(f"{json_of_column(rows, 'a b')} as text").collect()
            assert row["text"] == value


def test_rows_without_times_of_microseconds_are_those_of_to_json(spark):
    columns = f"{at(ROUND)} as at, 1.5D as d, null as none, 'x' as `it''s`, {at('1969-12-31T23:59:59.999')} as before"
    assert written(spark, columns) == spark.sql(f"select to_json(struct(*)) from (select {columns})").first()[0]


def test_a_time_before_1970_keeps_its_microseconds(spark):
    assert written(spark, f"{at('1969-12-31T23:59:59.999999')} as at") == '{"at":"1969-12-31T23:59:59.999999Z"}'


def test_two_columns_of_one_name_are_written_both(spark):
    assert written(spark, f"{at(FINE)} as at, 1 as at") == f'{{"at":"{FINE}Z","at":1}}'


@pytest.mark.parametrize(
    ("struct", "text"),
    [
        ("named_struct('at', {at}, 'At', 1)", '{{"at":"{fine}Z","At":1}}'),
        ("named_struct('at', 1, 'At', {at})", '{{"at":1,"At":"{fine}Z"}}'),
    ],
)
def test_fields_whose_names_differ_in_case_alone_are_written_both(spark, struct: str, text: str):
    struct, text = struct.format(at=at(FINE)), text.format(fine=FINE)
    assert written(spark, f"{struct} as held") == f'{{"held":{text}}}'
    rows = spark.sql(f"select array(map('k', {struct})) as held")
    assert rows.selectExpr(json_of_column(rows, "held")).first()[0] == f'[{{"k":{text}}}]'


def test_rows_of_a_test_have_their_nulls_and_microseconds(spark):
    rows = spark.sql(f"select cast(null as int) as n, {at(FINE)} as at union all select 1, {at(ROUND)}")
    assert rows_of(rows) == [{"n": None, "at": f"{FINE}Z"}, {"n": 1, "at": f"{ROUND}Z"}]


@pytest.mark.slow
def test_targets_of_json_keep_microseconds(run_spec, new_topic, produce, read_back, tmp_path, postgresql):
    source, target, table = new_topic(), new_topic(), f"json_{token_hex(4)}"
    produce(source, [(None, f'{{"at": "{FINE}Z"}}'.encode())])
    spec = f"""
sources: {{given: {{topic: {source}, format: json, schema: at timestamp}}}}
flows: {{times: select at from given, nested: "select at, struct(at) as held from given"}}
targets:
  topic: {{from: times, topic: {target}}}
  table: {{from: nested, sqlite: shop.db, table: t}}
  served: {{from: nested, postgresql: "{postgresql.url}", table: {table}}}
"""
    assert {state.state for state in run_spec(spec)} == {"finished"}
    assert [value for _, value in read_back(target)] == [f'{{"at":"{FINE}Z"}}'.encode()]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        assert connection.execute("select held from t").fetchall() == [(f'{{"at":"{FINE}Z"}}',)]
    with psycopg.connect(postgresql.url) as connection:
        assert connection.execute(f"select held->>'at' from {table}").fetchall() == [(f"{FINE}Z",)]
