"""What a statement changes.

`decide` gives the changes and what is to be done outside, and changes nothing; `apply` puts one change into the
catalog. The same changes give the same catalog in every process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from moldau.products.sql.catalog.catalog import (
    AnyItem,
    Catalog,
    Function,
    NamedType,
    PersistentQuery,
    QueryState,
    Relation,
    View,
    What,
    with_item,
    without,
)
from moldau.products.sql.catalog.reads import names_read, relations_read, unknown_relation
from moldau.products.sql.catalog.storage import Storage, storage_of
from moldau.products.sql.language.errors import SqlError
from moldau.products.sql.language.parser.script import Parsed
from moldau.products.sql.language.queries import Name, Query, error_of
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
from moldau.products.sql.language.tokens import tokenize
from moldau.types import nearest

ROW_TIME = "rowtime"
"""ksqlDB's own column that an INSERT may name: the time of the record, in milliseconds."""
_NOT_IN_IDS = re.compile(r"[^A-Z0-9_]")
MOST_OF_A_NAME = 100
"""The most characters of a relation's name in the id of its query."""
MAX_QUERIES = 200
"""Each costs memory in the Spark session."""


class Put(msgspec.Struct, frozen=True):
    """The item takes the place of the one with its key."""

    item: AnyItem


class Remove(msgspec.Struct, frozen=True):
    what: What
    key: str


class NextNumber(msgspec.Struct, frozen=True):
    """Ids of new queries have at least this number. Kept apart from the queries, because it outlives them."""

    number: int


Change = Put | Remove | NextNumber


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
    match change:
        case Put(item):
            what, key = place_of(item)
            kept = item.type if isinstance(item, NamedType) else item
            field = _FIELDS[what]
            return msgspec.structs.replace(catalog, **{field: with_item(getattr(catalog, field), key, kept)})
        case Remove(what, key):
            field = _FIELDS[what]
            return msgspec.structs.replace(catalog, **{field: without(getattr(catalog, field), [key])})
        case NextNumber(number):
            return msgspec.structs.replace(catalog, next_number=number)


def place_of(item: AnyItem) -> tuple[What, str]:
    """The kind of the item, and its key in the catalog."""
    if isinstance(item, PersistentQuery):
        return What.QUERY, item.id
    return _KINDS[type(item)], item.name.lower()


_FIELDS = {
    What.RELATION: "relations",
    What.VIEW: "views",
    What.FUNCTION: "functions",
    What.TYPE: "types",
    What.QUERY: "queries",
}
"""Of the catalog."""
_KINDS: Mapping[type[AnyItem], What] = {
    Relation: What.RELATION,
    View: What.VIEW,
    Function: What.FUNCTION,
    NamedType: What.TYPE,
}


def decide(catalog: Catalog, parsed: Parsed, properties: Mapping[str, str]) -> Decision:
    """What a statement changes that defines something, inserts, drops, or steers queries. `properties`: of the session,
    by names in lower case. Raises SqlError, and KeyError for other statements."""
    return _DECIDERS[type(parsed.statement)](_Asked(catalog, parsed.text, properties), parsed.statement)


def decides(statement: Statement) -> bool:
    """Whether `decide` takes it."""
    return type(statement) in _DECIDERS


