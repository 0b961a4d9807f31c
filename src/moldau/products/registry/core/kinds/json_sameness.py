"""Whether two JSON Schemas are equal, including their references and ignoring annotations."""

from __future__ import annotations

import json
from typing import Any

from moldau.products.json_schemas import BY_NAMES, VALUES, Node
from moldau.products.registry.core.kinds.json_schema import ParsedSchema

ANNOTATIONS = (
    *("title", "description", "$comment", "examples", "default", "deprecated", "readOnly", "writeOnly"),
    *("contentEncoding", "contentMediaType", "contentSchema", "format"),
)
OF_SCHEMAS = (
    *("properties", "patternProperties", "dependentSchemas", "dependencies", "additionalProperties"),
    *("unevaluatedProperties", "propertyNames", "items", "prefixItems", "additionalItems", "unevaluatedItems"),
    *("contains", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
)
"""Keywords that hold a schema, a list of them, or schemas by names."""
WITHOUT_ORDER = ("type", "required")
REFERENCE = 'Ref"'
"""The suffix of every keyword that holds a reference."""
DYNAMIC = ("$dynamicRef", "$recursiveRef")
"""The target of these depends on all schemas on the path to them."""


class Sameness:
    """Compares nodes of two schemas. Recursive references are equal unless a difference is found."""

    def __init__(self, first: ParsedSchema, second: ParsedSchema) -> None:
        self._first, self._second = first, second
        self._has_one_draft = first.draft == second.draft
        self._same: set[tuple[str, str]] = set()
        """Pairs of references with equal targets."""
        self._different: set[tuple[str, str]] = set()
        self._assumed: set[tuple[str, str]] = set()
        self._are_whole_ones_same: bool | None = None

    def of(self, first: Node, second: Node) -> bool:
        """Whether they allow the same documents; False if this cannot be shown. Raises JsonSchemaError."""
        return self._decided(self._nodes, first, second)

    def of_whole_ones(self) -> bool:
        """Whether the whole texts are equal, ignoring annotations."""
        if self._are_whole_ones_same is None:
            one, other = self._first.parts, self._second.parts
            self._are_whole_ones_same = one.keys() == other.keys() and all(
                text(_bare(one[name])) == text(_bare(other[name])) for name in one
            )
        return self._are_whole_ones_same and self._has_one_draft

    def of_keyword(self, name: str, first: Any, second: Any) -> bool:
        return self._decided(lambda one, other: self._values(name, one, other), first, second)

    def _decided(self, compare: Any, first: Any, second: Any) -> bool:
        if not self._has_one_draft:
            return False
        self._assumed = set()
        found = bool(compare(first, second))
        if found:
            self._same |= self._assumed
        return found

    def _nodes(self, first: Node, second: Node) -> bool:
        if not isinstance(first, dict) or not isinstance(second, dict):
            return type(first) is type(second) and bool(first == second)
        if "$schema" in first or "$schema" in second:  # its draft differs from that of the text around it
            return text(first) == text(second) and REFERENCE not in text(first)
        one, other = self._first.said(first), self._second.said(second)
        if one.keys() == {"$ref"} != other.keys():
            return self._nodes(self._first.referred(one["$ref"]), second)
        if other.keys() == {"$ref"} != one.keys():
            return self._nodes(first, self._second.referred(other["$ref"]))
        return one.keys() == other.keys() and all(self._values(name, one[name], other[name]) for name in one)

    def _values(self, name: str, first: Any, second: Any) -> bool:
        if name == "$ref":
            pair = (first, second)
            if pair in self._same or pair in self._assumed:
                return True
            if pair in self._different:
                return False
            self._assumed.add(pair)
            found = self._nodes(self._first.referred(first), self._second.referred(second))
            if not found:
                self._different.add(pair)
            return found
        if name in DYNAMIC:
            return bool(first == second) and self.of_whole_ones()
        if name in OF_SCHEMAS:
            return self._schemas(first, second, has_names=name in BY_NAMES)
        if name in WITHOUT_ORDER and isinstance(first, list) and isinstance(second, list):
            return sorted(map(text, first)) == sorted(map(text, second))
        return text(first) == text(second)

    def _schemas(self, first: Any, second: Any, *, has_names: bool) -> bool:
        if isinstance(first, list) and isinstance(second, list):
            pairs = zip(first, second, strict=False)
            return len(first) == len(second) and all(self._part(one, other) for one, other in pairs)
        if has_names and isinstance(first, dict) and isinstance(second, dict):
            return first.keys() == second.keys() and all(self._part(first[name], second[name]) for name in first)
        return self._part(first, second)

    def _part(self, first: Any, second: Any) -> bool:
        """Compares schemas, or the lists of property names that `dependencies` may have instead."""
        if isinstance(first, list) or isinstance(second, list):
            return text(first) == text(second)
        return self._nodes(first, second)


def text(node: Any) -> str:
    return json.dumps(node, sort_keys=True)


def _bare(node: Any, *, is_by_names: bool = False) -> Any:
    """The node without annotations."""
    if isinstance(node, list):
        return [_bare(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        name: value
        if not is_by_names and name in VALUES
        else _bare(value, is_by_names=not is_by_names and name in BY_NAMES)
        for name, value in node.items()
        if is_by_names or name not in ANNOTATIONS
    }
