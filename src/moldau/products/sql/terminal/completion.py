"""What may stand at the cursor: keywords, names of the catalog, functions and properties."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from moldau.products.sql.catalog.catalog import Catalog
from moldau.products.sql.catalog.storage import PROPERTIES as STORAGE_PROPERTIES
from moldau.products.sql.engine.looking.session_properties import PROPERTIES
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.functions.table import FUNCTIONS
from moldau.products.sql.language.parser.administration import READERS
from moldau.products.sql.language.statements import Subject
from moldau.products.sql.language.tokens import Token, tokenize
from moldau.products.sql.terminal.words import KEYWORDS

_LAST_WORD = re.compile(r"[\w.]*$")
_RELATION_AFTER = ("FROM", "JOIN", "INTO", "DESCRIBE", "DESC", "STREAM", "TABLE", "STREAM(")
_QUERY_AFTER = ("TERMINATE", "PAUSE", "RESUME", "EXPLAIN")
_WORDS_AFTER: Mapping[str, Sequence[str]] = {
    "": tuple(dict.fromkeys((*READERS, "SELECT", "WITH", "CREATE", "DROP", "EXPLAIN", "ASSERT"))),
    "SHOW": [one.name for one in Subject],
    "LIST": [one.name for one in Subject],
    "CREATE": ["STREAM", "TABLE", "OR", "SOURCE", "TYPE", "VIEW", "FUNCTION", "FLOW", "MATERIALIZED", "STREAMING"],
    "DROP": ["STREAM", "TABLE", "TYPE", "VIEW", "FUNCTION"],
    "INSERT": ["INTO"],
    "EMIT": ["CHANGES", "FINAL"],
    "RUN": ["SCRIPT"],
    "ASSERT": ["STREAM", "TABLE", "VALUES", "NULL", "TOPIC", "SCHEMA", "NOT"],
}
"""By the word before; "" is the beginning of a statement."""

Candidate = tuple[str, str]
"""A word, and its kind for people."""


def completions(before: str, catalog: Catalog) -> list[tuple[str, str, int]]:
    """Words, their kinds, and how many characters before the cursor they take the place of. `before`: the text before
    the cursor. Sorted: names first."""
    text = before.rpartition(";")[2]
    quoted = re.search(r"(?i)\b(?:SET|UNSET)\s+'([^']*)$", text)
    if quoted is not None:
        return _matching(quoted[1], ((name, "property") for name in sorted(PROPERTIES)))
    tokens = _tokens(text)
    if tokens is None:
        return []
    prefix = _LAST_WORD.search(text)[0]  # type: ignore[index]
    if prefix and tokens:
        tokens = tokens[: -len(tokenize(prefix)[:-1])]
    alias, dot, start = prefix.rpartition(".")
    if dot:
        return _matching(start, _columns(catalog, _called(_tokens(text) or [], catalog).get(alias.lower(), ())))
    return _matching(prefix, _candidates(tokens, catalog))


def _candidates(tokens: list[Token], catalog: Catalog) -> Iterator[Candidate]:
    last = tokens[-1].text.upper() if tokens else ""
    relations = [(one.name, one.kind.value) for one in catalog.relations.values()]
    relations += [(one.name, "view") for one in catalog.views.values()]
    own = [*(one.name for one in catalog.functions.values()), *(one.name for one in catalog.given.values())]
    functions = [(name, "function") for name in (*FUNCTIONS, *own)]
    if last in _WORDS_AFTER:
        yield from ((word, "") for word in _WORDS_AFTER[last])
    elif last == "FUNCTION":
        yield from functions
    elif last in _QUERY_AFTER:
        yield from ((id, "query") for id in catalog.queries)
        yield from ((word, "") for word in ("ALL", "SELECT", "CREATE", "INSERT"))
    elif last in _RELATION_AFTER:
        yield from relations
        yield from ((word, "") for word in ("IF", "EXTENDED", "FUNCTION"))
    elif last == "PRINT":
        yield from ((one.topic, "topic") for one in catalog.relations.values())
    else:
        if _is_within(tokens, "WITH"):
            yield from ((name, "property") for name in STORAGE_PROPERTIES)
        named = {key for keys in _called(tokens, catalog).values() for key in keys}
        yield from _columns(catalog, named)
        yield from relations
        yield from ((word, "") for word in KEYWORDS)
        yield from functions


def _matching(start: str, candidates: Iterable[Candidate]) -> list[tuple[str, str, int]]:
    """Once each. A keyword follows the case in which the word begins."""
    found: dict[str, tuple[str, str, int]] = {}
    for word, kind in candidates:
        if word.lower().startswith(start.lower()) and word.lower() not in found:
            is_lower = start != "" and start.islower() and word in KEYWORDS and not kind
            found[word.lower()] = (word.lower() if is_lower else word, kind, len(start))
    ranks = {"column": 0, "stream": 1, "table": 1, "view": 1, "query": 1, "property": 1, "topic": 1, "": 2}
    return sorted(found.values(), key=lambda one: (ranks.get(one[1], 3), one[0].lower()))


def _columns(catalog: Catalog, keys: Iterable[str]) -> Iterator[Candidate]:
    for key in sorted(keys):
        relation = catalog.relations.get(key)
        for column in relation.columns or () if relation is not None else ():
            yield column.name.text, "column"


def _called(tokens: list[Token], catalog: Catalog) -> Mapping[str, list[str]]:
    """The keys of the relations that the statement names, by their names and aliases in lower case."""
    found: dict[str, list[str]] = {}
    for place, token in enumerate(tokens):
        key = token.value.lower()
        if not token.is_name or key not in catalog.relations:
            continue
        found.setdefault(key, []).append(key)
        after = tokens[place + 1 : place + 3]
        if after and after[0].says("AS"):
            after = after[1:]
        if after and after[0].is_name and after[0].text.upper() not in KEYWORDS:
            found.setdefault(after[0].value.lower(), []).append(key)
    return found


def _is_within(tokens: list[Token], word: str) -> bool:
    """Whether the cursor is in the parentheses after this word."""
    depth = 0
    for place in range(len(tokens) - 1, 0, -1):
        depth += tokens[place].says(")") - tokens[place].says("(")
        if depth < 0:
            return tokens[place - 1].says(word)
    return False


def _tokens(text: str) -> list[Token] | None:
    """None inside of a string or a comment."""
    try:
        return tokenize(text)[:-1]
    except SqlError:
        return None
