"""The defaults that a field may have: a table, as Apache Avro for Java (1.12.1) parses schemas."""

from __future__ import annotations

import json
from typing import NamedTuple

from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.kinds.kinds import AVRO, KINDS
from moldau.products.registry.core.refusals import SchemaError
from tests.avro_pairs.encoding import Json

ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 2}
INNER = {
    "type": "record",
    "name": "Inner",
    "fields": [{"name": "x", "type": "int", "default": 7}, {"name": "y", "type": "double"}],
}
LIST, MAP = {"type": "array", "items": "int"}, {"type": "map", "values": "int"}
DAY = {"type": "int", "logicalType": "date"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}


class Default(NamedTuple):
    type: Json
    value: Json
    is_taken: bool

    def schema(self) -> Json:
        return {"type": "record", "name": "Row", "fields": [{"name": "a", "type": self.type, "default": self.value}]}


def is_kept(one: Default) -> bool:
    """Whether the registry accepts it."""
    try:
        KINDS[AVRO].kept(WholeSchema(json.dumps(one.schema())))
    except SchemaError:
        return False
    return True


_TAKEN: list[tuple[Json, list[Json]]] = [
    ("null", [None]),
    ("boolean", [True, False]),
    ("int", [0, -(1 << 31), (1 << 31) - 1]),
    ("long", [0, -(1 << 63), (1 << 63) - 1]),
    ("float", [0, 1, 1.5, 1e300, 1 << 80, "NaN", "Infinity", "-Infinity", "1.5", "1e3"]),
    ("double", [0, 1, 1.5, 1e300, 1 << 80, "NaN", "Infinity", "-Infinity", "1.5", "1e3"]),
    ({"type": "double"}, [0, 1.5, "NaN"]),
    ("string", ["", "a", "č"]),
    ("bytes", ["", "\x00\xff"]),
    (ENUM, ["A"]),
    (FIXED, ["ab", "\x00\xff"]),
    (LIST, [[], [1, 2]]),
    (MAP, [{}, {"a": 1}]),
    (INNER, [{"y": 1}, {"y": 1.5, "x": 2}, {"y": 1, "z": "more"}]),
    (["null", "int"], [None, 1]),
    (["int", "null"], [None, 1]),
    (["null", "double"], [1, 1.5]),
    (["null", INNER], [{"y": 1}]),
    (DAY, [1]),
    (MONEY, ["\x01"]),
    ({"type": "string", "logicalType": "uuid"}, ["no uuid"]),
    ({"type": "array", "items": ["null", "int"]}, [[None, 1]]),
]
_REFUSED: list[tuple[Json, list[Json]]] = [
    ("null", [0, "null", False]),
    ("boolean", [0, "true", None]),
    ("int", [1.0, 1.5, "1", True, None, 1 << 31, -(1 << 31) - 1]),
    ("long", [1.0, 1.5, "1", True, None, 1 << 63]),
    ("float", ["x", "", "nan", True, None, []]),
    ("double", ["x", "1_0", True, None, {}]),
    ("string", [1, None, ["a"]]),
    ("bytes", [1, None, [1]]),
    (ENUM, [0, None]),
    (FIXED, [0, None]),
    (LIST, [{}, "[]", [1, "2"], None]),
    (MAP, [[], {"a": "1"}, None]),
    (INNER, [{}, {"x": 1}, {"y": "NaN!"}, [], {"y": 1, "x": "no"}]),
    (["null", "int"], [1.5, "1"]),
    (["null", "double"], ["NaN"]),
    (["null", INNER], [{}]),
    (DAY, ["2020-01-01", 1.5]),
    (MONEY, [1.5, 1]),
    ({"type": "array", "items": "double"}, [["NaN"]]),
]
DEFAULTS = [
    *(Default(kind, value, is_taken=True) for kind, values in _TAKEN for value in values),
    *(Default(kind, value, is_taken=False) for kind, values in _REFUSED for value in values),
]
