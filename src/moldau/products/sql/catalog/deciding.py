"""What a statement changes.

`decide` gives the changes and what is to be done outside, and changes nothing; `apply` puts one change into the
catalog. The same changes give the same catalog in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from moldau.products.sql.catalog.catalog import Catalog, PersistentQuery, QueryState, Relation, with_item, without
from moldau.products.sql.catalog.reads import relations_read
from moldau.products.sql.catalog.storage import Storage, storage_of
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.queries import Name, Query
from moldau.products.sql.language.statements import (
    Action,
    Column,
    Control,
    CreateAs,
    CreateFunction,
    CreateSource,
    CreateType,
    CreateView,
    Drop,
    Droppable,
    InsertQuery,
    InsertValues,
    Kind,
    Role,
    Statement,
)
from moldau.types import nearest

MAX_QUERIES = 200
"""Each costs memory in the Spark session."""


class Change(msgspec.Struct, frozen=True, tag=True, tag_field="change"):
    """One change of the catalog."""


class PutRelation(Change, frozen=True):
    relation: Relation


class RemoveRelation(Change, frozen=True):
    key: str


class PutQuery(Change, frozen=True):
    query: PersistentQuery


class RemoveQuery(Change, frozen=True):
    id: str


class PutView(Change, frozen=True):
    view: CreateView


class RemoveView(Change, frozen=True):
    key: str


class PutFunction(Change, frozen=True):
    function: CreateFunction


class RemoveFunction(Change, frozen=True):
    key: str


class PutType(Change, frozen=True):
    key: str
    type: str


class RemoveType(Change, frozen=True):
    key: str


class TopicNeeded(msgspec.Struct, frozen=True):
    """The topic must exist before the changes are kept. `is_made`: it is made if it is missing; otherwise that is an
    error. `is_compacted`: a table's."""

    storage: Storage
    topic: str
    is_made: bool
    is_compacted: bool


class TopicDeleted(msgspec.Struct, frozen=True):
    topic: str


class RowsWritten(msgspec.Struct, frozen=True):
    """The rows of INSERT INTO ... VALUES."""

    relation: Relation
    insert: InsertValues


class Decision(msgspec.Struct, frozen=True):
    """`outside`: to be done before the changes are kept, but TopicDeleted after them. `message`: for people."""

    message: str
    changes: tuple[Change, ...] = ()
    outside: tuple[TopicNeeded | TopicDeleted | RowsWritten, ...] = ()


def apply(catalog: Catalog, change: Change) -> Catalog:
    """The catalog after a change."""
    replace = msgspec.structs.replace
    match change:
        case PutRelation(relation):
            return replace(catalog, relations=with_item(catalog.relations, relation.name.lower(), relation))
        case RemoveRelation(key):
            return replace(catalog, relations=without(catalog.relations, [key]))
        case PutQuery(query):
            number = max(catalog.next_number, int(query.id.rpartition("_")[2]) + 1)
            return replace(catalog, queries=with_item(catalog.queries, query.id, query), next_number=number)
        case RemoveQuery(id):
            return replace(catalog, queries=without(catalog.queries, [id]))
        case PutView(view):
            return replace(catalog, views=with_item(catalog.views, view.name.key, view))
        case RemoveView(key):
            return replace(catalog, views=without(catalog.views, [key]))
        case PutFunction(function):
            return replace(catalog, functions=with_item(catalog.functions, function.name.key, function))
        case RemoveFunction(key):
            return replace(catalog, functions=without(catalog.functions, [key]))
        case PutType(key, type):
            return replace(catalog, types=with_item(catalog.types, key, type))
        case RemoveType(key):
            return replace(catalog, types=without(catalog.types, [key]))
    raise TypeError(change)


def decide(catalog: Catalog, parsed: Parsed) -> Decision:
    """What a statement changes that defines something, inserts, drops, or steers queries. Raises SqlError, and KeyError
    for other statements."""
    return _DECIDERS[type(parsed.statement)](catalog, parsed, parsed.statement)


