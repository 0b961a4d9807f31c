"""Statements of SQL and the values that they give; wrong statements and their errors.

The cases are in `statements.txt` and `errors.txt`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.products.pipelines.core.column_types import columns_of
from moldau.products.sql.compiling.plan import MOST_TEXT
from moldau.products.sql.language import statements
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser import script, type_names
from moldau.products.sql.language.parser.administration import MAX_ROWS
from moldau.products.sql.language.parser.script import MAX_STATEMENTS, parse_script
from moldau.products.sql.language.tokens import MAX_BYTES, MAX_TOKENS
from tests.support.parsed_sql import cases_of, shown
from tests.support.source_tree import ROOT

HERE = Path(__file__).parent
PAGE = ROOT / "docs/reference/sql/statements.md"
STATEMENTS = cases_of(HERE / "statements.txt", "= ")
ERRORS = cases_of(HERE / "errors.txt", "! ")


@pytest.mark.parametrize("case", STATEMENTS, ids=str)
def test_a_statement_gives_its_value(case):
    assert "\n".join(shown(parsed.statement) for parsed in parse_script(case.text)) == "\n".join(case.expected)


@pytest.mark.parametrize("case", ERRORS, ids=str)
def test_a_wrong_statement_is_rejected_at_its_place(case):
    with pytest.raises(SqlError) as caught:
        parse_script(case.text)
    error = caught.value
    assert [str(error)] == case.expected
    line, caret = error.picture.split("\n")
    assert line == case.text.split("\n")[error.line - 1]
    assert len(caret) == error.column
    if ": expected " in str(error):
        assert f": expected {error.expected}" in str(error)
    assert error.found in case.text


def test_the_cases_are_many():
    assert len(STATEMENTS) >= 120
    assert len(ERRORS) >= 60


def test_each_kind_of_statement_has_a_case():
    told = "\n".join(line for case in STATEMENTS for line in case.expected)
    kinds = [kind.__name__ for kind in vars(statements).values() if isinstance(kind, type)]
    made = [name for name in kinds if issubclass(getattr(statements, name, object), statements.Statement)]
    assert [name for name in made if name != "Statement" and f"{name}(" not in told] == []


def test_an_error_has_its_parts():
    with pytest.raises(SqlError) as caught:
        parse_script("SELECT a\nFROM t\n\tEMIT CHANGS LIMIT 3;")
    error = caught.value
    assert (error.line, error.column) == (3, 7)
    assert (error.expected, error.found, error.nearest) == ("CHANGES or FINAL", "CHANGS", "CHANGES")
    assert error.source_line == "\tEMIT CHANGS LIMIT 3;"
    assert error.picture == "\tEMIT CHANGS LIMIT 3;\n\t     ^"


def test_a_picture_shows_the_part_of_a_long_line():
    with pytest.raises(SqlError) as caught:
        parse_script(f"SELECT {'a, ' * 500} FROM t WHERE {'b + ' * 500} 1")
    line, caret = caught.value.picture.split("\n")
    assert len(line) == 100
    assert line[len(caret) - 1 :].startswith("FROM t WHERE")


def test_a_declared_type_is_a_type_of_spark():
    for case in STATEMENTS:
        for parsed in parse_script(case.text):
            for column in getattr(parsed.statement, "columns", ()):
                if isinstance(column, statements.Column) and "`" not in column.type:
                    assert columns_of(f"c {column.type}") == {"c": column.type}


def test_the_examples_of_the_page_are_statements():
    examples = re.findall(r"^```sql\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(examples) >= 5
    for example in examples:
        assert parse_script(example)


def test_the_page_names_the_bounds():
    rows = dict(re.findall(r"^\| ([^|]+) \| ([\d,]+|1 MiB) \|$", PAGE.read_text("utf-8"), re.MULTILINE))
    told = [int(number.replace("1 MiB", str(1 << 20)).replace(",", "")) for number in rows.values()]
    assert told == [
        MAX_BYTES, MAX_TOKENS, MAX_STATEMENTS, MAX_ROWS, MOST_TEXT, script.MAX_DEPTH, type_names.MAX_DEPTH
    ]  # fmt: skip


def test_variables_and_types_can_be_given():
    variables, types = {"Format": "JSON"}, {"Point": "struct<x:double>"}
    text = "DEFINE n = '2'; CREATE TYPE p2 AS ARRAY<point>; CREATE STREAM s (a p2) WITH (f='${FORMAT}', n=${n});"
    *_, parsed = parse_script(text, variables, types)
    assert shown(parsed.statement) == (
        "CreateSource(kind=STREAM, name=s, columns=[a array<struct<x:double>>], properties=[f='JSON', n=2])"
    )
    assert (variables, types) == ({"Format": "JSON"}, {"Point": "struct<x:double>"})


def test_a_statement_keeps_its_text_and_place():
    text = "-- first\nDEFINE a = '3';\n  SELECT /* why */ x + ${a} -- y\n FROM t EMIT CHANGES LIMIT 2 ; "
    define, select = parse_script(text)
    assert (define.text, define.line, define.column) == ("DEFINE a = '3'", 2, 1)
    assert select.text == "SELECT /* why */ x + 3 -- y\n FROM t EMIT CHANGES LIMIT 2"
    assert (select.line, select.column) == (3, 3)
    query = select.statement.query
    assert query.source.text == "SELECT /* why */ x + 3 -- y\n FROM t"
    number = query.selects[0].items[0].expression.tokens[-1]
    assert (number.text, number.place) == ("3", (3, 24))
