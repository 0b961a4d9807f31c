"""The columns that a SELECT gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from moldau.products.sql.compiling.expressions import Writing, name_of, place_of_fragment
from moldau.products.sql.compiling.scope import Ref, Scope, Source
from moldau.products.sql.language.queries import Fragment, Select
from moldau.types import nearest


class Output(msgspec.Struct, frozen=True):
    """One column. `fragment`: its expression; None: it comes from `*`. `ref`: the column, if it is nothing else. A
    `name` of "" is a `*` over a relation whose columns only Spark knows."""

    name: str
    fragment: Fragment | None = None
    ref: Ref | None = None


def outputs_of(select: Select, scope: Scope, writing: Writing) -> tuple[Output, ...]:
    """In a join, `*` and `name.*` give names with the name of the relation before them, as in ksqlDB. Raises
    SqlError."""
    found: list[Output] = []
    for item in select.items:
        tokens = item.expression.tokens
        if tokens[-1].says("*") and (len(tokens) == 1 or (len(tokens) == 3 and tokens[1].says("."))):
            called = tokens[0].value if len(tokens) == 3 else None
            found += _all(scope, called, item.expression, writing)
        else:
            found.append(Output(name_of(item, scope, len(found)), item.expression, scope.ref(item.expression)))
    _refuse_double(found, select, writing)
    return tuple(found)


def named_so(
    outputs: Sequence[Output], names: Sequence[str], writing: Writing, place: tuple[int, int]
) -> tuple[Output, ...]:
    """The outputs with these names, in their order. Raises SqlError if they are not as many."""
    if len(outputs) != len(names) or not all(one.name for one in outputs):
        raise writing.error(place, f"the query gives {len(outputs)} columns, and {len(names)} are named")
    return tuple(msgspec.structs.replace(one, name=name) for one, name in zip(outputs, names, strict=True))


def _all(scope: Scope, called: str | None, star: Fragment, writing: Writing) -> Iterator[Output]:
    """`called`: of `name.*`."""
    chosen = [
        (place, one)
        for place, one in enumerate(scope.sources)
        if called is None or one.called.lower() == called.lower()
    ]
    if not chosen:
        names = [one.called for one in scope.sources]
        raise writing.error(
            place_of_fragment(star), f"`{called}` is no relation of FROM", near=nearest(str(called), names)
        )
    if any(source.columns is None for _, source in chosen):
        yield Output("", star)
        return
    for place, source in chosen:
        for column in source.columns or ():
            yield Output(_prefixed(scope.sources, source, column), None, Ref(place, column))


def _prefixed(sources: Sequence[Source], source: Source, column: str) -> str:
    return column if len(sources) == 1 else f"{source.called}_{column}"


def _refuse_double(outputs: Sequence[Output], select: Select, writing: Writing) -> None:
    seen: set[str] = set()
    for one in outputs:
        if one.name and one.name.lower() in seen:
            place = place_of_fragment(one.fragment or select.items[0].expression)
            raise writing.error(place, f"two columns are named {one.name}: give one another name with AS")
        seen.add(one.name.lower())
