"""Finds the columns that a plain SELECT reads and returns, without Spark and without a full SQL parser.

Gives only certain results. A statement with one of the rarer forms (WITH, set operations, subqueries, LATERAL, PIVOT,
lambdas) is left to Spark. An unknown name counts as a mistake only if a column has a similar name, so a SQL word that
is missing here does not reject a statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from moldau.products.pipelines.core.statement import Word, words_of
from moldau.types import nearest

_LIKE = 0.75
_SHORTEST = 3
_RARE = frozenset(
    {"with", "union", "except", "minus", "intersect", "lateral", "pivot", "unpivot", "values", "table", "exists",
     "match_recognize", "transform", "map", "reduce", "tablesample", "within", "filter", "struct", "named_struct"}
)  # fmt: skip
_WORDS = frozenset(
    {"select", "distinct", "all", "from", "where", "group", "by", "having", "order", "sort", "cluster", "distribute",
     "limit", "offset", "as", "and", "or", "not", "in", "is", "null", "true", "false", "like", "ilike", "rlike",
     "regexp", "between", "escape", "case", "when", "then", "else", "end", "cast", "try_cast", "interval", "date",
     "timestamp", "timestamp_ntz", "timestamp_ltz", "time", "on", "using", "join", "inner", "left", "right", "full",
     "outer", "cross", "semi", "anti", "natural", "asc", "desc", "nulls", "first", "last", "over", "partition",
     "rows", "range", "unbounded", "preceding", "following", "current", "row", "window", "rollup", "cube",
     "grouping", "sets", "div", "current_date", "current_timestamp", "current_time", "current_user",
     "localtimestamp", "session_user", "user", "extract", "trim", "both", "leading", "trailing", "for", "at", "zone",
     "local", "to", "year", "years", "quarter", "month", "months", "week", "weeks", "day", "days", "dayofweek",
     "hour", "hours", "minute", "minutes", "second", "seconds", "millisecond", "milliseconds", "microsecond",
     "microseconds", "nanosecond", "position", "overlay", "placing", "substring", "any", "some", "respect", "ignore",
     "collate", "qualify", "int", "integer", "bigint", "smallint", "tinyint", "double", "float", "real", "string",
     "boolean", "binary", "decimal", "dec", "numeric", "varchar", "char", "void", "array", "variant", "inf",
     "infinity", "nan"}
)  # fmt: skip
"""Treated as words of SQL, though some may be columns."""
_BEFORE_COLUMN = frozenset(
    {"select", "distinct", "all", "where", "by", "having", "on", "and", "or", "not", "when", "then", "else", "case",
     "between", "like", "ilike", "rlike", "regexp", "in", "from", "both", "leading", "trailing", "div"}
)  # fmt: skip
"""After any other word, a name is an alias."""


class Select:
    """A plain SELECT over relations. `relations`: the columns of each, by its name in the statement (lower case); None
    if they are not known."""

    def __init__(self, words: Sequence[Word], relations: Mapping[str, Sequence[str] | None]) -> None:
        self._words = words
        self._relations = relations

    def unknown(self) -> Iterator[tuple[str, str]]:
        """Unknown names, each with the column that was probably meant."""
        columns = [name for of_one in self._relations.values() for name in of_one or ()]
        known = {name.lower() for name in (*columns, *self._relations, *self._named())}
        for place, word in enumerate(self._words):
            if not self._is_column(place) or word.text.lower() in known or len(word.text) < _SHORTEST:
                continue
            near = nearest(word.text, columns, cutoff=_LIKE)
            if near is not None:
                yield word.text, near

    def gives(self) -> list[str] | None:
        """The column names of the result; None if one of them cannot be determined."""
        found: list[str] = []
        for item in self._items():
            if len(item) >= 1 and item[-1].says("*"):
                if len(item) > 1 or len(self._relations) != 1:
                    return None
                found += [name for columns in self._relations.values() for name in columns or ()]
            elif item and item[-1].is_name and (len(item) == 1 or item[-2].says("as", ".") or item[-2].is_value):
                found.append(item[-1].text)
            else:
                return None
        return found

    def _is_column(self, place: int) -> bool:
        """Whether the word can only be a column of a relation: not a function, alias, type, field or key word."""
        word = self._words[place]
        before = self._words[place - 1] if place else None
        after = self._words[place + 1] if place + 1 < len(self._words) else None
        if not word.is_name or (not word.is_quoted and word.text.lower() in _WORDS):
            return False
        if after is not None and after.says("("):
            return False
        if before is None or not before.says(".", "as"):
            return before is None or before.says(*_BEFORE_COLUMN) or not (before.is_name or before.is_value)
        qualifier = self._words[place - 2].text.lower() if place > 1 else ""
        is_field = place > 2 and self._words[place - 3].says(".")
        return before.says(".") and qualifier in self._relations and not is_field

    def _named(self) -> set[str]:
        """Every name that the statement itself defines (`as x`, `x x`), for use in HAVING, ORDER BY and later items."""
        return {
            word.text
            for place, word in enumerate(self._words)
            if place and word.is_name and not self._is_column(place) and not word.says(*_WORDS)
        }

    def _items(self) -> Iterator[list[Word]]:
        depth = 0
        item: list[Word] = []
        for word in self._words[1:]:
            if depth == 0 and word.says("from"):
                break
            if word.says("distinct") and not item:
                continue
            depth += word.says("(", "[") - word.says(")", "]")
            if depth == 0 and word.says(","):
                yield item
                item = []
            else:
                item.append(word)
        yield item


def plain_select(sql: str, views: Mapping[str, Sequence[str] | None]) -> Select | None:
    """None unless the statement is so plain that its columns are certain. `views`: the relations that it may read, with
    their columns if known."""
    words = list(words_of(sql))
    selects = sum(word.says("select") for word in words)
    if not words or not words[0].says("select") or selects != 1 or any(word.says(*_RARE) for word in words):
        return None
    if any(one.says("-") and other.says(">") for one, other in pairwise(words)):
        return None
    if any(word.says("{", "}", ":", "?", "|", "@", "=>") for word in words):
        return None
    places = _relation_places(words)
    if places is None:
        return None
    relations: dict[str, Sequence[str] | None] = {}
    for place in places:
        word = words[place]
        columns = next((of_one for name, of_one in views.items() if name.lower() == word.text.lower()), None)
        if columns is None:
            return None
        relations[_alias(words, place)] = columns
    return Select(words, relations) if relations else None


def _relation_places(words: Sequence[Word]) -> list[int] | None:
    """The places after FROM and JOIN at the outermost level; None if FROM has a list, which may contain functions."""
    depth, is_list, found = 0, False, []
    for place, word in enumerate(words[:-1]):
        depth += word.says("(", "[") - word.says(")", "]")
        if depth:
            continue
        if word.says("from", "join"):
            found.append(place + 1)
            is_list = True
        elif word.says("where", "group", "having", "order", "sort", "cluster", "distribute", "window", "limit"):
            is_list = False
        elif is_list and word.says(","):
            return None
    return found


def _alias(words: Sequence[Word], place: int) -> str:
    after = place + 1
    if after < len(words) and words[after].says("as"):
        after += 1
    if after < len(words) and words[after].is_name and not words[after].says(*_WORDS):
        return words[after].text.lower()
    return words[place].text.lower()