def kept_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that count when a statement is read again."""
    return {name: value for name, value in properties.items() if name == "auto.offset.reset" or name.startswith("sql.")}


class _Asked(msgspec.Struct, frozen=True):
    """What a decision rests on, besides the statement."""

    catalog: Catalog
    text: str
    properties: Mapping[str, str]

    def written(self) -> dict[str, Any]:
        """The fields of `Written`."""
        named = {token.value.lower() for token in tokenize(self.text) if token.is_name}
        types = {name: type for name, type in self.catalog.types.items() if name in named}
        return {"statement": self.text, "properties": kept_properties(self.properties), "types": types}


def _create_source(asked: _Asked, statement: CreateSource) -> Decision:
    catalog = asked.catalog
    key, name = statement.name.key, statement.name
    if statement.if_not_exists and _is_taken(catalog, key):
        return Decision(f"{name.text} exists already")
    before = _replaced(catalog, statement.kind, name, or_replace=statement.or_replace)
    if before is not None and before.made_by is not None:
        raise error_of(
            name, f"{before.name} is made by the query {before.made_by}: replace it by CREATE ... AS, or drop it"
        )
    storage = storage_of(statement.properties, {}, name)
    _check_columns(statement.columns, statement.kind, storage, name)
    relation = Relation(
        name.text, statement.kind, storage, statement.columns or None, asked.text, is_read_only=statement.is_read_only
    )
    topic = TopicNeeded(storage, relation.topic, storage.partitions is not None, statement.kind is Kind.TABLE)
    return Decision(f"{statement.kind.value} {name.text} is created", (Put(relation),), (topic,))


def _create_as(asked: _Asked, statement: CreateAs) -> Decision:
    catalog = asked.catalog
    key, name = statement.name.key, statement.name
    if statement.if_not_exists and _is_taken(catalog, key):
        return Decision(f"{name.text} exists already")
    before = _replaced(catalog, statement.kind, name, or_replace=statement.or_replace)
    if before is not None and before.made_by is None:
        raise error_of(name, f"{before.name} is declared, and no query makes it: drop it, or insert into it")
    reads = _reads(catalog, statement.query)
    if key in reads:
        raise error_of(name, f"{name.text} reads itself")
    storage = storage_of(statement.properties, _formats_of(catalog, reads), name)
    id = before.made_by if before is not None else None
    if id is None:
        id = _new_id(catalog, "CSAS" if statement.kind is Kind.STREAM else "CTAS", name)
    relation = Relation(name.text, statement.kind, storage, None, asked.text, made_by=id)
    query = PersistentQuery(**asked.written(), id=id, sink=key, reads=reads)
    topic = TopicNeeded(storage, relation.topic, is_made=True, is_compacted=statement.kind is Kind.TABLE)
    return Decision(
        f"{statement.kind.value} {name.text} is made by the query {id}",
        (Put(relation), Put(query)),
        (topic,),
    )


def _insert_query(asked: _Asked, statement: InsertQuery) -> Decision:
    catalog = asked.catalog
    target = _writable(catalog, statement.target)
    reads = _reads(catalog, statement.query)
    key = statement.target.key
    if key in reads or key in _upstream(catalog, reads):
        raise error_of(statement.target, f"{target.name} would read its own rows again without end")
    _check_named(target, statement.columns)
    id = _new_id(catalog, "INSERTQUERY", statement.target)
    query = PersistentQuery(**asked.written(), id=id, sink=key, reads=reads)
    return Decision(f"the query {id} writes to {target.name}", (Put(query),))


def _insert_values(asked: _Asked, statement: InsertValues) -> Decision:
    catalog = asked.catalog
    target = _writable(catalog, statement.target)
    _check_named(target, [one for one in statement.columns if one.key != ROW_TIME])
    width = len(statement.columns) or (None if target.columns is None else len(target.columns))
    for row in statement.rows:
        if width is not None and len(row) != width:
            first = row[0].tokens[0]
            place = Name(first.text, first.line, first.column)
            raise error_of(place, f"a row has {len(row)} values for {width} columns")
    keys = [column for column in target.columns or () if column.role is Role.PRIMARY_KEY]
    named = {one.key for one in statement.columns}
    missing = [column.name.text for column in keys if statement.columns and column.name.key not in named]
    if missing:
        raise error_of(statement.target, f"a row of a table has its key: name the column {missing[0]} too")
    rows = f"{len(statement.rows)} row" + "s" * (len(statement.rows) != 1)
    return Decision(f"{rows} written to {target.name}", (), (RowsWritten(target, statement),))


def _create_view(asked: _Asked, statement: CreateView) -> Decision:
    catalog = asked.catalog
    key, name = statement.name.key, statement.name
    if key in catalog.views and statement.if_not_exists:
        return Decision(f"{name.text} exists already")
    if key in catalog.relations or (key in catalog.views and not statement.or_replace):
        raise _exists(catalog, name)
    if any(one.key == key for one in names_read(catalog, statement.query)):
        raise error_of(name, f"{name.text} reads itself")
    reads = frozenset(one.key for one in relations_read(statement.query))
    view = View(**asked.written(), name=name.text, reads=reads)
    return Decision(f"view {name.text} is created", (Put(view),))


def _create_function(asked: _Asked, statement: CreateFunction) -> Decision:
    catalog = asked.catalog
    name = statement.name
    if (given := catalog.given.get(name.key)) is not None:
        raise error_of(name, f"{name.text} is the function {given.name} of {given.file} already: take another name")
    if name.key in catalog.functions:
        if statement.if_not_exists:
            return Decision(f"{name.text} exists already")
        if not statement.or_replace:
            raise error_of(name, f"there is a function {name.text} already: use OR REPLACE")
    return Decision(f"function {name.text} is created", (Put(Function(**asked.written(), name=name.text)),))


def _create_type(asked: _Asked, statement: CreateType) -> Decision:
    catalog = asked.catalog
    name = statement.name
    if name.key in catalog.types:
        if statement.if_not_exists:
            return Decision(f"{name.text} exists already")
        raise error_of(name, f"there is a type {name.text} already: drop it first")
    return Decision(f"type {name.text} is created", (Put(NamedType(name.text, statement.type)),))


def _drop(asked: _Asked, statement: Drop) -> Decision:
    catalog = asked.catalog
    name, what = statement.name, statement.what
    if what in (Droppable.STREAM, Droppable.TABLE):
        return _drop_relation(catalog, statement)
    removed = _DROPPED.get(what)
    known: Mapping[str, object] = {} if removed is None else getattr(catalog, _FIELDS[removed])
    if removed is None or name.key not in known:
        if statement.if_exists:
            return Decision(f"there is no {what.value} {name.text}")
        raise error_of(name, f"there is no {what.value} {name.text}", nearest(name.key, known))
    if what is Droppable.VIEW:
        users = [view.name for view in catalog.views.values() if name.key in view.reads]
        if users:
            raise error_of(name, f"the view {users[0]} reads {name.text}: drop that first")
    return Decision(f"{what.value} {name.text} is dropped", (Remove(removed, name.key),))


_DROPPED = {Droppable.VIEW: What.VIEW, Droppable.FUNCTION: What.FUNCTION, Droppable.TYPE: What.TYPE}


def _drop_relation(catalog: Catalog, statement: Drop) -> Decision:
    name, what = statement.name, statement.what
    relation = catalog.relations.get(name.key)
    if relation is None:
        if statement.if_exists:
            return Decision(f"there is no {what.value} {name.text}")
        raise unknown_relation(catalog, name)
    if relation.kind.value != what.value:
        raise error_of(name, f"{relation.name} is a {relation.kind.value}: DROP {relation.kind.value.upper()}")
    others = [id for id in (*catalog.readers_of(name.key), *catalog.writers_of(name.key)) if id != relation.made_by]
    if others:
        raise error_of(name, f"{relation.name} is used by {', '.join(others)}: TERMINATE first")
    views = [view.name for view in catalog.views.values() if name.key in view.reads]
    if views:
        raise error_of(name, f"the view {views[0]} reads {relation.name}: drop that first")
    if statement.deletes_topic and relation.is_read_only:
        raise error_of(name, f"{relation.name} is a source that is only read: its topic is not deleted with it")
    own = _ended(catalog, [id for id in catalog.queries if id == relation.made_by])
    deleted = (TopicDeleted(relation.topic),) if statement.deletes_topic else ()
    return Decision(f"{what.value} {relation.name} is dropped", (*own, Remove(What.RELATION, name.key)), deleted)


def _control(asked: _Asked, statement: Control) -> Decision:
    catalog = asked.catalog
    action, name = statement.action, statement.query
    queries = list(catalog.queries.values())
    if name is not None:
        query = catalog.queries.get(name.text.upper())
        if query is None:
            raise error_of(name, f"no query has the id {name.text}", nearest(name.text.upper(), catalog.queries))
        queries = [query]
    done = {Action.PAUSE: "paused", Action.RESUME: "resumed", Action.TERMINATE: "terminated"}[action]
    message = f"{', '.join(query.id for query in queries) or 'no query'}: {done}"
    if action is Action.TERMINATE:
        return Decision(message, _ended(catalog, [query.id for query in queries]))
    state = QueryState.PAUSED if action is Action.PAUSE else QueryState.RUNNING
    return Decision(
        message, tuple(Put(msgspec.structs.replace(one, state=state)) for one in queries if one.state is not state)
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
        raise error_of(name, f"{before.name} is a {before.kind.value}, which no {kind.value} replaces: drop it first")
    return before


def _is_taken(catalog: Catalog, key: str) -> bool:
    return key in catalog.relations or key in catalog.views


def _check_columns(columns: Sequence[Column], kind: Kind, storage: Storage, at: Name) -> None:
    names = [column.name.key for column in columns]
    if storage.timestamp is not None and columns and storage.timestamp.lower() not in names:
        near = nearest(storage.timestamp.lower(), names)
        raise error_of(at, f"`timestamp` names {storage.timestamp}, which is no column", near)
    if storage.key_format == "none":
        keys = [column for column in columns if column.role in (Role.KEY, Role.PRIMARY_KEY)]
        if keys:
            raise error_of(keys[0].name, f"{keys[0].name.text} is a key, and `key_format` is NONE")
        if kind is Kind.TABLE:
            raise error_of(at, "a table has a key: `key_format` is not NONE")


def _reads(catalog: Catalog, query: Query) -> frozenset[str]:
    """The keys of the streams and tables that it reads, views taken apart. Raises SqlError for an unknown one."""
    return frozenset(name.key for name in names_read(catalog, query) if name.key in catalog.relations)


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
        raise unknown_relation(catalog, name)
    if relation.is_read_only:
        raise error_of(name, f"{relation.name} is a source that is only read")
    return relation


def _check_named(target: Relation, named: Sequence[Name]) -> None:
    if target.columns is None:
        return
    known = {column.name.key: column for column in target.columns}
    for name in named:
        if name.key not in known:
            raise error_of(name, f"{target.name} has no column {name.text}", nearest(name.key, known))
        if known[name.key].role in (Role.HEADERS, Role.HEADER):
            raise error_of(name, f"{name.text} is a header, which no row writes")


def _new_id(catalog: Catalog, kind: str, name: Name) -> str:
    """The first number that this name has not had: a script that runs again gives its queries the same ids, whatever
    stands between them now, and so they continue from their checkpoints."""
    if len(catalog.queries) >= MAX_QUERIES:
        raise SqlError(f"{MAX_QUERIES} queries run already: TERMINATE one first", line=1, column=1)
    # the id becomes a part of names of groups and of directories
    named = _NOT_IN_IDS.sub("_", name.text.upper())[:MOST_OF_A_NAME]
    numbers = range(catalog.next_number, catalog.next_number + MAX_QUERIES)
    return next(id for id in (f"{kind}_{named}_{number}" for number in numbers) if id not in catalog.queries)


def _ended(catalog: Catalog, ids: Sequence[str]) -> tuple[Change, ...]:
    """The queries go, and their ids are not used again: their checkpoints belong to them."""
    number = max((int(id.rpartition("_")[2]) + 1 for id in ids), default=0)
    higher = (NextNumber(number),) if number > catalog.next_number else ()
    return (*(Remove(What.QUERY, id) for id in ids), *higher)


def _exists(catalog: Catalog, name: Name) -> SqlError:
    kind = catalog.relations[name.key].kind.value if name.key in catalog.relations else "view"
    return error_of(name, f"there is a {kind} {name.text} already: use OR REPLACE, or IF NOT EXISTS")
