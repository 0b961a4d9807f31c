"""The streams, tables, types, views, functions and queries that exist."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from moldau.products.sql.catalog.storage import Storage
from moldau.products.sql.language.statements import Column, Kind
from moldau.types import nearest

Kept = TypeVar("Kept")


class What(enum.Enum):
    """The kinds of items."""

    RELATION = "relation"
    VIEW = "view"
    FUNCTION = "function"
    TYPE = "type"
    QUERY = "query"


class Item(msgspec.Struct, frozen=True, tag_field="what", forbid_unknown_fields=True):
    """Something that the catalog holds. It is stored (see `journal`): a changed field needs a new version there."""


class Relation(Item, frozen=True, tag=What.RELATION.value):
    """A stream or table. `columns`: None until Spark has analysed the query that makes it, or a registry's schema is
    read. `made_by`: the id of the query of CREATE ... AS; None for a declared one. `statement`: its text."""

    name: str
    kind: Kind
    storage: Storage
    columns: tuple[Column, ...] | None
    statement: str
    is_read_only: bool = False
    made_by: str | None = None

    @property
    def topic(self) -> str:
        return self.storage.topic or self.name


class QueryState(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"


class Written(Item, frozen=True):
    """An item that is read from its text again, as `parse_script(statement, types=types, substitutes=False)` does.

    `properties`: those of its session that change what the text means (`deciding.kept_properties`). `types`: the types
    of CREATE TYPE that it names, by names in lower case; a dropped or changed type leaves it as it was.
    """

    statement: str
    properties: Mapping[str, str]
    types: Mapping[str, str]


class PersistentQuery(Written, frozen=True, tag=What.QUERY.value):
    """A query that runs until it is terminated. `sink`: the key of the relation that it writes; `reads`: the keys of
    those that it reads, views taken apart."""

    id: str
    sink: str
    reads: frozenset[str]
    state: QueryState = QueryState.RUNNING


class View(Written, frozen=True, tag=What.VIEW.value):
    """`reads`: the keys of the relations and views that its query names."""

    name: str
    reads: frozenset[str]


class Function(Written, frozen=True, tag=What.FUNCTION.value):
    """A function of CREATE FUNCTION."""

    name: str


class GivenFunction(msgspec.Struct, frozen=True):
    """A Python function of a file that the operator named. It belongs to the run, not to the statements. `function`:
    what Spark registers; `note`: its docstring."""

    name: str
    file: str
    usage: str
    note: str
    function: Any


class NamedType(Item, frozen=True, tag=What.TYPE.value):
    """A type of CREATE TYPE. `type`: Spark's name of it."""

    name: str
    type: str


AnyItem = Relation | View | Function | NamedType | PersistentQuery


class Catalog(msgspec.Struct, frozen=True):
    """A value: `deciding.apply` gives the next one. Keys are names in lower case, of queries their ids in upper case.
    `next_number`: above those in the ids of ended queries; it never falls, so an id is used once."""

    relations: Mapping[str, Relation] = {}
    views: Mapping[str, View] = {}
    functions: Mapping[str, Function] = {}
    given: Mapping[str, GivenFunction] = {}
    types: Mapping[str, str] = {}
    queries: Mapping[str, PersistentQuery] = {}
    next_number: int = 0

    def readers_of(self, key: str) -> list[str]:
        """The ids of the queries that read this relation."""
        return [query.id for query in self.queries.values() if key in query.reads]

    def writers_of(self, key: str) -> list[str]:
        """The ids of the queries that write this relation."""
        return [query.id for query in self.queries.values() if query.sink == key]

    def nearest_relation(self, name: str) -> str | None:
        """The name of the stream, table or view that was probably meant."""
        names = {relation.name.lower(): relation.name for relation in self.relations.values()}
        names |= {key: view.name for key, view in self.views.items()}
        near = nearest(name.lower(), names)
        return None if near is None else names[near]


def with_item(items: Mapping[str, Kept], key: str, item: Kept) -> dict[str, Kept]:
    return {**items, key: item}


def without(items: Mapping[str, Kept], keys: Iterable[str]) -> dict[str, Kept]:
    gone = set(keys)
    return {key: item for key, item in items.items() if key not in gone}
