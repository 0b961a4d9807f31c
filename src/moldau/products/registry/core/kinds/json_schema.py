"""JSON Schema: parsed, and kept as the JSON that was given. A `$ref` leads into it, or to a reference by its name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from jsonschema.exceptions import SchemaError as JsonSchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from moldau.products.registry.core.kinds.json_patterns import with_checked_patterns
from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.refusals import SchemaError

Node = Any
"""A schema: true, false, or a mapping of keywords."""

PARSED_KEPT = 1_000
MAIN = "urn:moldau:schema"
"""The name of the schema itself."""
VALUES = ("enum", "const", "default", "examples")
"""Keywords that hold documents, not schemas."""


class ParsedSchema:
    """All its references begin with the name of the text that they lead into."""

    def __init__(self, texts: Mapping[str, Node], validator: type[Validator]) -> None:
        """`texts`: by their names, MAIN among them."""
        specification = specification_with(str(validator.META_SCHEMA.get("$schema") or validator.META_SCHEMA["id"]))
        named = {name: _named(node, name) for name, node in texts.items()}
        self.root = named[MAIN]
        self._registry: Registry[Any] = Registry().with_resources(
            (name, specification.create_resource(node)) for name, node in named.items()
        )
        self._validator = with_checked_patterns(validator)

    def referred(self, reference: str) -> Node:
        """What stands where a `$ref` leads. Raises Unresolvable."""
        return self._registry.resolver().lookup(reference).contents

    def allows(self, node: Node, document: object) -> bool:
        """Raises Unresolvable where a reference leads nowhere, SlowPatternError."""
        return bool(self._validator(node, registry=self._registry).is_valid(document))


@lru_cache(PARSED_KEPT)
def parse(schema: WholeSchema) -> ParsedSchema:
    """The schema with those that it refers to. Raises SchemaError."""
    try:
        contents = json.loads(schema.text)
        if not isinstance(contents, dict | bool):
            raise SchemaError("a JSON Schema is an object, true or false")
        validator = validator_for(contents, default=Draft7Validator)
        validator.check_schema(contents)
        texts = {name: json.loads(text) for name, text in schema.references}
        parsed = ParsedSchema({**texts, MAIN: contents}, validator)
        for reference in _references(parsed.root):
            parsed.referred(reference)
    except JsonSchemaError as error:
        raise SchemaError(f"it is no JSON Schema: {error.message}") from error
    except Unresolvable as error:
        raise SchemaError(f"its $ref {error.ref} leads nowhere") from error
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"it is no JSON: {error}") from error
    except (TypeError, AttributeError) as error:  # a `$schema` or `$id` of another type, which no meta-schema refuses
        raise SchemaError(f"it is no JSON Schema: {error}") from error
    return parsed


def kept(schema: WholeSchema) -> str:
    """The JSON as it was given, without spaces. Raises SchemaError."""
    parse(schema)
    return json.dumps(json.loads(schema.text), separators=(",", ":"), ensure_ascii=False)


def _named(node: Node, name: str) -> Node:
    """With its references to places in itself as references to the text of that name."""
    if isinstance(node, list):
        return [_named(inside, name) for inside in node]
    if not isinstance(node, dict):
        return node
    found = {key: value if key in VALUES else _named(value, name) for key, value in node.items()}
    if isinstance(reference := node.get("$ref"), str) and reference.startswith("#"):
        found["$ref"] = name + reference
    return found


def _references(node: Node) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for name, inside in node.items():
            if name not in VALUES:
                yield from _references(inside)
    elif isinstance(node, list):
        for inside in node:
            yield from _references(inside)
