"""No text makes the parser do anything but return statements or raise SqlError, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.administration import MAX_ROWS
from moldau.products.sql.language.parser.script import MAX_DEPTH, MAX_STATEMENTS, Parsed, parse_script
from moldau.products.sql.language.tokens import MAX_BYTES, source_of, tokenize
from tests.support.parsed_sql import cases_of, shown

CASES = cases_of(Path(__file__).parent / "statements.txt", "= ")
WORDS = sorted({token.text for case in CASES for token in tokenize(case.text)} | {"${a}", "'${a}'", "x"})
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
SENTENCES = st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)


@st.composite
def changed_statements(draw):
    """A statement of the cases with some tokens left out, doubled or replaced."""
    tokens = [token.before + token.text for token in tokenize(draw(st.sampled_from(CASES)).text)]
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(tokens) - 1))
        tokens[place] = draw(st.sampled_from(["", tokens[place] * 2, f" {draw(st.sampled_from(WORDS))} "]))
    return "".join(tokens)


def statements_or_error(text: str) -> list[Parsed] | SqlError:
    try:
        return parse_script(text, {"a": "1"})
    except SqlError as error:
        return error


@settings(max_examples=1000, deadline=None)
@given(st.one_of(ANY_TEXT, SENTENCES, changed_statements()))
def test_no_text_raises_another_error(text):
    found = statements_or_error(text)
    if isinstance(found, SqlError):
        assert found.line >= 1
        assert found.column >= 1
        assert found.picture
    else:
        assert all(parsed.text for parsed in found)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(CASES))
def test_the_text_of_a_statement_gives_the_same_statement(case):
    for parsed in parse_script(case.text):
        if "TYPE" not in case.text:
            (again,) = parse_script(parsed.text, substitutes=False)
            assert source_of(tokenize(again.text)) == parsed.text
            assert shown(again.statement) == shown(parsed.statement)


def error_of(text: str, **variables: str) -> str:
    with pytest.raises(SqlError) as caught:
        parse_script(text, variables)
    return str(caught.value)


def test_an_insert_has_a_bounded_number_of_rows():
    rows = [f"({number}, 'x')" for number in range(10_000)]
    assert error_of(f"INSERT INTO t VALUES\n{chr(10).join(f'{row},' for row in rows)} (1, 'y')") == (
        f"line {MAX_ROWS + 2}, column 1: one INSERT has at most {MAX_ROWS} rows: write several"
    )
    (parsed,) = parse_script(f"INSERT INTO t VALUES {', '.join(rows[:MAX_ROWS])}")
    assert len(parsed.statement.rows) == MAX_ROWS


def test_brackets_are_nested_to_a_bound():
    deep = "(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH
    assert len(parse_script(f"SELECT {deep} FROM t")) == 1
    assert f"nested deeper than {MAX_DEPTH}" in error_of(f"SELECT ({deep}) FROM t")
    assert "is not closed" in error_of("SELECT " + "[" * 100)


def test_types_are_nested_to_a_bound():
    def stream(depth: int) -> str:
        return f"CREATE STREAM s (a {'ARRAY<' * depth}INT{'>' * depth}) WITH (kafka_topic='t')"

    assert len(parse_script(stream(50))) == 1
    assert "nested deeper than 50" in error_of(stream(51))
    assert "nested deeper than 50" in error_of(stream(50_000))


def test_a_script_has_a_bounded_number_of_statements():
    assert len(parse_script("SHOW TABLES;" * MAX_STATEMENTS)) == MAX_STATEMENTS
    assert f"at most {MAX_STATEMENTS} statements" in error_of("SHOW TABLES;" * (MAX_STATEMENTS + 1))


def test_the_values_of_variables_are_bounded():
    big = "x" * (MAX_BYTES // 2 + 1)
    assert "the values of the variables have more than" in error_of("SELECT '${a}${a}' FROM t", a=big)
    assert "the values of the variables have more than" in error_of("SELECT ${a}, ${a} FROM t", a=big)


def test_a_value_of_a_variable_cannot_end_a_string_or_a_name():
    quote = "'; DROP TABLE t; --"
    (parsed,) = parse_script("SELECT '${a}', `${b}` FROM t", {"a": quote, "b": "x`; DROP TABLE t; --"})
    string, name = parsed.statement.query.selects[0].items
    assert string.expression.tokens[0].value == quote
    assert name.expression.tokens[0].value == "x`; DROP TABLE t; --"
    assert "is not one name, number or string" in error_of("SELECT ${a} FROM t", a=quote)


@pytest.mark.parametrize("value", ["a\0", "\ud800"])
def test_a_value_of_a_variable_has_no_forbidden_characters(value):
    assert "is no string" in error_of("SELECT '${a}' FROM t", a=value)


@pytest.mark.parametrize("amount", ["9" * 100_000, "9223372036854775807", "0" * 5000 + "1"])
def test_a_huge_number_is_rejected(amount):
    error_of(f"SELECT a FROM t WINDOW TUMBLING (SIZE {amount} DAYS)")


def test_a_statement_may_have_thousands_of_parts():
    items = ", ".join(f"a{number} + 1 AS b{number}" for number in range(5_000))
    (parsed,) = parse_script(f"SELECT {items} FROM t GROUP BY {items.replace(' AS', ' +')} EMIT CHANGES")
    assert len(parsed.statement.query.selects[0].group_by) == 5_000
