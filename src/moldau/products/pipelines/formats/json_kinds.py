"""Maps a JSON Schema to columns by its types alone, because records of other versions may break its other rules.

A value of several types, or of any, has the kind ANYTHING, and its column holds JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.arrow_types import Listed, Mapped, Record, Shape, struct_of

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.products.json_schemas import JsonSchema, Node

STRUCT, ARRAY, MAP, ANYTHING = "struct", "array", "map", "anything"
BOOLEAN, INTEGER, NUMBER, STRING, TIMESTAMP, DATE = "boolean", "integer", "number", "string", "date-time", "date"
NULL = "null"
UNIONS = ("oneOf", "anyOf")

MOST_PARTS = 10_000
"""The most parts of one schema. References can expand a short text to a huge schema."""

Keywords = Mapping[str, Any]


class _Placed(msgspec.Struct, frozen=True):
    """A part of a schema, and the references that led to it."""

    node: Any
    around: frozenset[str]


class Kind(msgspec.Struct, frozen=True):
    """`inside`: the properties of a struct; the one nameless element kind of an array or map."""

    name: str
    inside: tuple[tuple[str, Kind], ...] = ()
    is_nullable: bool = False


def kind_of(schema: JsonSchema) -> Kind:
    """A struct. Raises FlowError for a schema without columns."""
    found = _Kinds(schema).of(_root(schema))
    if found.name != STRUCT:
        raise FlowError("the JSON Schema describes no object with `properties` alone, so it has no columns")
    return found


def needed(schema: JsonSchema) -> frozenset[str]:
    """The properties that a document must have."""
    return frozenset(_Kinds(schema).merged(_root(schema)).get("required", ()))


def _root(schema: JsonSchema) -> _Placed:
    return _Placed(schema.root, frozenset([schema.root_reference]))


def arrow_type(kind: Kind) -> pa.StructType:
    """`kind`: a struct."""
    return struct_of(_record(kind))


def _record(kind: Kind) -> Record:
    return Record("", [(name, partial(_shape, one)) for name, one in kind.inside])


def _shape(kind: Kind) -> Shape:
    import pyarrow as pa

    if kind.name == STRUCT:
        return _record(kind)
    if kind.name in (ARRAY, MAP):
        inner = partial(_shape, kind.inside[0][1])
        return Listed(inner) if kind.name == ARRAY else Mapped(inner)
    known = {
        BOOLEAN: pa.bool_(), INTEGER: pa.int64(), NUMBER: pa.float64(), TIMESTAMP: pa.timestamp("us", "UTC"),
        DATE: pa.date32(),
    }  # fmt: skip
    return known.get(kind.name, pa.string())


class _Kinds:
    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._left = MOST_PARTS

    def of(self, part: _Placed) -> Kind:
        found = [self._of_one(keywords) for keywords in self._alternatives(part)]
        is_nullable = any(one.is_nullable for one in found)
        kinds = {msgspec.structs.replace(one, is_nullable=is_nullable): None for one in found if one.name != NULL}
        if {kind.name for kind in kinds} == {INTEGER, NUMBER}:
            return Kind(NUMBER, is_nullable=is_nullable)
        return next(iter(kinds)) if len(kinds) == 1 else Kind(ANYTHING, is_nullable=is_nullable)

    def _alternatives(self, part: _Placed) -> Iterator[Keywords]:
        """The schemas of all branches, without unions and with at most one type each; a value matches one of them."""
        keywords = self.merged(part)
        for union in UNIONS:
            if union in keywords:
                rest = {name: value for name, value in keywords.items() if name != union}
                for branch in keywords[union]:
                    yield from self._alternatives(_Placed({"allOf": [rest, branch]}, part.around))
                return
        types = keywords.get("type", _types_of_values(keywords))
        for one in types if isinstance(types, list) else [types]:
            yield {**keywords, "type": one}

    def merged(self, part: _Placed) -> Keywords:
        """The keywords, including those from `allOf` and `$ref`, with their subschemas placed. The first of several
        keywords of one name counts. A schema that contains itself has no keywords."""
        self._left -= 1
        if self._left <= 0:
            raise FlowError(f"the JSON Schema has more than {MOST_PARTS:,} parts")
        node, around = part.node, part.around
        if not isinstance(node, dict):
            return {}
        found = {name: _with_places(name, value, around) for name, value in node.items()}
        brought = [_placed(one, around) for one in found.pop("allOf", ())]
        reference = found.pop("$ref", None)
        if reference in around:
            return {}
        if reference is not None:
            brought.append(_Placed(self._schema.referred(reference), around | {reference}))
        for one in brought:
            for name, value in self.merged(one).items():
                if name == "properties":
                    found[name] = {**value, **found.get(name, {})}
                elif name == "required":
                    found[name] = [*found.get(name, ()), *value]
                else:
                    found.setdefault(name, value)
        return found

    def _of_one(self, keywords: Keywords) -> Kind:
        name = keywords["type"] or next((kind for key, kind in _TOLD_BY.items() if key in keywords), ANYTHING)
        if name == "object":
            return self._of_object(keywords)
        if name == "array":
            items = keywords.get("items")
            if isinstance(items, _Placed) and "prefixItems" not in keywords:
                return Kind(ARRAY, (("", self.of(items)),))
            return Kind(ANYTHING)
        if name == "string" and keywords.get("format") in (TIMESTAMP, DATE):
            return Kind(keywords["format"])
        return Kind(name, is_nullable=name in (NULL, ANYTHING))

    def _of_object(self, keywords: Keywords) -> Kind:
        properties, others = keywords.get("properties"), keywords.get("additionalProperties")
        if properties:
            return Kind(STRUCT, tuple((name, self.of(one)) for name, one in properties.items()))
        if isinstance(others, _Placed) and "patternProperties" not in keywords:
            return Kind(MAP, (("", self.of(others)),))
        return Kind(ANYTHING)


def _with_places(name: str, value: Any, around: frozenset[str]) -> Any:
    """The value of the keyword, with its relevant subschemas placed."""
    if name == "properties":
        return {key: _placed(one, around) for key, one in value.items()}
    if name in UNIONS:
        return [_placed(one, around) for one in value]
    # a list of items has several types, and a boolean schema has none
    return _placed(value, around) if name in ("items", "additionalProperties") and isinstance(value, dict) else value


def _placed(node: Node, around: frozenset[str]) -> _Placed:
    return node if isinstance(node, _Placed) else _Placed(node, around)


_TOLD_BY = {"properties": "object", "items": "array"}
"""Keywords that imply a type."""


def _types_of_values(keywords: Keywords) -> list[str] | None:
    """The types of the values, if the schema lists values."""
    if "const" not in keywords and "enum" not in keywords:
        return None
    values = [keywords["const"]] if "const" in keywords else keywords["enum"]
    return list(dict.fromkeys(map(_type_of_value, values)))


def _type_of_value(value: object) -> str:
    known: dict[type, str] = {
        bool: BOOLEAN, int: INTEGER, float: NUMBER, Decimal: NUMBER, str: STRING, type(None): NULL, list: "array",
    }  # fmt: skip
    return known.get(type(value), "object")
