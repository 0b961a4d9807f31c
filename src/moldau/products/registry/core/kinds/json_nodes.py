"""The combined keywords of one node of a JSON Schema, or of several nodes that must all match."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from moldau.products.json_schemas import Node
from moldau.products.registry.core.kinds.json_patterns import check_pattern
from moldau.products.registry.core.kinds.json_sameness import text

EVERYTHING: dict[str, Any] = {}
Keywords = Mapping[str, Any]
Bound = tuple[Decimal, bool]
"""The number, and whether it is excluded."""

TYPES = ("array", "boolean", "null", "number", "object", "string")
FINITE: dict[str, list[Any]] = {"null": [None], "boolean": [False, True]}
"""All documents of a type."""
MOST = {"maxLength": "string", "maxItems": "array", "maxProperties": "object"}
LEAST = {"minLength": "string", "minItems": "array", "minProperties": "object"}
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
PROPERTIES = ("properties", "patternProperties", "additionalProperties")
ITEMS = ("prefixItems", "items", "additionalItems")
GROUPS = (PROPERTIES, ITEMS, NUMBERS, ("if", "then", "else"), ("contains", "minContains", "maxContains"))
"""Keywords that only have a meaning together."""


def groups_of(node: Keywords) -> list[dict[str, Any]]:
    """Splits the node into parts that together have the same meaning."""
    groups: dict[tuple[str, ...], dict[str, Any]] = {}
    for name, value in node.items():
        group = next((names for names in GROUPS if name in names), (name,))
        groups.setdefault(group, {})[name] = value
    return list(groups.values())


def merged(nodes: Iterable[Node]) -> Any:
    """A node that allows at least all documents that match every node; False if no document can. Keywords that one node
    cannot combine go to `allOf`."""
    found: dict[str, Any] = {}
    more: list[Any] = []
    for node in nodes:
        if node is False:
            return False
        for group in groups_of(node if isinstance(node, dict) else EVERYTHING):
            rest = _joined(found, group)
            more += [rest] if rest else []
    if "type" in found and not found["type"]:
        return False
    return {**found, "allOf": more} if more else found


def _joined(found: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    """Adds a group to `found`; returns the part that cannot be added."""
    name, value = next(iter(group.items()))
    if name == "type":
        found["type"] = common_types(types_of(found), types_of(group))
    elif name in NUMBERS:
        _join_bounds(found, group)
    elif name in MOST or name in LEAST:
        found[name] = (min if name in MOST else max)(found.get(name, value), value)
    elif name == "required" and isinstance(value, list):
        found[name] = list(dict.fromkeys((*found.get(name, ()), *value)))
    elif name == "uniqueItems":
        found[name] = value is True or found.get(name) is True
    elif name in PROPERTIES and any(one in found for one in PROPERTIES):
        if "patternProperties" in found or "patternProperties" in group:
            return group
        names = dict.fromkeys((*found.get("properties", ()), *group.get("properties", ())))
        properties = {one: both(property_of(found, one), property_of(group, one)) for one in names}
        found |= {"properties": properties, "additionalProperties": both(others_of(found), others_of(group))}
    elif not any(one in found for one in next((names for names in GROUPS if name in names), (name,))):
        found |= group
    elif any(text(found.get(one)) != text(value) for one, value in group.items()):
        return group
    return {}


def _join_bounds(found: dict[str, Any], group: dict[str, Any]) -> None:
    for bound, inclusive, exclusive, tighter in (
        (lower, "minimum", "exclusiveMinimum", max),
        (upper, "maximum", "exclusiveMaximum", min),
    ):
        limits = [one for one in (bound(found), bound(group)) if one is not None]
        found.pop(inclusive, None)
        found.pop(exclusive, None)
        if limits:
            number = tighter(number for number, _ in limits)
            is_out = any(is_out for one, is_out in limits if one == number)
            found[exclusive if is_out else inclusive] = int(number) if number == int(number) else float(number)


def both(first: Node, second: Node) -> Node:
    nodes = [one for one in (first, second) if one is not True and one != EVERYTHING]
    if False in nodes:
        return False
    return {"allOf": nodes} if len(nodes) > 1 else nodes[0] if nodes else EVERYTHING


def types_of(node: Keywords) -> tuple[str, ...]:
    named = node.get("type", TYPES)
    return (named,) if isinstance(named, str) else tuple(named)


def common_types(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return list(
        dict.fromkeys(
            "integer" if "integer" in (one, other) else one
            for one in first
            for other in second
            if one == other or {one, other} == {"integer", "number"}
        )
    )


def concerns(kind: str, types: Sequence[str]) -> bool:
    """Whether documents of these types can be of that kind."""
    return kind in types or (kind == "number" and "integer" in types)


def allows_type(types: Sequence[str], one: str) -> bool:
    return one in types or (one == "integer" and "number" in types)


def documents_of(node: Keywords) -> list[Any] | None:
    """All documents that the node may allow, if it lists them."""
    if "const" in node:
        return [node["const"]]
    if "enum" in node:
        return list(node["enum"])
    types = types_of(node)
    return [one for kind in types for one in FINITE[kind]] if all(kind in FINITE for kind in types) else None


def upper(node: Keywords) -> Bound | None:
    found = _bounds(node, "maximum", "exclusiveMaximum")
    return min(found, key=lambda one: (one[0], not one[1])) if found else None


def lower(node: Keywords) -> Bound | None:
    found = _bounds(node, "minimum", "exclusiveMinimum")
    return max(found, key=lambda one: (one[0], one[1])) if found else None


def _bounds(node: Keywords, inclusive: str, exclusive: str) -> list[Bound]:
    """In draft 4 the exclusive keyword is a boolean that modifies the inclusive one."""
    beside = node.get(exclusive)
    found = [(Decimal(str(node[inclusive])), beside is True)] if inclusive in node else []
    if beside is not None and not isinstance(beside, bool):
        found.append((Decimal(str(beside)), True))
    return found


def is_multiple(number: float | None, step: float) -> bool:
    return number is not None and Decimal(str(number)) % Decimal(str(step)) == 0


def property_of(node: Keywords, name: str) -> Node:
    """A schema that allows at least the values that the node allows for this property."""
    if name in node.get("properties", EVERYTHING):
        return node["properties"][name]
    for pattern, one in node.get("patternProperties", EVERYTHING).items():
        if is_found(pattern, name):
            return one
    return others_of(node)


def is_found(pattern: str, name: str) -> bool:
    """Raises SlowPatternError."""
    check_pattern(pattern, name)
    return re.search(pattern, name) is not None


def others_of(node: Keywords) -> Node:
    return node.get("additionalProperties", EVERYTHING)


def items_of(node: Keywords) -> tuple[list[Node], Node]:
    """The schemas of the first items, and the schema of all others. (Before draft 2020-12, `items` meant both.)"""
    items = node.get("items", EVERYTHING)
    if isinstance(items, list):
        return items, node.get("additionalItems", EVERYTHING)
    return node.get("prefixItems", []), items
