"""Reads what FROM names: a relation, and joins."""

from __future__ import annotations

from moldau.products.sql.language.parser.clauses import (
    KEYWORDS,
    clause_at,
    ends_operand,
    misspelt,
    near_keyword,
)
from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.parser.windows import read_within
from moldau.products.sql.language.queries import Fragment, Join, JoinKind, Name, Relation
from moldau.products.sql.language.tokens import Kind

_SIDES = ("LEFT", "RIGHT", "FULL")
_NO_ALIASES = frozenset(
    {
        *KEYWORDS, "AS", "CROSS", "NATURAL", "SEMI", "ANTI", "OUTER", "USING", "EXCEPT", "MINUS", "INTERSECT", "ORDER",
        "SORT", "CLUSTER", "DISTRIBUTE", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "QUALIFY", "OFFSET", "WITH",
        "SELECT", "FROM", "VALUES", "SET", "WATERMARK",
    }
)  # fmt: skip
"""Words after a relation that are an alias in backquotes only."""


def read_relation(cursor: Cursor) -> Relation:
    """Takes a relation with its alias. Raises SqlError."""
    start = cursor.place
    name, is_stream = None, False
    if cursor.says("("):
        cursor.skip_brackets()
    elif cursor.says("STREAM") and (cursor.ahead(1).says("(") or _is_alias(cursor, 1)):
        cursor.take()
        is_stream = True
        if cursor.takes("("):
            name = _named(cursor)
            cursor.expect(")")
        else:
            name = _named(cursor)
    else:
        name = _named(cursor)
    return Relation(name, cursor.since(start), _alias(cursor), is_stream)


def _named(cursor: Cursor) -> Name | None:
    """Takes a name; None for a name of several parts, and for a function."""
    name: Name | None = cursor.name("the name of a stream or table")
    while cursor.takes("."):
        cursor.name("the next part of the name")
        name = None
    if cursor.says("("):
        cursor.skip_brackets()
        name = None
    return name


def _alias(cursor: Cursor) -> Name | None:
    if cursor.takes("AS"):
        return cursor.name("an alias")
    if not _is_alias(cursor, 0):
        return None
    token, after = cursor.next, cursor.ahead(1)
    if token.kind is Kind.WORD and after.kind is not Kind.END and not after.says(",", ")"):
        known = (*_SIDES, "INNER") if after.says("JOIN") else KEYWORDS
        is_followed = after.says(*KEYWORDS, "CROSS", "NATURAL") and not after.says("JOIN")
        near = None if is_followed else near_keyword(token, known)
        if near is not None:
            raise cursor.unexpected("a clause, as in WHERE", [near])
    return cursor.name("an alias")


def _is_alias(cursor: Cursor, count: int) -> bool:
    token = cursor.ahead(count)
    if token.kind is Kind.NAME:
        return True
    return token.kind is Kind.WORD and token.text.upper() not in _NO_ALIASES and not _is_version(cursor, count)


def is_relations_tail(cursor: Cursor) -> bool:
    """Whether something stands after a relation that only Spark reads: names of its columns, a version, options."""
    return cursor.next.says("(", "WATERMARK", "LATERAL", "WITH") or _is_version(cursor, 0)


def _is_version(cursor: Cursor, count: int) -> bool:
    """Whether `VERSION AS OF` or the like stands there."""
    return cursor.ahead(count).says("VERSION", "TIMESTAMP", "FOR") and cursor.ahead(count + 2).says("OF")


def joins_at(cursor: Cursor) -> bool:
    """Whether a join begins here."""
    token, second = cursor.next, cursor.ahead(1)
    if token.kind is not Kind.WORD:
        return False
    if token.says(*_SIDES):
        return second.is_name and ends_operand(cursor.previous)
    if token.says("CROSS", "NATURAL", "SEMI", "ANTI"):
        return second.says("JOIN", "INNER", *_SIDES)
    return token.says("JOIN") or (token.says("INNER") and second.kind is Kind.WORD)


def is_sparks_join(cursor: Cursor) -> bool:
    """Whether a join begins here that only Spark reads."""
    second = cursor.ahead(1)
    return cursor.says(",") or (
        joins_at(cursor) and (cursor.next.says("CROSS", "NATURAL", "SEMI", "ANTI") or second.says("SEMI", "ANTI"))
    )


def read_join(cursor: Cursor) -> Join | None:
    """Takes a join. None if it has no ON, so that only Spark reads it: then the cursor is after the relation. Raises
    SqlError."""
    start = cursor.next
    kind = JoinKind.INNER
    for side in _SIDES:
        if cursor.takes(side):
            kind = JoinKind[side]
            cursor.takes("OUTER")
    cursor.takes("INNER")
    cursor.expect("JOIN")
    relation = read_relation(cursor)
    within = read_within(cursor) if cursor.takes("WITHIN") else None
    if not cursor.takes("ON"):
        ends = cursor.next.kind is Kind.END or cursor.next.says("USING", ",") or is_relations_tail(cursor)
        if within is None and (ends or joins_at(cursor) or clause_at(cursor) is not None):
            return None
        raise cursor.unexpected("ON" if within else "WITHIN or ON", ["ON", "WITHIN"])
    on = cursor.skip_to(lambda: _ends_on(cursor), "the condition of the join")
    check_spelling(cursor, on)
    return Join(kind, relation, within, on, start.line, start.column)


def _ends_on(cursor: Cursor) -> bool:
    return cursor.says(",") or joins_at(cursor) or clause_at(cursor) is not None


def check_spelling(cursor: Cursor, fragment: Fragment) -> None:
    """Raises if the next clause's keyword is misspelt, and so was read as a part of this expression."""
    wrong = misspelt(fragment)
    if wrong is not None:
        token, near = wrong
        raise cursor.unexpected("an operator or a clause", [near], at=token)