def _create_source(catalog: Catalog, parsed: Parsed, statement: CreateSource) -> Decision:
    key, name = statement.name.key, statement.name
    if statement.if_not_exists and _is_taken(catalog, key):
        return Decision(f"{name.text} exists already")
    before = _replaced(catalog, statement.kind, name, or_replace=statement.or_replace)
    if before is not None and before.made_by is not None:
        raise _error(
            name, f"{before.name} is made by the query {before.made_by}: replace it by CREATE ... AS, or drop it"
        )
    storage = storage_of(statement.properties, {}, name)
    _check_columns(statement.columns, statement.kind, storage, name)
    relation = Relation(
        name.text, statement.kind, storage, statement.columns or None, parsed.text, is_read_only=statement.is_read_only
    )
    topic = TopicNeeded(storage, relation.topic, storage.partitions is not None, statement.kind is Kind.TABLE)
    return Decision(f"{statement.kind.value} {name.text} is created", (PutRelation(relation),), (topic,))


def _create_as(catalog: Catalog, parsed: Parsed, statement: CreateAs) -> Decision:
    key, name = statement.name.key, statement.name
    if statement.if_not_exists and _is_taken(catalog, key):
        return Decision(f"{name.text} exists already")
    before = _replaced(catalog, statement.kind, name, or_replace=statement.or_replace)
    if before is not None and before.made_by is None:
        raise _error(name, f"{before.name} is declared, and no query makes it: drop it, or insert into it")
    reads = _reads(catalog, statement.query)
    if key in reads:
        raise _error(name, f"{name.text} reads itself")
    storage = storage_of(statement.properties, _formats_of(catalog, reads), name)
    id = before.made_by if before is not None else None
    if id is None:
        id = _new_id(catalog, "CSAS" if statement.kind is Kind.STREAM else "CTAS", name)
    relation = Relation(name.text, statement.kind, storage, None, parsed.text, made_by=id)
    query = PersistentQuery(id, key, reads, parsed.text)
    topic = TopicNeeded(storage, relation.topic, is_made=True, is_compacted=statement.kind is Kind.TABLE)
    return Decision(
        f"{statement.kind.value} {name.text} is made by the query {id}",
        (PutRelation(relation), PutQuery(query)),
        (topic,),
    )


def _insert_query(catalog: Catalog, parsed: Parsed, statement: InsertQuery) -> Decision:
    target = _writable(catalog, statement.target)
    reads = _reads(catalog, statement.query)
    key = statement.target.key
    if key in reads or key in _upstream(catalog, reads):
        raise _error(statement.target, f"{target.name} would read its own rows again without end")
    _check_named(target, statement.columns)
    id = _new_id(catalog, "INSERTQUERY", None)
    query = PersistentQuery(id, key, reads, parsed.text)
    return Decision(f"the query {id} writes to {target.name}", (PutQuery(query),))


def _insert_values(catalog: Catalog, parsed: Parsed, statement: InsertValues) -> Decision:
    target = _writable(catalog, statement.target)
    _check_named(target, statement.columns)
    width = len(statement.columns) or (None if target.columns is None else len(target.columns))
    for row in statement.rows:
        if width is not None and len(row) != width:
            first = row[0].tokens[0]
            place = Name(first.text, first.line, first.column)
            raise _error(place, f"a row has {len(row)} values for {width} columns")
    keys = [column for column in target.columns or () if column.role is Role.PRIMARY_KEY]
    named = {one.key for one in statement.columns}
    missing = [column.name.text for column in keys if statement.columns and column.name.key not in named]
    if missing:
        raise _error(statement.target, f"a row of a table has its key: name the column {missing[0]} too")
    rows = f"{len(statement.rows)} row" + "s" * (len(statement.rows) != 1)
    return Decision(f"{rows} written to {target.name}", (), (RowsWritten(target, statement),))


def _create_view(catalog: Catalog, parsed: Parsed, statement: CreateView) -> Decision:
    key, name = statement.name.key, statement.name
    if key in catalog.views and statement.if_not_exists:
        return Decision(f"{name.text} exists already")
    if key in catalog.relations or (key in catalog.views and not statement.or_replace):
        raise _exists(catalog, name)
    if any(one.key == key for one in _names_read(catalog, statement.query)):
        raise _error(name, f"{name.text} reads itself")
    return Decision(f"view {name.text} is created", (PutView(statement),))


def _create_function(catalog: Catalog, parsed: Parsed, statement: CreateFunction) -> Decision:
    name = statement.name
    if name.key in catalog.functions:
        if statement.if_not_exists:
            return Decision(f"{name.text} exists already")
        if not statement.or_replace:
            raise _error(name, f"there is a function {name.text} already: use OR REPLACE")
    return Decision(f"function {name.text} is created", (PutFunction(statement),))


