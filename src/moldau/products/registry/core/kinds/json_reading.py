"""Whether a reader's JSON Schema allows every document that a writer's allows.

Equal parts are compatible. The rest is compared keyword by keyword: if the keywords do not prove compatibility, it is a
problem. Two rules follow users' intentions: a required property with a `default` is no problem, and `format` is
ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from moldau.products.json_schemas import JsonSchemaError, Node
from moldau.products.registry.core.kinds.json_nodes import (
    EVERYTHING,
    LEAST,
    MOST,
    Keywords,
    allows_type,
    common_types,
    concerns,
    documents_of,
    groups_of,
    is_found,
    is_multiple,
    items_of,
    lower,
    merged,
    others_of,
    property_of,
    types_of,
    upper,
)
from moldau.products.registry.core.kinds.json_patterns import SlowPatternError
from moldau.products.registry.core.kinds.json_sameness import DYNAMIC, Sameness, text
from moldau.products.registry.core.kinds.json_schema import ParsedSchema, kept, parse
from moldau.products.registry.core.kinds.kind import Kind, WholeSchema

MOST_COMPARISONS = 10_000
"""Comparisons of nested schemas. Schemas that need more are reported as a problem."""
MOST_LEVELS_APART = 5
"""Levels of properties that are examined to prove that two schemas have no common document."""
NEVER = 1 << 30
DRAFT_3, DRAFT_4 = (f"http://json-schema.org/draft-0{number}/schema#" for number in (3, 4))

ONLY_SAME = {
    "pattern": "string",
    "maxContains": "array",
    "dependencies": "object",
    "dependentRequired": "object",
    "dependentSchemas": "object",
}
"""Keyword -> the type that it concerns. A reader with one of these reads only a writer with an equal one."""
UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
WHOLE = "\0whole"
"""Stands for a whole node: of another draft, or with UNEVALUATED, whose meaning depends on all keywords of the node at
any depth."""
UNIONS = ("anyOf", "oneOf")

Problems = tuple[str, ...]


def problems(reader: WholeSchema, writer: WholeSchema) -> list[str]:
    """Why the reader's schema may reject documents that the writer's allows; empty if it never does. Raises
    SchemaError."""
    read, written = parse(reader), parse(writer)
    if DRAFT_3 in (read.draft, written.draft):
        is_same = Sameness(read, written).of_whole_ones()
        return [] if is_same else ["#: of draft 3, only schemas that say the same are compared"]
    try:
        return list(dict.fromkeys(_Reading(read, written).of(read.root, written.root, "#")))
    except (SlowPatternError, JsonSchemaError) as error:
        return [f"the schemas cannot be compared: {error}"]
    except (RecursionError, re.error, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        return [f"the schemas cannot be compared: {type(error).__name__}: {error}"]


class _Reading:
    """One comparison. All methods return the documents of the writer `w` that the reader `r` would reject, as problems
    at a path."""

    def __init__(self, reader: ParsedSchema, writer: ParsedSchema, *, is_lenient: bool = True) -> None:
        """`is_lenient`: a property with a `default` may be absent."""
        self._reader, self._writer, self._is_lenient = reader, writer, is_lenient
        self._same = Sameness(reader, writer)
        self._known: dict[tuple[str, str], Problems] = {}
        self._open: dict[tuple[str, str], int] = {}
        """Pairs whose comparison has begun further out, with their depths."""
        self._outermost = NEVER
        """The least depth of a pair that the current comparison assumes to be compatible."""
        self._left = MOST_COMPARISONS

    @cached_property
    def _opposite(self) -> _Reading:
        return _Reading(self._writer, self._reader, is_lenient=False)

    @cached_property
    def _strict(self) -> _Reading:
        return _Reading(self._reader, self._writer, is_lenient=False)

    def of(self, r: Node, w: Node, path: str) -> Problems:
        """Assumes that a pair whose comparison has begun further out is compatible: its problems show there. A result
        that rests on this assumption is not cached before the outer pair is done."""
        if r is True or r == EVERYTHING or w is False or self._same.of(r, w):
            return ()
        pair = (text(self._reader.said(r)), text(self._writer.said(w)))
        if pair in self._known:
            return self._known[pair]
        if pair in self._open:
            self._outermost = min(self._outermost, self._open[pair])
            return ()
        self._left -= 1
        if self._left <= 0:
            return (f"{path}: the schemas are too large to be compared",)
        depth, around = len(self._open), self._outermost
        self._open[pair], self._outermost = depth, NEVER
        found = tuple(self._opened(r, w, path))
        del self._open[pair]
        if found or self._outermost >= depth:
            self._known[pair] = found
            self._outermost = around
        self._outermost = min(self._outermost, around)
        return found

    def _opened(self, r: Node, w: Node, path: str) -> Iterator[str]:
        writers = _conjuncts(self._writer, w)
        if any(one is False for one in writers):
            return
        readers = _conjuncts(self._reader, r)
        if any(one is False for one in readers):
            yield f"{path}: the reader allows nothing here"
            return
        needed = [left for one in readers if (left := self._not_the_same(one, writers))]
        unions = [one for one in writers if isinstance(one, dict) and _union_of(one)]
        if unions:
            plain = [_without_unions(one) for one in writers]
            needed = [one for one in needed if list(self._all_of(one, plain, path))]
        if not needed:
            return
        if not unions:
            for one in needed:
                yield from self._all_of(one, writers, path)
            return
        name = _union_of(unions[0])
        rest = [one if one is not unions[0] else _without(one, name) for one in writers if not _is_whole(one)]
        needed = [one.get(WHOLE, one) for one in needed]
        branches = unions[0][name]
        for place, branch in enumerate(branches):
            others = [{"not": one} for at, one in enumerate(branches) if at != place and name == "oneOf"]
            yield from self.of({"allOf": needed}, {"allOf": [branch, *rest, *others]}, f"{path}/{name}")

    def _not_the_same(self, one: Node, writers: list[Node]) -> dict[str, Any]:
        """The part of a reader's node that no writer's node states in the same way."""
        there = [group for each in writers if isinstance(each, dict) for group in groups_of(each)]
        left: dict[str, Any] = {}
        for group in groups_of(one if isinstance(one, dict) else EVERYTHING):
            if not any(self._are_groups_same(group, other) for other in there):
                left |= group
        if self._is_lenient and "required" in left and isinstance(one, dict):
            left["required"] = [name for name in left["required"] if not _has_default(one, name)]
        return left

    def _are_groups_same(self, read: Keywords, written: Keywords) -> bool:
        return read.keys() == written.keys() and all(
            self._same.of(value, written[name]) if name == WHOLE else self._same.of_keyword(name, value, written[name])
            for name, value in read.items()
        )

    def _all_of(self, r: Keywords, writers: list[Node], path: str) -> Iterator[str]:
        """Neither side has `allOf` or `$ref`, and the writer has no union."""
        node = merged(writers)
        if node is False:
            return
        if isinstance(documents := documents_of(node), list):
            allowed = (document for document in documents if self._writer.allows(node, document))
            all_that_it_says = {"allOf": [r[WHOLE]]} if WHOLE in r else r
            yield from (
                f"{path}: the reader does not allow {text(one)}"
                for one in allowed
                if not self._reader.allows(all_that_it_says, one)
            )
            return
        if len(writers) > 1 and any(not list(self._all_of(r, [one], path)) for one in writers if one != EVERYTHING):
            return
        for name in UNIONS:
            if name in r and not self._is_union_read(name, r[name], node, path):
                types = types_of(node)
                if len(types) < 2:
                    yield f"{path}: no branch of the reader's {name} allows what the writer may write"
                for each in types if len(types) > 1 else ():
                    yield from self.of({name: r[name]}, {**node, "type": each}, path)
        yield from self._keywords(r, node, path)

    def _is_union_read(self, name: str, branches: list[Node], w: Node, path: str) -> bool:
        """Whether one branch reads all of `w`. For `oneOf` the other branches must allow none of it."""
        for place, branch in enumerate(branches):
            others = branches[:place] + branches[place + 1 :]
            if not self.of(branch, w, path) and (
                name == "anyOf" or all(self._are_apart(other, w, path) for other in others)
            ):
                return True
        return False

    def _are_apart(self, r: Node, w: Node, path: str, level: int = 0) -> bool:
        """Whether no document is allowed by both; False if this cannot be shown."""
        self._left -= 1
        if self._left <= 0 or w is True or w == EVERYTHING:
            return r is False
        readers, writers = _conjuncts(self._reader, r), _conjuncts(self._writer, w)
        read, written = merged(readers), merged(writers)
        if read is False or written is False:
            return True
        nots = [one["not"] for one in writers if isinstance(one, dict) and "not" in one]
        if any(not self._opposite.of(one, r, path) for one in nots):
            return True
        nots = [one["not"] for one in readers if isinstance(one, dict) and "not" in one]
        if any(not self._strict.of(one, w, path) for one in nots):
            return True
        types = common_types(types_of(read), types_of(written))
        if not types:
            return True
        if (documents := documents_of(written)) is not None:
            return not any(self._writer.allows(w, one) and self._reader.allows(r, one) for one in documents)
        if (documents := documents_of(read)) is not None:
            return not any(self._writer.allows(w, one) and self._reader.allows(r, one) for one in documents)
        if level >= MOST_LEVELS_APART:
            return False
        unions = [one[name] for one in readers if isinstance(one, dict) for name in UNIONS if name in one]
        if any(all(self._are_apart(each, w, path, level + 1) for each in branches) for branches in unions):
            return True
        unions = [one[name] for one in writers if isinstance(one, dict) for name in UNIONS if name in one]
        if any(all(self._are_apart(r, each, path, level + 1) for each in branches) for branches in unions):
            return True
        if types != ["object"]:
            return False
        return any(
            self._are_apart(property_of(read, name), property_of(written, name), path, level + 1)
            for name in dict.fromkeys((*read.get("required", ()), *written.get("required", ())))
        )

    def _keywords(self, read: Keywords, written: Keywords, path: str) -> Iterator[str]:
        types = types_of(written)
        if WHOLE in read:
            yield f"{path}: the reader has `unevaluated...` or another draft, and is not the writer's schema"
        allowed = types_of(read)
        if DRAFT_4 == self._reader.draft != self._writer.draft:  # 1.0 is an integer since draft 6
            allowed = tuple(one for one in allowed if one != "integer")
        refused = [one for one in types if not allows_type(allowed, one)]
        if refused:
            yield f"{path}: the reader does not allow the type {', '.join(refused)}"
        for name in ("enum", "const"):
            if name in read:
                yield f"{path}: the reader allows only the values of `{name}`"
        for name in DYNAMIC:
            if name in read:
                yield f"{path}: the reader's `{name}` is not the writer's"
        if "if" in read:
            yield from self._condition(read, written, path)
        if "not" in read and not self._are_apart(read["not"], written, path):
            yield f"{path}: the reader's `not` refuses more than the writer's"
        yield from self._limits(read, written, path)
        for name, kind in ONLY_SAME.items():
            if name in read and concerns(kind, types):
                yield f"{path}: the reader's `{name}` is not the writer's"
        if "object" in types:
            yield from self._properties(read, written, path)
        if "array" in types:
            yield from self._items(read, written, path)

    def _condition(self, read: Keywords, written: Keywords, path: str) -> Iterator[str]:
        """Compares branches under an equal condition; a branch under another condition must be allowed in any case."""
        is_same = "if" in written and self._same.of(read["if"], written["if"])
        rest = {name: value for name, value in written.items() if name not in ("if", "then", "else")}
        for name in ("then", "else"):
            if name in read:
                there = [written[name]] if is_same and name in written else []
                yield from self.of(read[name], {"allOf": [*there, rest]}, f"{path}/{name}")

    def _limits(self, read: Keywords, written: Keywords, path: str) -> Iterator[str]:
        types = types_of(written)
        for name, kind in (*MOST.items(), *LEAST.items()):
            if name in read and concerns(kind, types):
                there = written.get(name, 0 if name in LEAST else None)
                if there is None or (read[name] < there if name in MOST else read[name] > there):
                    yield f"{path}: the reader's `{name}` is tighter than the writer's"
        if concerns("number", types):
            for name, bound, sign in (("maximum", upper, 1), ("minimum", lower, -1)):
                limit, there = bound(read), bound(written)
                if limit is not None and (
                    there is None or sign * limit[0] < sign * there[0] or (limit[0] == there[0] and limit[1] > there[1])
                ):
                    yield f"{path}: the reader's `{name}` is tighter than the writer's"
            step = read.get("multipleOf")
            given = written.get("multipleOf", None if "number" in types else 1)
            if step and not is_multiple(given, step):
                yield f"{path}: the reader's `multipleOf` allows less than the writer's"

    def _properties(self, read: Keywords, written: Keywords, path: str) -> Iterator[str]:
        for name in read.get("required", ()):
            if name not in written.get("required", ()):
                yield f"{path}: the reader needs the property {name!r}"
        if "propertyNames" in read:
            names = {"allOf": [{"type": "string"}, written.get("propertyNames", EVERYTHING)]}
            yield from self.of(read["propertyNames"], names, f"{path}/propertyNames")
        for name in dict.fromkeys((*read.get("properties", ()), *written.get("properties", ()))):
            yield from self.of(property_of(read, name), property_of(written, name), f"{path}/properties/{name}")
        for pattern, node in read.get("patternProperties", {}).items():
            for there in _matching(pattern, written):
                yield from self.of(node, there, f"{path}/patternProperties/{pattern}")
        for name, node in written.get("patternProperties", {}).items():
            yield from self.of(read.get("patternProperties", {}).get(name, others_of(read)), node, path)
        yield from self.of(others_of(read), others_of(written), f"{path}/additionalProperties")

    def _items(self, r: Keywords, w: Keywords, path: str) -> Iterator[str]:
        if r.get("uniqueItems") is True and w.get("uniqueItems") is not True:
            yield f"{path}: the reader allows no item twice"
        least = r.get("minContains", 1)
        if "contains" in r and least and least > w.get("minContains", 1 if "contains" in w else 0):
            yield f"{path}: the reader needs more items of `contains` than the writer"
        elif "contains" in r and least:
            yield from self.of(r["contains"], w["contains"], f"{path}/contains")
        first_read, other_read = items_of(r)
        first_written, other_written = items_of(w)
        for place in range(max(len(first_read), len(first_written))):
            read = first_read[place] if place < len(first_read) else other_read
            written = first_written[place] if place < len(first_written) else other_written
            yield from self.of(read, written, f"{path}/items/{place}")
        yield from self.of(other_read, other_written, f"{path}/items")


def _conjuncts(schema: ParsedSchema, node: Node, seen: tuple[str, ...] = ()) -> list[Node]:
    """The schemas that must all match, each without `allOf` and `$ref`. Raises JsonSchemaError."""
    said = schema.said(node)
    if not isinstance(said, dict):
        return [said]
    if "$schema" in said:
        return [{WHOLE: node}]
    found: list[Node] = []
    if any(said.get(name, True) is not True and said[name] != EVERYTHING for name in UNEVALUATED):
        found.append({WHOLE: node})
    reference = said.get("$ref")
    if reference is not None and reference not in seen:
        found += _conjuncts(schema, schema.referred(reference), (*seen, reference))
    for one in said.get("allOf", ()):
        found += _conjuncts(schema, one, seen)
    rest = {name: value for name, value in said.items() if name not in ("$ref", "allOf", *UNEVALUATED)}
    return [*found, rest] if rest or not found else found


def _matching(pattern: str, written: Keywords) -> list[Node]:
    """Schemas that together allow at least every value that the writer may write for property names with this
    pattern."""
    patterns: dict[str, Node] = written.get("patternProperties", {})
    if pattern in patterns:
        return [patterns[pattern]]
    named = [node for name, node in written.get("properties", {}).items() if is_found(pattern, name)]
    return [*named, *patterns.values(), others_of(written)]


def _union_of(node: Keywords) -> str:
    return next((name for name in UNIONS if name in node), "")


def _is_whole(node: Node) -> bool:
    return isinstance(node, dict) and WHOLE in node


def _has_default(node: Keywords, name: str) -> bool:
    found = node.get("properties", EVERYTHING).get(name)
    return isinstance(found, dict) and "default" in found


def _without(node: Keywords, name: str) -> Node:
    return {each: value for each, value in node.items() if each != name}


def _without_unions(node: Node) -> Node:
    return {name: value for name, value in node.items() if name not in UNIONS} if isinstance(node, dict) else node


JSON_SCHEMAS = Kind(kept, problems)
