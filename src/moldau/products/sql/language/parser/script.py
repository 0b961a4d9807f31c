"""Reads a script: statements with `;` after each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from moldau.products.sql.language.errors import error_at, unexpected
from moldau.products.sql.language.parser.administration import READERS
from moldau.products.sql.language.parser.assertions import read_assert
from moldau.products.sql.language.parser.clauses import starts_query
from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.parser.definitions import read_create, read_drop
from moldau.products.sql.language.parser.queries import read_query
from moldau.products.sql.language.parser.refused import check_statement
from moldau.products.sql.language.parser.variables import substituted
from moldau.products.sql.language.statements import (
    CreateAs,
    CreateMaterializedView,
    CreateStreamingTable,
    CreateType,
    CreateView,
    Define,
    Drop,
    Droppable,
    Explain,
    InsertQuery,
    RunQuery,
    Statement,
)
from moldau.products.sql.language.tokens import Kind, Token, text_of, tokenize

MAX_STATEMENTS = 1000
"""The most statements of a script."""
MAX_DEPTH = 200
"""How deep brackets may be nested."""

_WORDS = (*READERS, "SELECT", "WITH", "FROM", "CREATE", "DROP", "EXPLAIN", "ASSERT")
_CLOSING = {"(": ")", "[": "]"}
_EXPLAINED = (RunQuery, CreateAs, CreateStreamingTable, CreateMaterializedView, CreateView, InsertQuery)


class Parsed(msgspec.Struct, frozen=True):
    """A statement of a script. `text`: its source without `;`, with the values of its variables. `line` and `column`:
    where it begins, from 1."""

    statement: Statement
    text: str
    line: int
    column: int


def parse_script(
    text: str,
    variables: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
    *,
    substitutes: bool = True,
) -> list[Parsed]:
    """The statements of a script; the last one may lack its `;`. Raises SqlError for the first error.

    `variables`: values of `${name}`, by names in any case; DEFINE and UNDEFINE change them for the statements after
    them. `types`: the types of CREATE TYPE, by names in any case, with Spark's names; CREATE TYPE and DROP TYPE change
    them. The arguments stay as they are. `substitutes`: False for a statement that was parsed before and kept as
    `Parsed.text`, where `${name}` in a string is text.
    """
    known = {name.lower(): value for name, value in (variables or {}).items()}
    named = {name.lower(): value for name, value in (types or {}).items()}
    found: list[Parsed] = []
    for tokens in _split(text, tokenize(text)):
        start = tokens[0]
        if len(found) == MAX_STATEMENTS:
            raise error_at(
                text, start.place, f"a script has at most {MAX_STATEMENTS} statements: split it into several"
            )
        filled = substituted(text, tokens, known) if substitutes else tokens
        statement = _statement(Cursor(text, filled), named)
        found.append(Parsed(statement, text_of(filled[:-1]), start.line, start.column))
        if isinstance(statement, Define):
            _define(known, statement)
        elif isinstance(statement, CreateType):
            named.setdefault(statement.name.key, statement.type)
        elif isinstance(statement, Drop) and statement.what is Droppable.TYPE:
            named.pop(statement.name.key, None)
    return found


def _define(variables: dict[str, str], statement: Define) -> None:
    if statement.value is None:
        variables.pop(statement.name.key, None)
    else:
        variables[statement.name.key] = statement.value


def _split(text: str, tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The tokens of each statement, with one of kind END instead of `;`. Empty statements are left out."""
    statement: list[Token] = []
    open_brackets: list[Token] = []
    for token in tokens:
        if token.says(";") or token.kind is Kind.END:
            if open_brackets:
                bracket = open_brackets[-1]
                closing = _CLOSING[bracket.text]
                raise error_at(
                    text, bracket.place, f"`{bracket.text}` is not closed: `{closing}` is missing", found=bracket.text
                )
            if statement:
                end = Token(Kind.END, "", "", token.before, token.offset, token.line, token.column)
                yield [*statement, end]
                statement = []
            continue
        if token.says("(", "["):
            open_brackets.append(token)
            if len(open_brackets) > MAX_DEPTH:
                raise error_at(text, token.place, f"brackets are nested deeper than {MAX_DEPTH}", found=token.text)
        elif token.says(")", "]"):
            expected = _CLOSING[open_brackets.pop().text] if open_brackets else ""
            if not expected:
                raise error_at(text, token.place, f"`{token.text}` closes no bracket", found=token.text)
            if token.text != expected:
                raise unexpected(text, token.place, f"`{expected}`", token.text)
        statement.append(token)


def _statement(cursor: Cursor, types: Mapping[str, str]) -> Statement:
    check_statement(cursor)
    first = cursor.next
    if starts_query(cursor):
        return RunQuery(read_query(cursor))
    word = first.text.upper() if first.kind is Kind.WORD else ""
    if word == "CREATE":
        return read_create(cursor, types)
    if word == "DROP":
        return read_drop(cursor)
    if word == "ASSERT":
        return read_assert(cursor, types)
    if word == "EXPLAIN":
        return _explain(cursor, types)
    if word in READERS:
        return READERS[word](cursor)
    raise cursor.unexpected("a statement, as in CREATE, SELECT or SHOW", _WORDS)


def _explain(cursor: Cursor, types: Mapping[str, str]) -> Explain:
    """`EXPLAIN query_id`, or EXPLAIN and a statement with a query."""
    cursor.expect("EXPLAIN")
    start = cursor.next
    if start.is_name and cursor.ahead(1).kind is Kind.END:
        return Explain(cursor.name("the id of a query, or a statement"))
    if start.kind is Kind.END or cursor.says("EXPLAIN"):
        raise cursor.unexpected("the id of a query, or a statement with a query", ["SELECT", "CREATE", "INSERT"])
    statement = _statement(cursor, types)
    if not isinstance(statement, _EXPLAINED):
        raise cursor.error("EXPLAIN stands before the id of a query, or a statement with a query", at=start)
    return Explain(statement)
