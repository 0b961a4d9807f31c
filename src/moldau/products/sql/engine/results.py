"""The stream or table that a query makes: its columns, its key, its format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from moldau.products.pipelines.core.statement import quoted
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.compiling.expressions import Writing
from moldau.products.sql.compiling.plan import QueryPlan
from moldau.products.sql.language.queries import Name
from moldau.products.sql.language.statements import Column, CreateAs, Kind, Role
from moldau.products.sql.records.layout import EVENT_TIME
from moldau.types import nearest

if TYPE_CHECKING:
    from moldau.spark import DataFrame

_ONE_COLUMN = "kafka"
"""The key format that has one column."""


def check_kind(statement: CreateAs, plan: QueryPlan, writing: Writing) -> None:
    """Raises SqlError if the query gives the other kind, or a table without its key."""
    place = statement.name.place
    if statement.kind is not plan.kind:
        why = "its rows replace each other" if plan.kind is Kind.TABLE else "no row replaces another"
        raise writing.error(
            place, f"the query gives a {plan.kind.value}, because {why}: write CREATE {plan.kind.value.upper()}"
        )
    if plan.kind is Kind.TABLE and not plan.key:
        raise writing.error(place, "a table has a key: add GROUP BY, or select the key of what is read")


def with_columns(relation: Relation, statement: CreateAs, plan: QueryPlan, result: DataFrame) -> Relation:
    """The relation of a CREATE ... AS. A key of several columns is JSON, unless the statement names a format."""
    is_table = relation.kind is Kind.TABLE
    key = {name.lower() for name in plan.key}
    role = Role.PRIMARY_KEY if is_table else Role.KEY
    place = statement.name
    columns = tuple(
        Column(Name(name, *place.place), kind, role if name.lower() in key else Role.VALUE)
        for name, kind in result.dtypes
        if name not in (EVENT_TIME, DELETED)
    )
    storage = relation.storage
    named = {one.name.text.lower() for one in statement.properties}
    if not key:
        storage = msgspec.structs.replace(storage, key_format="none")
    elif not named & {"key_format", "format"}:
        if storage.key_format == "none":
            storage = msgspec.structs.replace(storage, key_format=_ONE_COLUMN)
        if storage.key_format == _ONE_COLUMN and not _is_plain(columns):
            storage = msgspec.structs.replace(storage, key_format="json")
    return msgspec.structs.replace(relation, columns=columns, storage=storage)


def _is_plain(columns: tuple[Column, ...]) -> bool:
    """Whether Kafka's own serializers have bytes for the key."""
    keys = [one.type for one in columns if one.role is not Role.VALUE]
    return len(keys) == 1 and keys[0] in ("string", "int", "bigint", "double", "binary")


def check_insert(
    target: Relation, place: tuple[int, int], plan: QueryPlan, result: DataFrame, writing: Writing
) -> None:
    """`place`: of the target's name. Raises SqlError if the rows of the query are not those of the target."""
    if target.kind is not plan.kind:
        raise writing.error(place, f"the query gives a {plan.kind.value}, and {target.name} is a {target.kind.value}")
    columns = {one.name.text.lower(): one for one in target.columns or ()}
    empty = ", ".join(f"cast(null as {one.type}) as {quoted(name)}" for name, one in columns.items())
    kinds = dict(result.sparkSession.sql(f"select {empty}").dtypes)
    for name, kind in result.dtypes:
        if name in (EVENT_TIME, DELETED):
            continue
        expected = kinds.get(name.lower())
        if expected is None:
            raise writing.error(place, f"{target.name} has no column {name}", near=nearest(name.lower(), columns))
        if expected != kind:
            raise writing.error(
                place, f"the column {name} is of type {kind}, and that of {target.name} of type {expected}: cast it"
            )