def _create_type(catalog: Catalog, parsed: Parsed, statement: CreateType) -> Decision:
    name = statement.name
    if name.key in catalog.types:
        if statement.if_not_exists:
            return Decision(f"{name.text} exists already")
        raise _error(name, f"there is a type {name.text} already: drop it first")
    return Decision(f"type {name.text} is created", (PutType(name.key, statement.type),))


def _drop(catalog: Catalog, parsed: Parsed, statement: Drop) -> Decision:
    name, what = statement.name, statement.what
    if what in (Droppable.STREAM, Droppable.TABLE):
        return _drop_relation(catalog, statement)
    known: Mapping[str, object]
    known, removed = {
        Droppable.VIEW: (catalog.views, RemoveView),
        Droppable.FUNCTION: (catalog.functions, RemoveFunction),
        Droppable.TYPE: (catalog.types, RemoveType),
    }.get(what, ({}, RemoveView))
    if name.key not in known:
        if statement.if_exists:
            return Decision(f"there is no {what.value} {name.text}")
        raise _error(name, f"there is no {what.value} {name.text}", nearest(name.key, known))
    if what is Droppable.VIEW:
        users = [view.name.text for view in catalog.views.values() if _view_reads(view, name.key)]
        if users:
            raise _error(name, f"the view {users[0]} reads {name.text}: drop that first")
    return Decision(f"{what.value} {name.text} is dropped", (removed(name.key),))


def _drop_relation(catalog: Catalog, statement: Drop) -> Decision:
    name, what = statement.name, statement.what
    relation = catalog.relations.get(name.key)
    if relation is None:
        if statement.if_exists:
            return Decision(f"there is no {what.value} {name.text}")
        raise _unknown(catalog, name)
    if relation.kind.value != what.value:
        raise _error(name, f"{relation.name} is a {relation.kind.value}: DROP {relation.kind.value.upper()}")
    others = [id for id in (*catalog.readers_of(name.key), *catalog.writers_of(name.key)) if id != relation.made_by]
    if others:
        raise _error(name, f"{relation.name} is used by {', '.join(others)}: TERMINATE first")
    views = [view.name.text for view in catalog.views.values() if _view_reads(view, name.key)]
    if views:
        raise _error(name, f"the view {views[0]} reads {relation.name}: drop that first")
    if statement.deletes_topic and relation.is_read_only:
        raise _error(name, f"{relation.name} is a source that is only read: its topic is not deleted with it")
    own = tuple(RemoveQuery(id) for id in catalog.queries if id == relation.made_by)
    deleted = (TopicDeleted(relation.topic),) if statement.deletes_topic else ()
    return Decision(f"{what.value} {relation.name} is dropped", (*own, RemoveRelation(name.key)), deleted)


def _control(catalog: Catalog, parsed: Parsed, statement: Control) -> Decision:
    action, name = statement.action, statement.query
    queries = list(catalog.queries.values())
    if name is not None:
        query = catalog.queries.get(name.text.upper())
        if query is None:
            raise _error(name, f"no query has the id {name.text}", nearest(name.text.upper(), catalog.queries))
        queries = [query]
    done = {Action.PAUSE: "paused", Action.RESUME: "resumed", Action.TERMINATE: "terminated"}[action]
    message = f"{', '.join(query.id for query in queries) or 'no query'}: {done}"
    if action is Action.TERMINATE:
        return Decision(message, tuple(RemoveQuery(query.id) for query in queries))
    state = QueryState.PAUSED if action is Action.PAUSE else QueryState.RUNNING
    return Decision(
        message, tuple(PutQuery(msgspec.structs.replace(one, state=state)) for one in queries if one.state is not state)
    )


_DECIDERS: Mapping[type[Statement], Callable[..., Decision]] = {
    CreateSource: _create_source,
    CreateAs: _create_as,
    InsertQuery: _insert_query,
    InsertValues: _insert_values,
    CreateView: _create_view,
    CreateFunction: _create_function,
    CreateType: _create_type,
    Drop: _drop,
    Control: _control,
}


def _replaced(catalog: Catalog, kind: Kind, name: Name, *, or_replace: bool) -> Relation | None:
    """The relation that OR REPLACE replaces."""
    before = catalog.relations.get(name.key)
    if before is None and name.key not in catalog.views:
        return None
    if before is None or not or_replace:
        raise _exists(catalog, name)
    if before.kind is not kind:
        raise _error(name, f"{before.name} is a {before.kind.value}, which no {kind.value} replaces: drop it first")
    return before


