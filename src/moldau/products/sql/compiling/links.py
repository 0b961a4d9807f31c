"""How the relations of a query over tables are joined, one after the other."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from moldau.products.sql.compiling.expressions import Writing, place_of_fragment, split_at, unbracketed
from moldau.products.sql.compiling.scope import Ref, Scope
from moldau.products.sql.language.queries import Fragment, Join, JoinKind, Select
from moldau.products.sql.language.tokens import Token


class How(enum.Enum):
    """WITHIN: two streams. LOOK_UP: rows of a stream with the newest rows of a table. ON_KEY: two tables by their keys.
    BY_REFERENCE: two tables, where columns of the left one hold the key of the right one."""

    WITHIN = "within"
    LOOK_UP = "look up"
    ON_KEY = "on key"
    BY_REFERENCE = "by reference"


class Link(msgspec.Struct, frozen=True):
    """One join of what stands before it with the relation `right`, a place of the scope. `reference`: the expressions
    of the left side, in the order of the right side's key. `keys`: the keys that the result has, each as columns;
    `is_full`: they are of the sides of a full join, of which one may be missing. `is_changes`: the result is a
    table."""

    how: How
    join: Join
    right: int
    reference: tuple[Fragment, ...] = ()
    keys: tuple[tuple[Ref, ...], ...] = ()
    is_full: bool = False
    is_changes: bool = False


def links_of(select: Select, scope: Scope, writing: Writing) -> tuple[Link, ...]:
    """Raises SqlError for what cannot be joined."""
    first = scope.sources[0]
    is_changes = first.is_table
    keys: tuple[tuple[Ref, ...], ...] = (tuple(Ref(0, name) for name in first.key),)
    is_full = False
    found: list[Link] = []
    for right, join in enumerate(select.joins, 1):
        source = scope.sources[right]
        place = (join.line, join.column)
        if not source.is_table:
            if is_changes:
                raise writing.error(
                    place, f"a table is looked up by a stream, not the other way round: begin FROM with {source.called}"
                )
            if any(link.how is not How.WITHIN for link in found):
                raise writing.error(place, "streams are joined first: put the tables last")
            if join.within is None:
                raise writing.error(place, "two streams are joined WITHIN a time, as in WITHIN 1 HOUR")
            found.append(Link(How.WITHIN, join, right, keys=keys))
            continue
        if join.within is not None:
            raise writing.error(place, f"WITHIN is for two streams: {source.called} is a table")
        if is_full:
            raise writing.error(place, "after a FULL JOIN there is no one key to join on: make it a table of its own")
        pairs = _pairs(join, right, scope, writing)
        key = tuple(Ref(right, name) for name in source.key)
        named = {ref: left for left, ref in pairs}
        if set(named) != set(key):
            names = " AND ".join(f"{source.called}.{ref.name} = ..." for ref in key)
            raise writing.error(
                place_of_fragment(join.on), f"the table {source.called} is joined on its key: write ON {names}"
            )
        reference = tuple(named[ref] for ref in key)
        if not is_changes:
            if join.kind in (JoinKind.RIGHT, JoinKind.FULL):
                raise writing.error(place, f"a stream looks up a table: {join.kind.value.upper()} would have no row")
            found.append(Link(How.LOOK_UP, join, right, reference, keys))
            continue
        refs = tuple(ref for one in reference if (ref := scope.ref(one)) is not None)
        if any(set(refs) == set(one) for one in keys) and len(refs) == len(reference):
            keys, is_full = _keys_after(join.kind, keys, key), join.kind is JoinKind.FULL
            found.append(Link(How.ON_KEY, join, right, reference, keys, is_full, is_changes=True))
        elif join.kind in (JoinKind.INNER, JoinKind.LEFT):
            found.append(Link(How.BY_REFERENCE, join, right, reference, keys, is_changes=True))
        else:
            raise writing.error(
                place, f"{join.kind.value.upper()} JOIN is for tables with one key: this joins by a reference"
            )
    return tuple(found)


def _keys_after(
    kind: JoinKind, left: tuple[tuple[Ref, ...], ...], right: tuple[Ref, ...]
) -> tuple[tuple[Ref, ...], ...]:
    match kind:
        case JoinKind.LEFT:
            return left
        case JoinKind.RIGHT:
            return (right,)
        case _:
            return (*left, right)


def _pairs(join: Join, right: int, scope: Scope, writing: Writing) -> list[tuple[Fragment, Ref]]:
    """The equalities of ON: an expression of the left side, and a column of the right one."""
    found = []
    for part in split_at(unbracketed(join.on.tokens), "AND"):
        sides = [unbracketed(side) for side in split_at(unbracketed(part), "=", "==")]
        pair = _pair(sides, right, scope) if len(sides) == 2 and all(sides) else None
        if pair is None:
            called = scope.sources[right].called
            tokens: Sequence[Token] = part or join.on.tokens
            raise writing.error(
                tokens[0].place,
                f"a table is joined where an expression of the left side equals its key: ON ... = {called}.key",
            )
        found.append(pair)
    return found


def _pair(sides: Sequence[Sequence[Token]], right: int, scope: Scope) -> tuple[Fragment, Ref] | None:
    for left, other in (sides, sides[::-1]):
        ref = scope.ref(other)
        if ref is not None and ref.source == right and right not in scope.reads(left):
            return Fragment(tuple(left)), ref
    return None
