"""Changes by key from a database's log into a table: in any order, and with deletes."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from secrets import token_hex

import polars
import psycopg
import pytest

from moldau.cli.main import main
from moldau.products.pipelines.core.section import SpecError
from moldau.products.pipelines.looking.outlook import plan_of
from moldau.products.pipelines.spec.spec import load_spec, parse_spec

SPEC = """
sources:
  changes: {topic: TOPIC, format: json, schema: "id int, name string, version int, op string"}
flows:
  rows: select id, name, version, op from changes
targets:
  lake: {from: rows, delta: lake, mode: update, key: id, sequence_by: version, apply_as_deletes: "op = 'd'",
         except_column_list: [version, op]}
  file: {from: rows, sqlite: shop.db, table: users, mode: update, key: id, sequence_by: version,
         apply_as_deletes: "op = 'd'", column_list: [id, name]}
  server: {from: rows, postgresql: "SERVER", table: TABLE, mode: update, key: id, sequence_by: version,
           apply_as_deletes: "op = 'd'", except_column_list: [version, op]}
tests:
  the newest change of a key counts, in whatever order they come:
    given:
      changes: [[{id: 1, version: 3, name: new}, {id: 1, version: 1, name: old}], [{id: 1, version: 2, name: late}]]
    expect:
      lake: [{id: 1, name: new}, {id: 1, name: new}]
  a change that removes its row says so:
    given:
      changes: [{id: 1, version: 1, name: a}, {id: 2, version: 2, op: d}]
    expect:
      file: [{id: 1, _moldau_deleted: false}, {id: 2, _moldau_deleted: true}]
"""


@pytest.mark.slow
def test_the_newest_change_of_each_key_is_in_the_table(
    run_spec, new_topic, produce, postgresql, bootstrap_servers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    topic, table = new_topic(), f"users_{token_hex(4)}"

    def change(*rows: tuple[int, str, int, str]) -> None:
        names = ("id", "name", "version", "op")
        produce(topic, [(None, json.dumps(dict(zip(names, row, strict=True))).encode()) for row in rows])

    def tables() -> list[list[tuple[int, str]]]:
        with sqlite3.connect(tmp_path / "shop.db") as connection:
            of_file = connection.execute("select id, name from users").fetchall()
        with psycopg.connect(postgresql.url) as server:
            of_server = server.execute(f"select id, name from {table}").fetchall()
        return [sorted(one) for one in (polars.read_delta(str(tmp_path / "lake")).rows(), of_file, of_server)]

    spec = SPEC.replace("TOPIC", topic).replace("SERVER", postgresql.url).replace("TABLE", table)
    change((1, "a", 1, "u"), (2, "b", 1, "u"), (1, "A", 3, "u"), (3, "gone before it came", 5, "d"))
    run_spec(spec)
    assert tables() == [[(1, "A"), (2, "b")]] * 3
    change((1, "older than A", 2, "u"), (2, "b", 4, "d"), (3, "older than its end", 4, "u"), (4, "d", 1, "u"))
    run_spec(spec)
    assert tables() == [[(1, "A"), (4, "d")]] * 3
    file = tmp_path / "spec.yaml"
    file.write_text(f"name: pipe\nbootstrap_servers: {bootstrap_servers}\n{spec}", "utf-8")
    assert main(["pipeline", "test", str(file)]) == 0, capsys.readouterr().out
    assert {outlook.columns for outlook in plan_of(load_spec(file))} == {(("id", "int"), ("name", "string"))}


@pytest.mark.slow
def test_a_change_without_a_place_in_the_sequence_is_named(spark, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = SPEC.replace("{id: 1, version: 1, name: old}", "{id: 1, name: old}")
    file = tmp_path / "spec.yaml"
    file.write_text(f"name: pipe\nbootstrap_servers: a:1\n{text}", "utf-8")
    assert main(["pipeline", "test", str(file)]) == 1
    reason = "a row has no place in `sequence_by: version`, which is null: leave such rows out (`where`)"
    assert reason in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("sequence_by: version, ", "", "`apply_as_deletes` needs `sequence_by`"),
        ("mode: update, key: id", "mode: append", "`sequence_by` is for the mode update"),
        ("[version, op]", "[id, op]", "`except_column_list` must not leave out the `key`"),
        ("column_list: [id, name]", "column_list: name", "`column_list` must have the columns of the `key` too"),
        ("[id, name]", "[id, name], except_column_list: op", "`column_list` and `except_column_list` say the same"),
    ],
)
def test_what_cannot_be_meant_of_changes_is_refused(tmp_path: Path, before: str, after: str, reason: str):
    text = "name: pipe\nbootstrap_servers: a:1\n" + SPEC.replace(before, after, 1)
    with pytest.raises(SpecError, match=reason):
        parse_spec(text, file_name="spec.yaml", directory=tmp_path)
