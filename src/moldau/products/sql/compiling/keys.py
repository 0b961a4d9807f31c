"""The columns of a result that are its key."""

from __future__ import annotations

from collections.abc import Sequence

from moldau.products.sql.compiling.expressions import Writing, is_same, place_of_fragment, split_at
from moldau.products.sql.compiling.outputs import Output
from moldau.products.sql.compiling.scope import Ref, Scope
from moldau.products.sql.language.queries import Fragment


def key_by(
    expressions: Sequence[Fragment], outputs: Sequence[Output], scope: Scope, writing: Writing, clause: str
) -> tuple[str, ...]:
    """The names of the outputs that are the expressions of GROUP BY or PARTITION BY (`clause`). Raises SqlError if one
    is not selected."""
    found = []
    for expression in expressions:
        name = _output_of(expression, outputs, scope)
        if name is None:
            raise writing.error(
                place_of_fragment(expression),
                f"`{expression.text}` of {clause} is the key of the result, so it is selected too: add it to SELECT",
            )
        found.append(name)
    return tuple(dict.fromkeys(found))


def key_of_refs(alternatives: Sequence[tuple[Ref, ...]], outputs: Sequence[Output]) -> tuple[str, ...] | None:
    """The names of the outputs that are all columns of one of the keys; None if no key is selected whole."""
    refs = {one.ref: one.name for one in reversed(outputs) if one.ref is not None}
    for key in alternatives:
        if key and all(ref in refs for ref in key):
            return tuple(refs[ref] for ref in key)
    return None


def key_of_both(sides: Sequence[tuple[Ref, ...]], outputs: Sequence[Output], scope: Scope) -> tuple[str, ...] | None:
    """Of a full join: for each column of the key the output that is COALESCE of it on both sides."""
    found = []
    for refs in zip(*sides, strict=False):
        named = (
            one.name for one in outputs if one.fragment is not None and _coalesced(one.fragment, scope) == set(refs)
        )
        name = next(named, None)
        if name is None:
            return None
        found.append(name)
    return tuple(found) or None


def _coalesced(fragment: Fragment, scope: Scope) -> set[Ref | None]:
    """The columns in COALESCE(...); empty for another expression."""
    tokens = fragment.tokens
    if not tokens[0].says("COALESCE", "IFNULL", "NVL") or len(tokens) < 4 or not tokens[-1].says(")"):
        return set()
    return {scope.ref(one) for one in split_at(tokens[2:-1], ",")}


def _output_of(expression: Fragment, outputs: Sequence[Output], scope: Scope) -> str | None:
    ref = scope.ref(expression)
    for one in outputs:
        if one.ref is not None and one.ref == ref:
            return one.name
        if one.fragment is not None and is_same(expression, one.fragment, scope):
            return one.name
    if len(expression.tokens) == 1 and ref is None:
        named = expression.tokens[0].value.lower()
        return next((one.name for one in outputs if one.name.lower() == named), None)
    return None
