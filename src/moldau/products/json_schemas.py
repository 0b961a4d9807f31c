"""JSON Schemas with the texts that they build on: a `$ref` leads into the text that it stands in, or to another one by
the name that a registry has for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Self

from jsonschema.exceptions import SchemaError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from moldau.errors import MoldauError

Node = Any
"""A schema: true, false, or a mapping of keywords."""

MAIN = "urn:moldau:schema"
"""The name of the schema itself."""
VALUES = ("enum", "const", "default", "examples")
"""Keywords that hold documents, not schemas."""
BY_NAMES = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies")
"""Keywords that hold schemas by names, which may be those of keywords: a property may be called `default`."""


class JsonSchemaError(MoldauError):
    """It is no JSON Schema; the message says why."""


class JsonSchema:
    """All its references begin with the name of the text that they lead into."""

    def __init__(self, texts: Mapping[str, Node], validator: type[Validator]) -> None:
        """`texts`: by their names, MAIN among them."""
        specification = specification_with(str(validator.META_SCHEMA.get("$schema") or validator.META_SCHEMA["id"]))
        named = {name: _named(node, name) for name, node in texts.items()}
        self.root, self.root_reference = named[MAIN], f"{MAIN}#"
        self._registry: Registry[Any] = Registry().with_resources(
            (name, specification.create_resource(node)) for name, node in named.items()
        )
        self._kind = validator

    @classmethod
    def parse(cls, text: str, references: tuple[tuple[str, str], ...] = ()) -> Self:
        """`references`: names and texts. Raises JsonSchemaError."""
        try:
            contents = json.loads(text)
            if not isinstance(contents, dict | bool):
                raise JsonSchemaError("a JSON Schema is an object, true or false")
            validator = validator_for(contents, default=Draft7Validator)
            validator.check_schema(contents)
            others = {name: json.loads(other) for name, other in references}
            parsed = cls({**others, MAIN: contents}, validator)
            for reference in _references(parsed.root):
                parsed.referred(reference)
        except SchemaError as error:
            raise JsonSchemaError(f"it is no JSON Schema: {error.message}") from error
        except Unresolvable as error:
            raise JsonSchemaError(f"its $ref {error.ref} leads nowhere") from error
        except (ValueError, RecursionError) as error:
            raise JsonSchemaError(f"it is no JSON: {error}") from error
        except (TypeError, AttributeError) as error:  # `$schema` or `$id` of another type, which no meta-schema refuses
            raise JsonSchemaError(f"it is no JSON Schema: {error}") from error
        return parsed

    def referred(self, reference: str) -> Node:
        """What stands where a `$ref` leads. Raises Unresolvable."""
        return self._registry.resolver().lookup(reference).contents

    def validator(self, node: Node) -> Validator:
        """Of documents, by that part of the schema. It raises Unresolvable where a reference leads nowhere."""
        return self._kind(node, registry=self._registry)


def _named(node: Node, name: str, *, is_by_names: bool = False) -> Node:
    """With its references to places in itself as references to the text of that name. `is_by_names`: `node` is what one
    of BY_NAMES holds."""
    if isinstance(node, list):
        return [_named(inside, name) for inside in node]
    if not isinstance(node, dict):
        return node
    if is_by_names:
        return {key: _named(value, name) for key, value in node.items()}
    found = {
        key: value if key in VALUES else _named(value, name, is_by_names=key in BY_NAMES) for key, value in node.items()
    }
    if isinstance(reference := node.get("$ref"), str) and reference.startswith("#"):
        found["$ref"] = name + reference
    return found


def _references(node: Node, *, is_by_names: bool = False) -> Iterator[str]:
    if isinstance(node, dict):
        if not is_by_names and isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for name, inside in node.items():
            if is_by_names or name not in VALUES:
                yield from _references(inside, is_by_names=not is_by_names and name in BY_NAMES)
    elif isinstance(node, list):
        for inside in node:
            yield from _references(inside)
