"""Whether a reader's JSON Schema allows every document that a writer's allows.

It is told keyword by keyword, and errs on the safe side: what the keywords do not tell is a problem. Three things are
taken as people mean them: a property that must be there is no problem where it has a `default`, `oneOf` is read as
`anyOf`, and `format` says nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from moldau.products.json_schemas import JsonSchemaError, Node
from moldau.products.registry.core.kinds.json_patterns import SlowPatternError, check_pattern
from moldau.products.registry.core.kinds.json_schema import ParsedSchema, kept, parse
from moldau.products.registry.core.kinds.kind import Kind, WholeSchema

MOST_COMPARISONS = 10_000
"""Of schemas in schemas. What needs more is a problem."""
EVERYTHING: dict[str, Any] = {}
Keywords = Mapping[str, Any]

TYPES = ("array", "boolean", "null", "number", "object", "string")
UPPER = {
    "maximum": "number",
    "exclusiveMaximum": "number",
    "maxLength": "string",
    "maxItems": "array",
    "maxProperties": "object",
}
LOWER = {
    "minimum": "number",
    "exclusiveMinimum": "number",
    "minLength": "string",
    "minItems": "array",
    "minProperties": "object",
}
BOTH_OR_NEITHER = {
    "pattern": "string",
    "contains": "array",
    "minContains": "array",
    "maxContains": "array",
    "patternProperties": "object",
    "propertyNames": "object",
    "dependencies": "object",
    "dependentRequired": "object",
    "dependentSchemas": "object",
}
"""Of documents of a type: a reader that has one of these reads only a writer that has the same."""
OF_ALL_TYPES = ("if", "then", "else", "$dynamicRef")
"""As these, for all documents."""
UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
"""What they say depends on all that stands beside them."""
UNIONS = ("anyOf", "oneOf")


def problems(reader: WholeSchema, writer: WholeSchema) -> list[str]:
    """Why the reader's schema may refuse what the writer's allows; none: it never does. Raises SchemaError."""
    read, written = parse(reader), parse(writer)
    try:
        return list(_Reading(read, written).of(read.root, written.root, "#"))
    except (SlowPatternError, JsonSchemaError) as error:
        return [f"the schemas cannot be compared: {error}"]
    except (RecursionError, re.error, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        return [f"the schemas cannot be compared: {type(error).__name__}: {error}"]


class _Reading:
    """One comparison. All methods give what the reader `r` would refuse of the writer `w`, at a path."""

    def __init__(self, reader: ParsedSchema, writer: ParsedSchema) -> None:
        self._reader, self._writer = reader, writer
        self._open: set[tuple[str, str]] = set()
        self._left = MOST_COMPARISONS

    def of(self, r: Node, w: Node, path: str) -> Iterator[str]:
        """A pair that is being compared further out is taken as good there: what is wrong with it shows there."""
        if r in (True, EVERYTHING) or w is False:
            return
        pair = (_text(r), _text(w))
        if pair in self._open or (pair[0] == pair[1] and "$ref" not in pair[0]):
            return
        self._left -= 1
        if self._left <= 0:
            yield f"{path}: the schemas are too large to be compared"
            return
        self._open.add(pair)
        yield from self._opened(r, w, path)
        self._open.discard(pair)

    def _opened(self, r: Node, w: Node, path: str) -> Iterator[str]:
        if r is False:
            yield f"{path}: the reader allows nothing here"
            return
        writers = _conjuncts(self._writer, w)
        if any(one is False for one in writers):
            return
        union = next((one for one in writers if _union_of(one)), None)
        if union is not None:
            name = _union_of(union)
            rest = [one if one is not union else _without(one, name) for one in writers]
            for branch in union[name]:
                yield from self.of(r, {"allOf": [branch, *rest]}, f"{path}/{name}")
            return
        for one in _conjuncts(self._reader, r):
            alone = (list(self._all_of(one, writer, path)) for writer in writers)
            if len(writers) < 2 or all(alone):
                yield from self._all_of(one, _merged(writers), path)

    def _all_of(self, r: Node, w: Node, path: str) -> Iterator[str]:
        """Neither has `allOf` or `$ref`, and the writer no union."""
        if r in (True, EVERYTHING):
            return
        if r is False:
            yield f"{path}: the reader allows nothing here"
            return
        node = w if isinstance(w, dict) else EVERYTHING
        if isinstance(documents := _documents(node), list):
            allowed = (document for document in documents if self._writer.allows(w, document))
            yield from (
                f"{path}: the reader does not allow {_text(one)}" for one in allowed if not self._reader.allows(r, one)
            )
            return
        for name in UNIONS:
            if name in r and not any(not list(self.of(branch, w, path)) for branch in r[name]):
                types = _types(node)
                if len(types) < 2:
                    yield f"{path}: no branch of the reader's {name} allows what the writer may write"
                for each in types if len(types) > 1 else ():
                    yield from self.of({name: r[name]}, {**node, "type": each}, path)
        yield from self._keywords(r, node, path)

    def _keywords(self, read: Keywords, written: Keywords, path: str) -> Iterator[str]:
        types = _types(written)
        refused = [one for one in types if not _allows_type(_types(read), one)]
        if refused:
            yield f"{path}: the reader does not allow the type {', '.join(refused)}"
        for name in ("enum", "const"):
            if name in read and name not in written:
                yield f"{path}: the reader allows only the values of `{name}`"
        for name in OF_ALL_TYPES:
            if name in read and _text(read[name]) != _text(written.get(name)):
                yield f"{path}: the reader's `{name}` is not the writer's"
        for name in UNEVALUATED:
            if name in read and _text(read) != _text(written):
                yield f"{path}: the reader has `{name}`, and is not the writer's schema"
        if "not" in read:
            reverse = _Reading(self._writer, self._reader)
            if "not" not in written or list(reverse.of(written["not"], read["not"], path)):
                yield f"{path}: the reader's `not` refuses more than the writer's"
        for name, kind in (*UPPER.items(), *LOWER.items()):
            if name in read and _concerns(kind, types) and (name not in written or _is_tighter(name, read, written)):
                yield f"{path}: the reader's `{name}` is tighter than the writer's"
        step = read.get("multipleOf")
        if step and _concerns("number", types) and not _is_multiple(written.get("multipleOf"), step):
            yield f"{path}: the reader's `multipleOf` allows less than the writer's"
        for name, kind in BOTH_OR_NEITHER.items():
            if name in read and _concerns(kind, types) and _text(read[name]) != _text(written.get(name)):
                yield f"{path}: the reader's `{name}` is not the writer's"
        if "object" in types:
            yield from self._properties(read, written, path)
        if "array" in types:
            yield from self._items(read, written, path)

    def _properties(self, read: Keywords, written: Keywords, path: str) -> Iterator[str]:
        there: dict[str, Node] = read.get("properties", {})
        for name in read.get("required", ()):
            has_default = isinstance(there.get(name), dict) and "default" in there[name]
            if name not in written.get("required", ()) and not has_default:
                yield f"{path}: the reader needs the property {name!r}"
        for name in dict.fromkeys((*there, *written.get("properties", ()))):
            yield from self.of(_property(read, name), _property(written, name), f"{path}/properties/{name}")
        for name, node in written.get("patternProperties", {}).items():
            yield from self.of(read.get("patternProperties", {}).get(name, _others(read)), node, path)
        yield from self.of(_others(read), _others(written), f"{path}/additionalProperties")

    def _items(self, r: Keywords, w: Keywords, path: str) -> Iterator[str]:
        if r.get("uniqueItems") is True and w.get("uniqueItems") is not True:
            yield f"{path}: the reader allows no item twice"
        first_read, other_read = _item_schemas(r)
        first_written, other_written = _item_schemas(w)
        for place in range(max(len(first_read), len(first_written))):
            read = first_read[place] if place < len(first_read) else other_read
            written = first_written[place] if place < len(first_written) else other_written
            yield from self.of(read, written, f"{path}/items/{place}")
        yield from self.of(other_read, other_written, f"{path}/items")


def _conjuncts(schema: ParsedSchema, node: Node, seen: tuple[str, ...] = ()) -> list[Node]:
    """The schemas that all must hold, each without `allOf` and `$ref`. Raises JsonSchemaError."""
    if not isinstance(node, dict):
        return [node]
    found = []
    reference = node.get("$ref")
    if reference is not None and reference not in seen:
        found += _conjuncts(schema, schema.referred(reference), (*seen, reference))
    for one in node.get("allOf", ()):
        found += _conjuncts(schema, one, seen)
    rest = {name: value for name, value in node.items() if name not in ("$ref", "allOf")}
    return [*found, rest] if rest or not found else found


def _merged(nodes: list[Node]) -> Keywords:
    """A schema that allows all that all of these allow together, and more: of keywords that several have, one."""
    merged: dict[str, Any] = {}
    for node in nodes:
        if isinstance(node, dict):
            merged = {**node, **merged}
    return merged


def _union_of(node: Node) -> str:
    return next((name for name in UNIONS if isinstance(node, dict) and name in node), "")


def _without(node: Mapping[str, Any], name: str) -> Node:
    return {each: value for each, value in node.items() if each != name}


def _documents(node: Mapping[str, Any]) -> list[Any] | None:
    """All that it may allow, where it says so."""
    return [node["const"]] if "const" in node else node.get("enum")


def _types(node: Mapping[str, Any]) -> tuple[str, ...]:
    named = node.get("type", TYPES)
    return (named,) if isinstance(named, str) else tuple(named)


def _concerns(kind: str, types: tuple[str, ...]) -> bool:
    """Whether documents of these types can be of that kind."""
    return kind in types or (kind == "number" and "integer" in types)


def _is_multiple(number: float | None, step: float) -> bool:
    return number is not None and Decimal(str(number)) % Decimal(str(step)) == 0


def _is_tighter(limit: str, read: Keywords, written: Keywords) -> bool:
    return bool(read[limit] < written[limit] if limit in UPPER else read[limit] > written[limit])


def _allows_type(types: tuple[str, ...], one: str) -> bool:
    return one in types or (one == "integer" and "number" in types)


def _property(node: Mapping[str, Any], name: str) -> Node:
    if name in node.get("properties", {}):
        return node["properties"][name]
    for pattern, one in node.get("patternProperties", {}).items():
        check_pattern(pattern, name)
        if re.search(pattern, name):
            return one
    return _others(node)


def _others(node: Mapping[str, Any]) -> Node:
    return node.get("additionalProperties", EVERYTHING)


def _item_schemas(node: Mapping[str, Any]) -> tuple[list[Node], Node]:
    """The schemas of the first items, and the schema of all others. (`items` was both before draft 2020-12.)"""
    items = node.get("items", EVERYTHING)
    if isinstance(items, list):
        return items, node.get("additionalItems", EVERYTHING)
    return node.get("prefixItems", []), items


def _text(node: Node) -> str:
    return json.dumps(node, sort_keys=True)


JSON_SCHEMAS = Kind(kept, problems)
