"""Answers of a SQL service in the console: text, tables, and the picture of its queries."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.products.console.core.sql_answers import MAX_CELL, Shown, cell, shown_entity, type_text
from moldau.products.console.core.sql_facts import Figures, SqlLists, SqlQuery, SqlSource
from moldau.products.console.core.sql_picture import MAX_DRAWN, picture_of_sql
from moldau.products.console.sql_pages import columns_of

STRING: dict[str, Any] = {"type": "STRING", "fields": None, "memberSchema": None}


@pytest.mark.parametrize(
    ("entity", "shown"),
    [
        (
            {"@type": "currentStatus", "commandStatus": {"message": "done"}, "warnings": [{"message": "but"}]},
            Shown("done\nbut"),
        ),
        ({"@type": "warning_entity", "message": "there is none"}, Shown("there is none")),
        ({"@type": "streams", "streams": []}, Shown("none")),
        (
            {"@type": "streams", "streams": [{"type": "STREAM", "name": "a"}, {"type": "STREAM", "name": "b"}]},
            Shown("", ("type", "name"), (("STREAM", "a"), ("STREAM", "b"))),
        ),
        (
            {"@type": "queries", "queries": [{"id": "Q_0", "sinks": ["a"], "state": "RUNNING", "queryString": "x;"}]},
            Shown("", ("id", "state", "sinks", "queryString"), (("Q_0", "RUNNING", '["a"]', "x;"),)),
        ),
        (
            {"@type": "queryDescription", "queryDescription": {"topology": "reads a", "executionPlan": ""}},
            Shown("reads a"),
        ),
        ({"@type": "describe_function", "name": "F", "description": "of texts"}, Shown("F\nof texts")),
        ({"@type": "new", "statementText": "x", "a": 1}, Shown('{\n  "a": 1\n}')),
        ({"@type": "currentStatus", "b": 2}, Shown('{\n  "b": 2\n}')),
        ({"@type": "streams", "streams": [1]}, Shown('{\n  "streams": [\n    1\n  ]\n}')),
    ],
)
def test_an_entity_is_text_or_a_table(entity: dict[str, Any], shown: Shown) -> None:
    assert shown_entity(entity) == shown


def test_a_described_stream_lists_its_fields() -> None:
    description = {
        "type": "STREAM", "name": "a", "topic": "t", "keyFormat": "KAFKA", "valueFormat": "JSON",
        "readQueries": [{"id": "Q_0"}], "writeQueries": [], "statistics": "",
        "fields": [{"name": "id", "schema": STRING, "type": "KEY"}, {"name": "b", "schema": STRING}],
    }  # fmt: skip
    shown = shown_entity({"@type": "sourceDescription", "sourceDescription": description})
    assert shown.text == "STREAM a of the topic t (KAFKA, JSON)\nread by Q_0"
    assert shown.rows == (("id", "STRING", "KEY"), ("b", "STRING", ""))


def test_types_and_cells_are_short_texts() -> None:
    decimal = {"type": "DECIMAL", "parameters": {"precision": 4, "scale": 2}}
    struct = {"type": "STRUCT", "fields": [{"name": "a", "schema": {"type": "MAP", "memberSchema": decimal}}]}
    assert type_text({"type": "ARRAY", "memberSchema": struct}) == "ARRAY<STRUCT<a MAP<STRING, DECIMAL(4, 2)>>>"
    assert [cell(one) for one in ("a", 1.5, None, [1], {"é": True})] == ["a", "1.5", "null", "[1]", '{"é":true}']
    assert len(cell("x" * 10_000)) == MAX_CELL + 1


def test_the_names_of_columns_are_those_outside_of_brackets() -> None:
    assert columns_of("`a` INTEGER, `b c` STRUCT<`d` STRING, `e` DECIMAL(1, 0)>, `f, g` STRING") == [
        "a", "b c", "f, g",
    ]  # fmt: skip
    assert columns_of("") == columns_of("no name") == columns_of("`") == []


def query(id: str, reads: tuple[str, ...], sink: str, error: str | None = None) -> SqlQuery:
    return SqlQuery(id, (sink,), Figures("running", 1, 2.0, 3, 4, error, reads))


def source(name: str) -> SqlSource:
    return SqlSource(name, "STREAM", name, "KAFKA", "JSON")


def test_queries_are_drawn_between_what_they_read_and_write() -> None:
    lists = SqlLists(
        tuple(source(name) for name in ("out", "b", "a", "alone")),
        (),
        (query("Q_1", ("b",), "out", "a record is bad"), query("Q_0", ("a", "gone"), "b")),
    )
    boxes, edges = picture_of_sql(lists)
    names = [box.name for box in boxes]
    assert names == ["a", "Q_0", "b", "Q_1", "out"]
    assert [box.kind for box in boxes] == ["source", "flow", "flow", "flow", "target"]
    assert [box.is_in_trouble for box in boxes] == [False, False, False, True, False]
    drawn = {(names[edge.start], names[edge.end], edge.note) for edge in edges}
    assert drawn == {("a", "Q_0", "2.0/s"), ("Q_0", "b", ""), ("b", "Q_1", "2.0/s"), ("Q_1", "out", "")}


def test_a_picture_is_bounded() -> None:
    many = tuple(query(f"Q_{number}", (), f"s{number}") for number in range(MAX_DRAWN + 1))
    assert picture_of_sql(SqlLists(queries=many)) == picture_of_sql(SqlLists()) == ([], [])
    circle = SqlLists((source("a"),), (), (query("Q_0", ("a",), "a"),))
    assert len(picture_of_sql(circle)[0]) == 2
