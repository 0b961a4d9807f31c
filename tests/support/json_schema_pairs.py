"""Random pairs of JSON Schemas, and documents that can disprove a verdict about them.

The second schema of a pair is the first one after a few changes, so verdicts are not obvious. Documents are made from a
schema: values at its limits, its constants, its property names.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from jsonschema.validators import validator_for

Node = Any
URIS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
NAMES = ("a", "b", "c", "ab")
PATTERNS = ("^a", "b$", "^[ab]+$")
CONSTANTS = (None, True, False, 0, 1, 2, -1, 1.5, "", "a", "b", "abc", [], [1], {}, {"a": 1}, {"b": "a"})
TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
ANNOTATIONS = {"title": "t", "description": "d", "examples": [1], "x-own": {"type": "null"}, "$comment": "c"}
ABOUT = {
    "integer": ("k_number", "k_multiple"),
    "number": ("k_number", "k_multiple"),
    "string": ("k_length", "k_pattern"),
    "array": ("k_items", "k_contains", "k_counts"),
    "object": ("k_required", "k_properties", "k_closed", "k_pattern_properties", "k_names", "k_dependent"),
}
"""Types, and the keywords that constrain them."""
MOST_LEVELS = 3


class Schemas:
    """Makes schemas of one draft."""

    def __init__(self, rng: random.Random, draft: int) -> None:
        self._rng, self._draft = rng, draft
        self._defs = "$defs" if draft >= 2019 else "definitions"
        self._defined = ("A", "B")
        self._is_in_place = True
        """Whether the present part constrains the same document as the definition around it."""
        self._below: tuple[str, ...] = ()
        """The definitions that may be referred to here: no definition may consist of a reference to itself."""

    def refer_to_nothing_beside(self) -> None:
        """For parts that are used anywhere."""
        self._below = ()

    def whole(self) -> dict[str, Any]:
        self._below = self._defined
        node = self.node(0)
        root = node if isinstance(node, dict) else {"allOf": [node]} if self._draft > 4 else {}
        if "$ref" in root and self._draft < 2019:
            root = {"allOf": [root]}
        definitions = {}
        for place, name in enumerate(self._defined, 1):
            self._below = self._defined[place:]
            definitions[name] = self.node(1)
        return {"$schema": URIS[self._draft], **root, self._defs: definitions}

    def node(self, level: int) -> Node:
        rng = self._rng
        if rng.random() < 0.06 and self._draft > 4:
            return rng.random() < 0.7
        if rng.random() < 0.3 and level and (names := self._below if self._is_in_place else self._defined):
            return self._reference(names)
        keywords = [name for name in dir(self) if name.startswith("k_")]
        chosen = rng.sample(keywords, rng.choice((0, 1, 1, 1, 2, 2)))
        found: dict[str, Any] = {}
        for name in chosen:
            found |= getattr(self, name)(level)
        if rng.random() < 0.7:
            # mostly a type that the keywords constrain
            fitting = [kind for kind, names in ABOUT.items() if any(name in names for name in chosen)]
            kinds = rng.sample(TYPES, rng.choice((1, 1, 1, 2)))
            if fitting and rng.random() < 0.95:
                kinds = list(dict.fromkeys((rng.choice(fitting), *kinds[1:])))
            found["type"] = kinds[0] if len(kinds) == 1 else kinds
        return found

    def _reference(self, names: Sequence[str]) -> Node:
        found: dict[str, Any] = {"$ref": f"#/{self._defs}/{self._rng.choice(names)}"}
        if self._rng.random() < 0.3:  # up to draft 7 it has no meaning there
            found |= self.k_length(0)
        return found

    def inside(self, level: int) -> Node:
        """Of a part of the document."""
        around, self._is_in_place = self._is_in_place, False
        found = self.beside(level)
        self._is_in_place = around
        return found

    def beside(self, level: int) -> Node:
        """Of the same document."""
        return self.node(level + 1) if level < MOST_LEVELS else {"type": self._rng.choice(TYPES)}

    def _some(self, level: int, most: int = 2) -> list[Node]:
        return [self.inside(level) for _ in range(self._rng.randint(1, most))]

    def _branches(self, level: int, most: int = 2) -> list[Node]:
        return [self.beside(level) for _ in range(self._rng.randint(1, most))]

    def _names(self) -> list[str]:
        return self._rng.sample(NAMES, self._rng.randint(1, 2))

    def k_number(self, _: int) -> Node:
        number = self._rng.choice((-1, 0, 1, 2, 2.5))
        name = self._rng.choice(("minimum", "maximum"))
        if self._rng.random() < 0.5:
            exclusive = f"exclusive{name.title()}"
            return {name: number, exclusive: self._rng.random() < 0.7} if self._draft == 4 else {exclusive: number}
        return {name: number}

    def k_multiple(self, _: int) -> Node:
        return {"multipleOf": self._rng.choice((1, 2, 0.5))}

    def k_length(self, _: int) -> Node:
        return {self._rng.choice(("minLength", "maxLength")): self._rng.randint(0, 3)}

    def k_pattern(self, _: int) -> Node:
        return {"pattern": self._rng.choice(PATTERNS)}

    def k_values(self, _: int) -> Node:
        if self._draft > 4 and self._rng.random() < 0.4:
            return {"const": self._rng.choice(CONSTANTS)}
        return {"enum": self._rng.sample(CONSTANTS, self._rng.randint(1, 4))}

    def k_counts(self, _: int) -> Node:
        name = self._rng.choice(("minItems", "maxItems", "minProperties", "maxProperties"))
        return {name: self._rng.randint(0, 2)} if self._rng.random() < 0.8 else {"uniqueItems": True}

    def k_required(self, _: int) -> Node:
        return {"required": self._names()}

    def k_properties(self, level: int) -> Node:
        return {"properties": {name: self.inside(level) for name in self._names()}}

    def k_closed(self, level: int) -> Node:
        others = False if self._rng.random() < 0.6 else self.inside(level)
        return {**self.k_properties(level), "additionalProperties": others}

    def k_pattern_properties(self, level: int) -> Node:
        found = {"patternProperties": {self._rng.choice(PATTERNS): self.inside(level)}}
        return found if self._rng.random() < 0.5 else {**found, "additionalProperties": False}

    def k_names(self, level: int) -> Node:
        return {"propertyNames": self._rng.choice((self.k_length(0), self.k_pattern(0), self.inside(level)))}

    def k_dependent(self, level: int) -> Node:
        names, is_list = self._names(), self._rng.random() < 0.5
        value = {name: self._rng.sample(NAMES, 1) if is_list else self.beside(level) for name in names}
        if self._draft < 2019:
            return {"dependencies": value}
        return {"dependentRequired" if is_list else "dependentSchemas": value}

    def k_items(self, level: int) -> Node:
        if self._rng.random() < 0.6:
            return {"items": self.inside(level)}
        if self._draft == 2020:
            return {"prefixItems": self._some(level), "items": self.inside(level)}
        found = {"items": self._some(level)}
        return {**found, "additionalItems": self.inside(level)} if self._rng.random() < 0.5 else found

    def k_contains(self, level: int) -> Node:
        found = {"contains": self.inside(level)}
        if self._draft >= 2019 and self._rng.random() < 0.4:
            found[self._rng.choice(("minContains", "maxContains"))] = self._rng.randint(0, 2)
        return found

    def k_all(self, level: int) -> Node:
        return {"allOf": self._branches(level)}

    def k_any(self, level: int) -> Node:
        return {"anyOf": self._branches(level, 3)}

    def k_one(self, level: int) -> Node:
        return {"oneOf": self._branches(level, 3)}

    def k_not(self, level: int) -> Node:
        return {"not": self.beside(level)}

    def k_if(self, level: int) -> Node:
        return {"if": self.beside(level), self._rng.choice(("then", "else")): self.beside(level)}

    def k_unevaluated(self, level: int) -> Node:
        name = self._rng.choice(("unevaluatedProperties", "unevaluatedItems"))
        return {name: False if self._rng.random() < 0.6 else self.inside(level)}

    def k_recursion(self, _: int) -> Node:
        return {"$dynamicRef": "#"} if self._draft == 2020 and self._rng.random() < 0.2 else {}


def pair(rng: random.Random) -> tuple[Node, Node]:
    """Two schemas of one draft, seldom of two; the second is the first one after changes."""
    draft = rng.choice(tuple(URIS))
    schemas = Schemas(rng, draft)
    first = schemas.whole()
    schemas.refer_to_nothing_beside()
    second = first
    for _ in range(rng.choice((1, 1, 2, 3))):
        changed = copy.deepcopy(second)
        _change(rng, schemas, changed)
        second = changed if _is_schema(changed) else second
    if rng.random() < 0.1:
        changed = {**second, "$schema": URIS[rng.choice(tuple(URIS))]}
        second = changed if _is_schema(changed) else second
    return first, second


def _is_schema(node: Node) -> bool:
    kind = validator_for(node)
    return bool(kind(kind.META_SCHEMA).is_valid(node))


def annotated(rng: random.Random, schema: Node) -> Node:
    """The same with other annotations."""
    found = copy.deepcopy(schema)
    # with a dynamic reference an unknown keyword may be more than an annotation
    names = [name for name in ANNOTATIONS if not name.startswith("x-") or "$dynamicRef" not in json.dumps(schema)]
    for node in list(nodes_of(found)):
        if rng.random() < 0.5:
            name = rng.choice(names)
            node[name] = ANNOTATIONS[name]
    return found


def nodes_of(node: Node) -> Iterator[dict[str, Any]]:
    """Of a schema that Schemas made."""
    if not isinstance(node, dict):
        return
    yield node
    for name, value in node.items():
        if name in ("properties", "patternProperties", "dependencies", "dependentSchemas", "definitions", "$defs"):
            for one in value.values():
                yield from nodes_of(one)
        elif name not in ("enum", "const", "dependentRequired", *ANNOTATIONS):
            for one in value if isinstance(value, list) else (value,):
                yield from nodes_of(one)


def _used(whole: Node) -> list[Node]:
    """The nodes that constrain documents, referenced ones first."""
    names = [name for name in ("definitions", "$defs") if name in whole]
    nodes = list(nodes_of({name: value for name, value in whole.items() if name not in names}))[1:]
    found, seen = [whole, *nodes], set()
    for node in found:
        reference = node.get("$ref")
        if reference is not None and reference not in seen:
            seen.add(reference)
            found += nodes_of(whole[names[0]][reference.rpartition("/")[2]])
    return found[::-1]


def _change(rng: random.Random, schemas: Schemas, whole: Node) -> None:
    nodes = _used(whole)
    node = nodes[min(rng.randrange(len(nodes)), rng.randrange(len(nodes)))]
    names = [name for name in node if name not in ("$schema", "definitions", "$defs", "$ref", "$dynamicRef")]
    name = rng.choice(names) if names else ""
    value = node.get(name)
    match rng.choice(("drop", "add", "tweak", "tweak", "wrap", "property")):
        case "drop" if name:
            del node[name]
        case "wrap" if name:
            del node[name]
            node.setdefault("allOf", []).append({name: value})
        case "property":
            node.setdefault("properties", {})[rng.choice(NAMES)] = schemas.node(MOST_LEVELS)
        case "tweak" if (
            name not in ("const", "enum") and isinstance(value, int | float) and not isinstance(value, bool)
        ):
            node[name] = max(value + rng.choice((-1, 1)), 1 if name == "multipleOf" else -1 if "imum" in name else 0)
        case "tweak" if isinstance(value, list) and len(value) > 1:
            value.pop(rng.randrange(len(value)))
        case _:
            more = schemas.node(1)
            node.update(more if isinstance(more, dict) else {})


class Documents:
    """Made from one schema."""

    def __init__(self, rng: random.Random, whole: Node) -> None:
        self._rng, self._whole = rng, whole

    def along(self, node: Node, level: int = 0) -> Any:
        rng = self._rng
        if not isinstance(node, dict) or level > 6 or rng.random() < 0.08:
            return rng.choice(CONSTANTS)
        if "$ref" in node:
            found: Any = self._whole
            for name in node["$ref"].split("/")[1:]:
                found = found[name]
            return self.along(found, level + 1)
        if "const" in node:
            return node["const"]
        if "enum" in node and rng.random() < 0.9:
            return rng.choice(node["enum"])
        branches = [one for name in ("allOf", "anyOf", "oneOf", "then", "else", "if") for one in _listed(node, name)]
        if branches and rng.random() < 0.6:
            branch = rng.choice(branches)
            rest = {name: value for name, value in node.items() if name not in ("allOf", "anyOf", "oneOf")}
            return self.along({**rest, **branch} if isinstance(branch, dict) else rest, level + 1)
        kinds = node.get("type", rng.choice(TYPES))
        return getattr(self, f"_{kinds if isinstance(kinds, str) else rng.choice(kinds)}")(node, level)

    def _null(self, *_: object) -> None:
        return None

    def _boolean(self, *_: object) -> bool:
        return self._rng.random() < 0.5

    def _number(self, node: Node, _: int) -> float:
        limits = [node[name] for name in node if "imum" in name and not isinstance(node[name], bool)] or [0, 1]
        return self._rng.choice(limits) + self._rng.choice((-1, -0.5, 0, 0, 0.5, 1, 2))

    def _integer(self, node: Node, level: int) -> int:
        return int(self._number(node, level))

    def _string(self, node: Node, _: int) -> str:
        lengths = [node[name] for name in node if "Length" in name] or [1]
        length = max(0, self._rng.choice(lengths) + self._rng.choice((-1, 0, 0, 1)))
        return "".join(self._rng.choice("abc") for _ in range(length))

    def _array(self, node: Node, level: int) -> list[Any]:
        items = node.get("items", {})
        first = items if isinstance(items, list) else node.get("prefixItems", [])
        other = node.get("additionalItems", {}) if isinstance(items, list) else items
        found = [self.along(one, level + 1) for one in first[: self._rng.randint(0, 3)]]
        if len(found) == len(first):
            found += [self.along(other, level + 1) for _ in range(self._rng.randint(0, 2))]
        if "contains" in node and self._rng.random() < 0.8:
            found.append(self.along(node["contains"], level + 1))
        return found

    def _object(self, node: Node, level: int) -> dict[str, Any]:
        properties = node.get("properties", {})
        names = [*node.get("required", ()), *(name for name in properties if self._rng.random() < 0.6)]
        if self._rng.random() < 0.5:
            names.append(self._rng.choice(NAMES))
        return {
            name: self.along(properties.get(name, node.get("additionalProperties", {})), level + 1) for name in names
        }


def _listed(node: Node, name: str) -> Sequence[Node]:
    value = node.get(name, [])
    return value if isinstance(value, list) else [value]


def _with_a_part(rng: random.Random, document: Any, part: Any) -> Any:
    if not isinstance(document, dict | list) or not document or rng.random() < 0.2:
        return part
    at = rng.choice(list(document)) if isinstance(document, dict) else rng.randrange(len(document))
    document[at] = _with_a_part(rng, document[at], part)
    return document


def counter_example(
    rng: random.Random, reader: Node, writer: Node, most: int = 200, tries: int = 600
) -> tuple[Any, int]:
    """A document that the writer allows and the reader does not, in a list, or an empty list; and the number of
    documents that the writer allowed."""
    allows, reads = (validator_for(one)(one) for one in (writer, reader))
    sources = [(Documents(rng, one), list(nodes_of(one))) for one in (writer, reader)]
    allowed: list[Any] = []
    count = 0
    for number in range(tries):
        source, nodes = sources[number % 2]
        document = source.along(nodes[0])
        if allowed and number % 3:  # one that the writer allows, with a part made from another node
            document = _with_a_part(rng, copy.deepcopy(rng.choice(allowed)), source.along(rng.choice(nodes)))
        try:
            if allows.is_valid(document):
                count += 1
                allowed.append(document)
                if not reads.is_valid(document):
                    return [document], count
        except RecursionError:  # a definition that is only a reference to itself
            return [], 0
        if count == most:
            break
    return [], count
