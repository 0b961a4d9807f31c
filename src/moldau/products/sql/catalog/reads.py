"""The relations that a query reads, and the statements of kept items."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import pairwise

from moldau.products.pipelines.core.statement import relations_of
from moldau.products.sql.catalog.catalog import Catalog, Function, Written
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.language.queries import Fragment, Name, Query, error_of
from moldau.products.sql.language.statements import CreateFunction, Statement
from moldau.products.sql.language.tokens import text_of


def relations_read(query: Query) -> tuple[Name, ...]:
    """Distinct names. One in a part that is not taken apart has the place of that part."""
    defined = set(_defined(query.definitions)) if query.definitions is not None else set()
    found: dict[str, Name] = {}
    for name in _all(query):
        if name.key not in defined:
            found.setdefault(name.key, name)
    return tuple(found.values())


def names_read(catalog: Catalog, query: Query) -> list[Name]:
    """All names that it reads, also through views, in the order of the text. Raises SqlError for an unknown one."""
    found: dict[str, Name] = {}
    waiting = deque(relations_read(query))
    while waiting:
        name = waiting.popleft()
        if name.key not in catalog.relations and name.key not in catalog.views:
            raise unknown_relation(catalog, name)
        if name.key not in found and name.key in catalog.views:
            waiting += [Name(key, *name.place) for key in sorted(catalog.views[name.key].reads)]
        found.setdefault(name.key, name)
    return list(found.values())


def unknown_relation(catalog: Catalog, name: Name) -> SqlError:
    return error_of(name, f"there is no stream, table or view {name.text}", catalog.nearest_relation(name.text))


def read_again(written: Written) -> Statement:
    """The statement of an item of the catalog. Raises SqlError."""
    (parsed,) = parse_script(written.statement, types=written.types, substitutes=False)
    return parsed.statement


def function_of(kept: Function) -> CreateFunction:
    """The statement of a function. Raises SqlError."""
    statement = read_again(kept)
    if not isinstance(statement, CreateFunction):
        raise TypeError(statement)
    return statement


def _all(query: Query) -> Iterator[Name]:
    if not query.selects:
        yield from _names_in(query.source)
        return
    if query.definitions is not None:
        yield from _names_in(query.definitions, " select 1")
    for select in query.selects:
        for relation in (select.relation, *(join.relation for join in select.joins)):
            if relation is not None:
                yield from _names_in(relation.source, before="from ") if relation.name is None else (relation.name,)
        for part in (*(item.expression for item in select.items), select.where, select.having):
            if part is not None:  # it may hold a query
                yield from _names_in(part)


def _names_in(fragment: Fragment, after: str = "", *, before: str = "") -> Iterator[Name]:
    tokens = fragment.tokens
    # `STREAM name` and `STREAM(name)` name the relation itself
    kept = [
        token
        for place, token in enumerate(tokens)
        if not (token.says("STREAM") and (not place or tokens[place - 1].says("FROM", "JOIN", ",")))
    ]
    for name in relations_of(f"{before}{text_of(kept)}{after}"):
        yield Name(name, tokens[0].line, tokens[0].column)


def _defined(definitions: Fragment) -> Iterator[str]:
    """The names before `AS (` outside of brackets, as in `WITH a AS (...), b (x) AS (...)`."""
    depth = 0
    tokens = definitions.tokens
    for before, token in pairwise(tokens):
        if depth == 0 and token.is_name and before.says("WITH", "RECURSIVE", ","):
            yield token.value.lower()
        depth += token.says("(") - token.says(")")
