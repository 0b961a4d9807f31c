"""Finds the relations that a SQL statement reads, and whether it groups, without a full SQL parser.

A relation stands after FROM or JOIN, or after a comma in the list that FROM began. These are not relations: a name that
WITH defines, after its definition; a function (`range(10)`, `explode(x)`); a name of several parts (a table of Spark's
catalogue, or files, such as parquet.`/prices`); and FROM within a function (`extract(year from at)`, `trim(both ' '
from name)`). (sqlglot 30 rejects `group by window(at, '1 minute'), user`, which every streaming pipeline has.)
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


class Word:
    """One token. `is_name`: it may name a relation or a column. Unquoted words are compared in lower case, as SQL
    does."""

    __slots__ = ("is_name", "is_quoted", "text")

    def __init__(self, text: str, *, is_name: bool, is_quoted: bool) -> None:
        self.text, self.is_name, self.is_quoted = text, is_name, is_quoted

    @property
    def is_value(self) -> bool:
        """Whether it is a literal or a closing bracket."""
        return not self.is_name and (self.is_quoted or self.text in (")", "]") or self.text[:1].isdigit())

    def says(self, *keywords: str) -> bool:
        return not self.is_quoted and self.text.lower() in keywords


def relations_of(sql: str) -> tuple[str, ...]:
    """The distinct one-part names that the statement reads, in the order of their first occurrence."""
    words = list(words_of(sql))
    hidden: dict[str, list[range]] = {}
    for name, places in _defined(words):
        hidden.setdefault(name.lower(), []).append(places)
    found = {
        words[place].text: None
        for place in _read(words)
        if not any(place in places for places in hidden.get(words[place].text.lower(), ()))
    }
    return tuple(found)


def quoted(name: str) -> str:
    """`name` as a column in SQL."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """`text` as a string literal in SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def groups(sql: str) -> bool:
    """Whether the statement groups rows (GROUP BY, SELECT DISTINCT): in append mode a stream emits such a row only
    after a watermark has completed its group."""
    words = list(words_of(sql))
    return any(
        (first.says("group") and second.says("by")) or (first.says("select") and second.says("distinct"))
        for first, second in pairwise(words)
    )


def words_of(sql: str) -> Iterator[Word]:
    """The tokens of a statement, without blanks and comments."""
    for match in _TOKEN.finditer(sql):
        if match["quoted"] is not None:
            yield Word(match["quoted"].replace("``", "`"), is_name=True, is_quoted=True)
        elif match["word"] is not None:
            yield Word(match["word"], is_name=True, is_quoted=False)
        elif match["skipped"] is None:
            yield Word(match[0], is_name=False, is_quoted=match["text"] is not None)


def _defined(words: list[Word]) -> Iterator[tuple[str, range]]:
    """Each name that WITH defines, with the places where it hides an outer relation: from the end of its definition,
    which may still read that relation, to the end of the query that WITH begins. With RECURSIVE the definition reads
    itself."""
    ends = _ends(words)
    for place, word in enumerate(words):
        if not word.says("with"):
            continue
        name = place + 1
        # in `with recursive as (`, `recursive` is a name
        is_recursive = _says(words, name, "recursive") and not _says(words, name + 1, "as", "(")
        name += is_recursive
        while name < len(words) and words[name].is_name:
            after = name + 1
            if _says(words, after, "("):
                after = ends[after] + 1
            if not (_says(words, after, "as") and _says(words, after + 1, "(")):
                break
            end = ends[after + 1]
            yield words[name].text, range(name if is_recursive else end, ends[place])
            if not _says(words, end + 1, ","):
                break
            name = end + 2


def _says(words: list[Word], place: int, *keywords: str) -> bool:
    return place < len(words) and words[place].says(*keywords)


def _ends(words: list[Word]) -> list[int]:
    """For each word, the place where the enclosing parenthesis closes; for an opening parenthesis, where it closes
    itself."""
    ends = [len(words)] * len(words)
    around: list[list[int]] = [[]]
    for place, word in enumerate(words):
        if word.says("("):
            around.append([])
        around[-1].append(place)
        if word.says(")") and len(around) > 1:
            for inner in around.pop():
                ends[inner] = place
    return ends


def _read(words: list[Word]) -> Iterator[int]:
    """The places of the relations. Tracks for each open parenthesis whether it holds a query or an expression, and
    whether the list of FROM continues in it."""
    in_query, in_list = [True], [False]
    is_expected = False
    for place, word in enumerate(words):
        before = words[place - 1] if place else None
        after = words[place + 1] if place + 1 < len(words) else None
        if word.says("("):
            # `(select` begins a query, `from (a join b)` holds relations, any other parenthesis holds an expression
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
                yield place
        elif word.says(*_ENDS_LIST):
            in_list[-1] = False
