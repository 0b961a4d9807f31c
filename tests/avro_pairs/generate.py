"""Random Avro schemas that have columns, earlier versions of them, and records of those."""

from __future__ import annotations

import copy
import json
import random
import string
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.avro_pairs.encoding import Branch, Json, encoded

INT, LONG = 1 << 31, 1 << 63
DAY_MS = 86_400_000
FLOATS = (0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 3.4028234663852886e38, 1.401298464324817e-45)
DOUBLES = (*FLOATS, 0.1, 1.7976931348623157e308, 5e-324, 16777217.0)
TEXTS = ("", "a", "č", "NaN", "0", "\x00", "😀", "x" * 300)
BYTES = (b"", b"\x00", b"\xff", b"\x04\xd2", b"\x80\x00", b"a" * 40)
UUIDS = ("00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff")
LONGS = (0, 1, -1, LONG - 1, -LONG, (1 << 53) + 1, (1 << 24) + 1, (1 << 60) + (1 << 36) + 1, 1_700_000_000_000)
MILLIS = (0, -1, 1_700_000_000_123, -62_135_596_800_000, 253_402_300_799_999)
FAR_MILLIS = (-62_135_596_800_001, 253_402_300_800_000, LONG - 1, -LONG)
LOGICAL: dict[str, tuple[str, ...]] = {
    "int": ("date", "time-millis"),
    "long": (
        "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros", "time-micros",
    ),
    "string": ("uuid",),
    "bytes": ("decimal",),
    "fixed": ("decimal",),
}  # fmt: skip
NARROWER = {"long": ("int",), "float": ("int", "long"), "double": ("int", "long", "float"), "string": ("bytes",)}
NARROWER["bytes"] = ("string",)
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Pair(NamedTuple):
    writer: Json
    reader: Json
    values: list[bytes]

    def asked(self) -> list[dict[str, str]]:
        texts = {"writer": json.dumps(self.writer), "reader": json.dumps(self.reader)}
        return [{**texts, "value": value.hex()} for value in self.values]


