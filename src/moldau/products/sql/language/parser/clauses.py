"""Finds where the clauses of a query begin. Most of SQL's keywords may be names too, so the neighbours decide."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from moldau.products.sql.language.parser.cursor import Cursor
from moldau.products.sql.language.queries import Fragment
from moldau.products.sql.language.tokens import Kind, Token
from moldau.types import nearest


class Clause(enum.Enum):
    """A clause that is read here, in the order of a query. SPARKS: one that only Spark reads."""

    FROM = "FROM"
    WINDOW = "WINDOW"
    WHERE = "WHERE"
    GROUP = "GROUP BY"
    PARTITION = "PARTITION BY"
    HAVING = "HAVING"
    EMIT = "EMIT"
    LIMIT = "LIMIT"
    UNION_ALL = "UNION ALL"
    SPARKS = "a clause of Spark's"


KEYWORDS = (
    "WINDOW", "WHERE", "GROUP", "PARTITION", "HAVING", "EMIT", "LIMIT", "UNION", "JOIN", "INNER", "LEFT", "RIGHT",
    "FULL", "WITHIN", "ON",
)  # fmt: skip
"""The first words of clauses, for the nearest word of a misspelt one."""
_OPERATORS = frozenset(
    {
        "ALL", "AND", "ANY", "AS", "AT", "BETWEEN", "BY", "CASE", "COLLATE", "DISTINCT", "DIV", "ELSE", "ESCAPE",
        "EXISTS", "FROM", "HAVING", "ILIKE", "IN", "INTERVAL", "IS", "LIKE", "NOT", "ON", "OR", "OVER", "REGEXP",
        "RLIKE", "SELECT", "SOME", "THEN", "TO", "WHEN", "WHERE",
    }
)  # fmt: skip
"""Words after which an operand stands."""
_CONTINUES = frozenset({"ASC", "DESC", "END", "FILTER", "FALSE", "IGNORE", "NULL", "NULLS", "RESPECT", "TRUE", "ZONE"})
"""Further words of expressions, which are no aliases."""
_UNITS = frozenset(
    f"{unit}{end}"
    for unit in ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    for end in ("", "S")
)
_SORTS = ("ORDER", "SORT", "CLUSTER", "DISTRIBUTE")
_SETS = ("EXCEPT", "MINUS", "INTERSECT")
_FIRST_WORDS = frozenset(
    {
        "FROM", "WHERE", "HAVING", "GROUP", "PARTITION", "WINDOW", "EMIT", "LIMIT", "UNION", "PIVOT", "UNPIVOT",
        "TABLESAMPLE", "OFFSET", "QUALIFY", "LATERAL", *_SORTS, *_SETS,
    }
)  # fmt: skip
"""Words that may begin a clause."""
_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")
_MOST_SUSPECTS = 100
"""The most words of an expression that are compared with keywords; few stand after an operand."""
WINDOWS = ("TUMBLING", "HOPPING", "SESSION")


def starts_query(cursor: Cursor) -> bool:
    """Whether a query stands next."""
    token = cursor.next
    return token.says("SELECT", "WITH", "FROM") or (token.says("(") and cursor.ahead(1).says(*_QUERY_STARTS))


def clause_at(cursor: Cursor) -> Clause | None:
    """The clause that the next token begins."""
    token = cursor.next
    if token.kind is not Kind.WORD:
        return Clause.SPARKS if token.says("|>") else None
    word = token.text.upper()
    if word not in _FIRST_WORDS:
        return None
    if word == "FROM":
        return None if cursor.said("IS", "DISTINCT") or cursor.said("IS", "NOT", "DISTINCT") else Clause.FROM
    if word in ("WHERE", "HAVING"):
        return Clause[word]
    if not ends_operand(cursor.previous):
        return None
    second = cursor.ahead(1)
    if word in ("GROUP", "PARTITION"):
        return Clause[word] if second.is_name else None
    if word == "WINDOW":
        return _window(cursor)
    if word == "EMIT":
        return Clause.EMIT if second.kind in (Kind.WORD, Kind.END) and not second.says("FROM", "AS") else None
    if word == "LIMIT":
        return Clause.LIMIT if second.kind in (Kind.NUMBER, Kind.END) or second.says("-", "ALL") else None
    if word == "UNION":
        return Clause.UNION_ALL if second.says("ALL") else Clause.SPARKS
    return Clause.SPARKS if _is_sparks(cursor, word) else None


def _window(cursor: Cursor) -> Clause | None:
    second, third = cursor.ahead(1), cursor.ahead(2)
    if second.is_name and third.says("AS") and cursor.ahead(3).says("("):
        return Clause.SPARKS
    return Clause.WINDOW if second.kind is Kind.WORD and (second.says(*WINDOWS) or third.says("(")) else None


def _is_sparks(cursor: Cursor, word: str) -> bool:
    second, third = cursor.ahead(1), cursor.ahead(2)
    if word in _SORTS:
        return second.says("BY")
    if word in _SETS:
        return second.says(*_QUERY_STARTS[:-1], "ALL", "DISTINCT") or (second.says("(") and third.says(*_QUERY_STARTS))
    if word in ("PIVOT", "UNPIVOT", "TABLESAMPLE"):
        return second.says("(")
    if word == "OFFSET":
        return second.kind is Kind.NUMBER
    return word == "QUALIFY" or (word == "LATERAL" and second.says("VIEW"))


def ends_operand(token: Token | None) -> bool:
    """Whether an operand of an expression ends with this token."""
    if token is None or token.kind is Kind.SYMBOL:
        return token is not None and token.says(")", "]", "*")
    return not (token.kind is Kind.WORD and token.text.upper() in _OPERATORS)


def has_alias(tokens: tuple[Token, ...]) -> bool:
    """Whether the last token of an item of SELECT is an alias without AS."""
    if len(tokens) < 2 or not tokens[-1].is_name or not ends_operand(tokens[-2]) or tokens[-2].says("*"):
        return False
    word = tokens[-1].text.upper()
    if tokens[-1].kind is Kind.NAME:
        return True
    return word not in _OPERATORS and word not in _CONTINUES and not (word in _UNITS and _is_interval(tokens[:-1]))


def _is_interval(tokens: tuple[Token, ...]) -> bool:
    """Whether the tokens end with INTERVAL and numbers with units."""
    for token in reversed(tokens):
        if token.says("INTERVAL"):
            return True
        if token.kind not in (Kind.NUMBER, Kind.STRING) and not token.says("-", *_UNITS):
            return False
    return False


def own_within_brackets(query: Fragment) -> Token | None:
    """The first token of a clause within brackets that Spark cannot read: EMIT, WINDOW TUMBLING, WITHIN 1 HOUR."""
    depth = 0
    end = Token(Kind.END, "", "", "", 0, 0, 0)
    following = [*query.tokens[1:], end]
    for token, after in zip(query.tokens, following, strict=True):
        depth += token.says("(") - token.says(")")
        if depth and (
            (token.says("EMIT") and after.says("CHANGES", "FINAL"))
            or (token.says("WINDOW") and after.says(*WINDOWS))
            or (token.says("WITHIN") and after.kind is Kind.NUMBER)
        ):
            return token
    return None


def misspelt(fragment: Fragment, known: Iterable[str] = KEYWORDS) -> tuple[Token, str] | None:
    """A word of an expression that is probably a misspelt keyword of the next clause, and that keyword: `a > 1 GRUOP BY
    b`. It stands after an operand, where an expression can only have an operator."""
    suspects = 0
    for before, token in _outside_of_brackets(fragment.tokens):
        if token.kind is Kind.WORD and ends_operand(before) and not before.says("*"):
            suspects += 1
            near = near_keyword(token, known) if suspects <= _MOST_SUSPECTS else None
            if near is not None:
                return token, near
    return None


def near_keyword(token: Token, known: Iterable[str] = KEYWORDS) -> str | None:
    """The keyword that the word is nearly, but not exactly."""
    word = token.text.upper()
    near = nearest(word, known, cutoff=0.75)
    return None if near == word or word in _OPERATORS or word in _CONTINUES else near


def _outside_of_brackets(tokens: tuple[Token, ...]) -> Iterator[tuple[Token, Token]]:
    """Each token outside of brackets but the first, with the one before it."""
    depth = 0
    for place, token in enumerate(tokens):
        depth -= token.says(")", "]")
        if place and depth == 0 and not token.says(")", "]"):
            yield tokens[place - 1], token
        depth += token.says("(", "[")
