"""What a SQL statement reads, and whether it groups: told from its words, without a parser of all SQL.

A relation stands after FROM or JOIN, or after a comma in the list that FROM began. What is not one: a name that WITH
defines, a function (`range(10)`, `explode(x)`), a name of several parts (a table of Spark's catalogue, or files, such
as parquet.`/prices`), and what FROM means within a function (`extract(year from at)`, `trim(both ' ' from name)`).
(sqlglot 30 refuses `group by window(at, '1 minute'), user`, the one statement that every streaming page has.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

_TOKEN = re.compile(
    r"""
      (?P<skipped> --[^\n]* | /\*.*?(?:\*/|\Z) | \s+ )
    | (?P<text> [rR]? (?: '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" ) )
    | `(?P<quoted> (?:[^`]|``)* )`
    | (?P<word> [^\W\d]\w* )
    | (?P<other> \d\w* | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BEGINS_QUERY = frozenset({"select", "with", "from", "values", "table"})
_ENDS_LIST = frozenset(
    {"where", "group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "window", "union",
     "except", "minus", "intersect", "select", "lateral", "|>"}
)  # fmt: skip


class _Word:
    """One token; `is_name`: it may name a relation. Unquoted words are compared in lower case, as SQL does."""

    __slots__ = ("is_name", "is_quoted", "text")

    def __init__(self, text: str, *, is_name: bool, is_quoted: bool) -> None:
        self.text, self.is_name, self.is_quoted = text, is_name, is_quoted

    def says(self, *keywords: str) -> bool:
        return not self.is_quoted and self.text.lower() in keywords


def relations_of(sql: str) -> tuple[str, ...]:
    """The names of one part that the statement reads, each once, in the order of their first place."""
    words = list(_words(sql))
    defined = {name.lower() for name in _defined(words)}
    found = dict.fromkeys(name for name in _read(words) if name.lower() not in defined)
    return tuple(found)


def quoted(name: str) -> str:
    """`name` as a column in SQL."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """`text` as a string in SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def groups(sql: str) -> bool:
    """Whether rows are grouped (GROUP BY, SELECT DISTINCT): in append mode a stream gives no such row before a
    watermark says that its group is complete."""
    words = list(_words(sql))
    return any(
        (first.says("group") and second.says("by")) or (first.says("select") and second.says("distinct"))
        for first, second in pairwise(words)
    )


def _words(sql: str) -> Iterator[_Word]:
    for match in _TOKEN.finditer(sql):
        if match["quoted"] is not None:
            yield _Word(match["quoted"].replace("``", "`"), is_name=True, is_quoted=True)
        elif match["word"] is not None:
            yield _Word(match["word"], is_name=True, is_quoted=False)
        elif match["skipped"] is None:
            yield _Word(match[0], is_name=False, is_quoted=match["text"] is not None)


def _defined(words: list[_Word]) -> Iterator[str]:
    """Names before `AS (SELECT`, or with columns between: what WITH defines. Other places of that shape name no
    relation that is read by this name."""
    for place, word in enumerate(words):
        if not word.is_name or place == 0 or not words[place - 1].says("with", ",", "recursive"):
            continue
        after = place + 1
        if after < len(words) and words[after].says("("):
            while after < len(words) and not words[after].says(")"):
                after += 1
            after += 1
        if [one.text.lower() for one in words[after : after + 2]] == ["as", "("]:
            yield word.text


def _read(words: list[_Word]) -> Iterator[str]:
    """Walks through the statement; for each open parenthesis it knows whether a query or an expression is in it, and
    whether the list of FROM goes on there."""
    in_query, in_list = [True], [False]
    is_expected = False
    for place, word in enumerate(words):
        before = words[place - 1] if place else None
        after = words[place + 1] if place + 1 < len(words) else None
        if word.says("("):
            # `(select` is a query, `from (a join b)` has relations in it, anything else is an expression
            is_query = after is not None and after.says(*_BEGINS_QUERY)
            is_expected = is_expected and not is_query
            in_query.append(is_query or is_expected)
            in_list.append(is_expected)
        elif word.says(")"):
            if len(in_query) > 1:
                in_query.pop()
                in_list.pop()
            is_expected = False
        elif word.says("from") and in_query[-1] and not (before is not None and before.says("distinct")):
            in_list[-1] = is_expected = True
        elif word.says("join") and in_query[-1]:
            is_expected = True
        elif word.says(","):
            is_expected = in_list[-1]
        elif is_expected and word.is_name:
            is_expected = word.says("lateral")
            if not is_expected and not (after is not None and after.says("(", ".")):
                yield word.text
        elif word.says(*_ENDS_LIST):
            in_list[-1] = False
