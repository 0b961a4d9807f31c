"""Streams, tables and queries of a SQL service as boxes and lines."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.products.console.core.sql_facts import SqlLists, SqlQuery
from moldau.products.service.look.plan import Box, Edge
from moldau.products.service.look.words import show_count, show_rate, visible

MAX_DRAWN = 60
"""Boxes; of more, none are drawn."""


def picture_of_sql(lists: SqlLists) -> tuple[list[Box], list[Edge]]:
    """What queries read and write, with their rates on the lines. Streams and tables without a query are left out.
    Empty without a query, or if it would have too many boxes."""
    queries = lists.queries
    read = {name for query in queries for name in query.moldau.reads}
    written = {name for query in queries for name in query.sinks}
    links = [(name, query.id) for query in queries for name in query.moldau.reads]
    links += [(query.id, name) for query in queries for name in query.sinks]
    found = {query.id: _box(query) for query in queries}
    for one in lists.relations:
        if one.name in read or one.name in written:
            kind = "source" if one.name not in written else "target" if one.name not in read else "flow"
            found[one.name] = Box(visible(one.name), kind, one.type.lower())
    if not queries or len(found) > MAX_DRAWN:
        return [], []
    links = [link for link in links if link[0] in found and link[1] in found]
    order = _in_order(list(found), links)
    places = {name: place for place, name in enumerate(order)}
    rates = {query.id: f"{show_rate(query.moldau.records_per_second)}/s" for query in queries}
    return [found[name] for name in order], [Edge(places[a], places[b], rates.get(b, "")) for a, b in links]


def _box(query: SqlQuery) -> Box:
    figures = query.moldau
    lag = "" if figures.lag is None else f", lag {show_count(figures.lag)}"
    return Box(visible(query.id), "flow", f"{figures.state}{lag}", is_in_trouble=figures.error is not None)


def _in_order(names: list[str], links: Sequence[tuple[str, str]]) -> list[str]:
    """Each after those with a line to it. Of a cycle, which the service rejects, in any order."""
    order: list[str] = []
    left = dict.fromkeys(names)
    while left:
        ready = [name for name in left if not any(b == name and a in left for a, b in links)] or [next(iter(left))]
        for name in ready:
            del left[name]
        order += ready
    return order