class Generator:
    def __init__(self, seed: object) -> None:
        self.random = random.Random(str(seed))
        self._names = 0
        self._named: dict[str, Json] = {}

    def pair(self, values: int = 3) -> Pair:
        reader = self.record(2)
        writer = self.older(reader)
        if self.random.random() < 0.1:
            writer = self.random.choice([["null", writer], [writer, "null"], [writer]])
        raw = self.values(writer, values)
        return Pair(writer, reader, [one[:-1] if self.random.random() < 0.02 else one for one in raw])

    def values(self, schema: Json, count: int = 3) -> list[bytes]:
        return [encoded(schema, self.value(schema)) for _ in range(count)]

    def left_out(self, record: Json) -> list[str]:
        """Names of fields that are left to their defaults."""
        return [one["name"] for one in record["fields"] if "default" in one and self.random.random() < 0.3]

    # -- schemas

    def record(self, depth: int) -> Json:
        fields = [self.field(f"f{place}", depth) for place in range(self.random.randint(1, 5))]
        if self.random.random() < 0.2:
            kind = self.random.choice([self.enum(), self.fixed()])
            self._named[kind["name"]] = kind
            fields += [{"name": "one", "type": kind}, {"name": "again", "type": kind["name"]}]
        return {"type": "record", "name": self.name("R"), "fields": fields}

    def field(self, name: str, depth: int) -> Json:
        kind = self.kind(depth)
        if self.random.random() < 0.4:
            kind = self.random.choice([["null", kind], [kind, "null"]]) if kind != "null" else kind
        found = {"name": name, "type": kind}
        if self.random.random() < 0.8:
            found["default"] = self.default(kind)
        return found

    def kind(self, depth: int) -> Json:
        choice = self.random.choice
        kinds: list[Callable[[], Json]] = [
            lambda: choice(PRIMITIVES),
            self.logical,
            self.logical,
            self.enum,
            self.fixed,
        ]
        if depth:
            kinds += [
                lambda: {"type": "array", "items": self.inner(depth)},
                lambda: {"type": "map", "values": self.inner(depth)},
                lambda: self.record(depth - 1),
            ]
        return choice(kinds)()

    def inner(self, depth: int) -> Json:
        kind = self.kind(depth - 1)
        return ["null", kind] if kind != "null" and self.random.random() < 0.3 else kind

    def logical(self) -> Json:
        kind = self.random.choice(tuple(LOGICAL))
        found = self.fixed() if kind == "fixed" else {"type": kind}
        found["logicalType"] = self.random.choice(LOGICAL[kind])
        if found["logicalType"] == "decimal":
            most = 38 if kind == "bytes" else {1: 2, 2: 4, 8: 18, 16: 38}[found["size"]]
            found["precision"] = self.random.randint(1, most)
            found["scale"] = self.random.randint(0, found["precision"])
        return found

    def enum(self) -> Json:
        symbols = self.random.sample(string.ascii_uppercase, self.random.randint(1, 4))
        default = {"default": self.random.choice(symbols)} if self.random.random() < 0.3 else {}
        return {"type": "enum", "name": self.name("E"), "symbols": symbols, **default}

    def fixed(self) -> Json:
        return {"type": "fixed", "name": self.name("F"), "size": self.random.choice((1, 2, 8, 16))}

    def name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def default(self, kind: Json) -> Json:
        """In its JSON form."""
        choice = self.random.choice
        kind = self._named.get(kind, kind) if isinstance(kind, str) else kind
        if isinstance(kind, list):  # Java turns null into an empty map, say, for the default of another branch
            return self.default(kind[0])
        name = kind if isinstance(kind, str) else kind["type"]
        if name == "record":
            given = [field for field in kind["fields"] if "default" not in field or self.random.random() < 0.5]
            return {field["name"]: self.default(field["type"]) for field in given}
        if name == "array":
            return [self.default(kind["items"]) for _ in range(self.random.randint(0, 2))]
        if name == "map":
            return {key: self.default(kind["values"]) for key in self.random.sample(("", "a", "č"), 2)}
        if name == "enum":
            return choice(kind["symbols"])
        if name == "fixed":
            return self.fixed_bytes(kind).decode("iso-8859-1")
        if name == "bytes":
            return choice(BYTES).decode("iso-8859-1")
        if name in ("float", "double"):
            return choice((0, 1, -1.5, 0.1, 1e30))
        value = self.value(kind)
        return value if name != "string" else str(value)

    # -- evolution, backwards

    def older(self, reader: Json) -> Json:
        """An earlier version of the reader's schema, some of whose records can be read."""
        record = copy.deepcopy(reader)
        named = {"one", "again"}
        kept = [field for field in record["fields"] if field["name"] in named or self.random.random() < 0.85]
        for field in kept:
            if field["name"] not in named:
                field["type"] = self.changed(field["type"])
            field.pop("default", None)
        if self.random.random() < 0.3:
            kept.insert(self.random.randint(0, len(kept)), {"name": "gone", "type": self.kind(1)})
        if self.random.random() < 0.1:
            kept.insert(0, {"name": "list", "type": self.chain()})
        if kept and self.random.random() < 0.2 and kept[-1]["name"] not in named:
            self.rename_field(kept[-1], reader)
        others = [field for field in kept if field["name"] not in named]
        self.random.shuffle(others)
        record["fields"] = others + [field for field in kept if field["name"] in named]
        return record

    def chain(self) -> Json:
        """A recursive record, which a reader may only skip."""
        name = self.name("N")
        self._named[name] = {"type": "record", "name": name, "fields": [{"name": "next", "type": ["null", name]}]}
        return self._named[name]

    def rename_field(self, field: Json, reader: Json) -> None:
        for own in reader["fields"]:
            if own["name"] == field["name"]:
                field["name"] = "before"
                own["aliases"] = ["before"]

    def changed(self, kind: Json) -> Json:
        act = self.random.random()
        if act < 0.5:
            return kind
        if isinstance(kind, list):
            other = next(one for one in kind if one != "null")
            older = self.changed(other)
            plain = older if isinstance(older, str) else None
            extra = self.random.choice([one for one in PRIMITIVES[1:] if one != plain])
            unions = [["null", older], [older, "null"], older, ["null", older, extra], [extra, older]]
            return self.random.choice([one for one in unions if _is_union(one)] or [older])
        if act < 0.6 and kind != "null":
            return self.random.choice([["null", kind], [kind, "null"], [kind]])
        if act < 0.63:
            return self.random.choice(PRIMITIVES)
        name = kind if isinstance(kind, str) else kind["type"]
        if name == "record":
            return self.older(kind)
        if name in ("array", "map"):
            key = "items" if name == "array" else "values"
            return {**kind, key: self.changed(kind[key])}
        if name == "enum":
            return self.changed_enum(kind)
        if name == "fixed":
            return {key: value for key, value in kind.items() if key not in ("logicalType", "precision", "scale")}
        return self.changed_primitive(kind, name)

    def changed_enum(self, kind: Json) -> Json:
        symbols = self.random.sample(string.ascii_uppercase, 2)
        kept = [one for one in kind["symbols"] if one not in symbols]
        both = [*kept, *symbols]
        self.random.shuffle(both)
        return {"type": "enum", "name": kind["name"], "symbols": both}

    def changed_primitive(self, kind: Json, name: str) -> Json:
        """Narrower, or with another logical type, or without one."""
        if name in NARROWER and self.random.random() < 0.5:
            name = self.random.choice(NARROWER[name])
        if self.random.random() < 0.5 or name not in LOGICAL:
            return self.random.choice([name, {"type": name}])
        logical = self.random.choice(LOGICAL[name])
        digits = {"precision": 9, "scale": 2} if logical == "decimal" else {}
        return {"type": name, "logicalType": logical, **digits}

    # -- values below logical types

    def value(self, kind: Json) -> Any:
        choice = self.random.choice
        if isinstance(kind, list):
            place = self.random.randrange(len(kind)) if self.random.random() < 0.8 else 0
            return Branch(place, self.value(kind[place]))
        kind = self._named.get(kind, kind) if isinstance(kind, str) else kind
        name = kind if isinstance(kind, str) else kind["type"]
        if name == "record":
            return {field["name"]: self.value(field["type"]) for field in kind["fields"]}
        if name == "array":
            return [self.value(kind["items"]) for _ in range(self.random.randint(0, 3))]
        if name == "map":
            keys = self.random.sample(TEXTS, self.random.randint(0, 3))
            return {key: self.value(kind["values"]) for key in keys}
        if name == "enum":
            return self.random.randrange(len(kind["symbols"]))
        if name == "fixed":
            return self.fixed_bytes(kind)
        logical = kind.get("logicalType") if isinstance(kind, dict) else None
        if logical is not None:
            return self.logical_value(logical, kind)
        numbers = {"int": (0, 1, -1, INT - 1, -INT, (1 << 24) + 1, 19_000), "long": LONGS}
        known: dict[str, Callable[[], Any]] = {
            "null": lambda: None,
            "boolean": lambda: choice((True, False)),
            "int": lambda: choice((*numbers["int"], self.random.randrange(-INT, INT))),
            "long": lambda: choice((*numbers["long"], self.random.randrange(-LONG, LONG))),
            "float": lambda: choice((*FLOATS, struct.unpack("<f", struct.pack("<f", self.random.uniform(-9, 9)))[0])),
            "double": lambda: choice((*DOUBLES, self.random.uniform(-9, 9))),
            "bytes": lambda: choice((*BYTES, "text č".encode())),
            "string": lambda: choice((*TEXTS, *UUIDS)),
        }
        return known[name]()

    def logical_value(self, logical: str, kind: Json) -> Any:
        choice, is_far = self.random.choice, self.random.random() < 0.05
        if logical == "decimal":
            number = self.random.randrange(-(10 ** kind["precision"]), 10 ** kind["precision"] + 1)
            return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        if logical == "uuid":
            return choice(("no uuid", UUIDS[0].upper()) if is_far else UUIDS)
        if logical == "date":
            return choice((-719_163, 2_932_897, INT - 1) if is_far else (0, -1, 19_000, -719_162, 2_932_896))
        unit = 1 if logical.endswith("millis") else 1_000
        if logical.startswith("time-"):
            return choice((DAY_MS * unit, -1) if is_far else (0, 1, DAY_MS * unit - 1))
        moment = choice(FAR_MILLIS if is_far else MILLIS) * unit + self.random.randrange(unit)
        return max(-LONG, min(LONG - 1, moment))

    def fixed_bytes(self, kind: Json) -> bytes:
        if kind.get("logicalType") == "decimal":
            number = self.random.randrange(-(10 ** kind["precision"]) + 1, 10 ** kind["precision"])
            return number.to_bytes(kind["size"], "big", signed=True)
        return self.random.randbytes(kind["size"])


def _is_union(kind: Json) -> bool:
    """Whether no type repeats and no branch is itself a union."""
    if not isinstance(kind, list):
        return True
    names = [one if isinstance(one, str) else None if isinstance(one, list) else _name(one) for one in kind]
    return None not in names and len(set(names)) == len(names)


def _name(kind: Json) -> str:
    return str(kind.get("name", kind["type"]))
