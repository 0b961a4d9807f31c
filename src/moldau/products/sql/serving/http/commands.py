"""The status of statements that were run, as /status tells it, from what the catalog holds.

A statement has ended when its response is sent, and its effect is kept in the catalog: so nothing else is stored, and
every instance that takes over gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from moldau.products.sql.catalog.catalog import Catalog, QueryState, Relation

Status = dict[str, str | None]

SUCCESS, TERMINATED = "SUCCESS", "TERMINATED"


def known_commands(catalog: Catalog) -> dict[str, Status]:
    """The ids of the statements that made what there is, with their status."""
    return dict(_commands(catalog))


def status_of(catalog: Catalog, kind: str, name: str, action: str) -> Status | None:
    """Of the statement with the id `kind/name/action`; None if it was not run, or undone by another one."""
    key = name.strip("`").lower()
    asked = f"{kind}/{key}/{action}".lower()
    known = {command.lower(): status for command, status in known_commands(catalog).items()}
    if asked in known:
        return known[asked]
    items: Mapping[str, object] | None = {
        "stream": catalog.relations, "table": catalog.relations, "type": catalog.types, "view": catalog.views,
        "function": catalog.functions,
    }.get(kind.lower())  # fmt: skip
    if items is not None and action.lower() == "drop" and key not in items:
        return _status(SUCCESS, f"there is no {kind.lower()} {name}")
    if action.lower() == "execute" and _is_done(catalog, kind.lower(), key.upper()):
        return _status(SUCCESS, "done")
    return None


def _commands(catalog: Catalog) -> Iterator[tuple[str, Status]]:
    for relation in catalog.relations.values():
        yield f"{relation.kind.value}/{relation.name}/create", _of_relation(catalog, relation)
    for name in catalog.types:
        yield f"type/{name}/create", _status(SUCCESS, f"type {name} is created")


def _of_relation(catalog: Catalog, relation: Relation) -> Status:
    name, query = f"{relation.kind.value} {relation.name}", relation.made_by
    if query is None:
        return _status(SUCCESS, f"{name} is created")
    if query not in catalog.queries:
        return _status(TERMINATED, f"the query {query}, which made {name}, is terminated", query)
    return _status(SUCCESS, f"{name} is made by the query {query}", query)


def _is_done(catalog: Catalog, kind: str, query_id: str) -> bool:
    """Whether a query, or ALL, is terminated, paused or resumed."""
    queries = list(catalog.queries.values())
    if query_id != "ALL":
        queries = [one for one in queries if one.id == query_id]
    if kind == "terminate":
        return not queries
    wanted = {"pause": QueryState.PAUSED, "resume": QueryState.RUNNING}.get(kind)
    return bool(queries) and all(one.state is wanted for one in queries)


def _status(status: str, message: str, query_id: str | None = None) -> Status:
    return {"status": status, "message": message, "queryId": query_id}