def _is_taken(catalog: Catalog, key: str) -> bool:
    return key in catalog.relations or key in catalog.views


def _check_columns(columns: Sequence[Column], kind: Kind, storage: Storage, at: Name) -> None:
    names = [column.name.key for column in columns]
    if storage.timestamp is not None and columns and storage.timestamp.lower() not in names:
        near = nearest(storage.timestamp.lower(), names)
        raise _error(at, f"`timestamp` names {storage.timestamp}, which is no column", near)
    if storage.key_format == "none":
        keys = [column for column in columns if column.role in (Role.KEY, Role.PRIMARY_KEY)]
        if keys:
            raise _error(keys[0].name, f"{keys[0].name.text} is a key, and `key_format` is NONE")
        if kind is Kind.TABLE:
            raise _error(at, "a table has a key: `key_format` is not NONE")


def _reads(catalog: Catalog, query: Query) -> frozenset[str]:
    """The keys of the streams and tables that it reads, views taken apart. Raises SqlError for an unknown one."""
    return frozenset(name.key for name in _names_read(catalog, query) if name.key in catalog.relations)


def _names_read(catalog: Catalog, query: Query) -> list[Name]:
    """All names that it reads, also through views. Raises SqlError for an unknown one."""
    found: dict[str, Name] = {}
    waiting = list(relations_read(query))
    while waiting:
        name = waiting.pop()
        if name.key not in catalog.relations and name.key not in catalog.views:
            raise _unknown(catalog, name)
        if name.key not in found and name.key in catalog.views:
            waiting += relations_read(catalog.views[name.key].query)
        found.setdefault(name.key, name)
    return list(found.values())


def _view_reads(view: CreateView, key: str) -> bool:
    return any(name.key == key for name in relations_read(view.query))


def _upstream(catalog: Catalog, keys: frozenset[str]) -> set[str]:
    """Everything from which these relations are made."""
    found: set[str] = set()
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        for query in catalog.queries.values():
            if query.sink == key:
                waiting += query.reads - found
                found |= query.reads
    return found


def _formats_of(catalog: Catalog, reads: frozenset[str]) -> dict[str, str]:
    """A query writes in the formats of what it reads, if all agree."""
    storages = [catalog.relations[key].storage for key in reads]
    found: dict[str, str] = {}
    for name in ("key_format", "value_format"):
        formats = {str(getattr(storage, name)) for storage in storages}
        if len(formats) == 1:
            found[name] = formats.pop()
    return found


def _writable(catalog: Catalog, name: Name) -> Relation:
    relation = catalog.relations.get(name.key)
    if relation is None:
        raise _unknown(catalog, name)
    if relation.is_read_only:
        raise _error(name, f"{relation.name} is a source that is only read")
    return relation


def _check_named(target: Relation, named: Sequence[Name]) -> None:
    if target.columns is None:
        return
    known = {column.name.key: column for column in target.columns}
    for name in named:
        if name.key not in known:
            raise _error(name, f"{target.name} has no column {name.text}", nearest(name.key, known))
        if known[name.key].role in (Role.HEADERS, Role.HEADER):
            raise _error(name, f"{name.text} is a header, which no row writes")


def _new_id(catalog: Catalog, kind: str, name: Name | None) -> str:
    if len(catalog.queries) >= MAX_QUERIES:
        raise SqlError(f"{MAX_QUERIES} queries run already: TERMINATE one first", line=1, column=1)
    return "_".join([kind, *([name.text.upper()] if name is not None else []), str(catalog.next_number)])


def _unknown(catalog: Catalog, name: Name) -> SqlError:
    return _error(name, f"there is no stream, table or view {name.text}", catalog.nearest_relation(name.text))


def _exists(catalog: Catalog, name: Name) -> SqlError:
    kind = catalog.relations[name.key].kind.value if name.key in catalog.relations else "view"
    return _error(name, f"there is a {kind} {name.text} already: use OR REPLACE, or IF NOT EXISTS")


def _error(name: Name, problem: str, near: str | None = None) -> SqlError:
    return SqlError(problem, line=name.line, column=name.column, found=name.text, nearest=near)
