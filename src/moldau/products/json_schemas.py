"""JSON Schemas and the schemas to which they refer.

A `$ref` names a part of a schema by its place, or another schema by a name: relative to the enclosing `$id`, or the
name that a registry has for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self
from urllib.parse import quote, urldefrag, urljoin

import msgspec
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, extend, validator_for
from referencing import Registry, Specification
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT3, DRAFT4, specification_with

from moldau.errors import MoldauError
from moldau.products.ecma_patterns import Pattern, UnknownCategoryError

Node = Any
"""A schema: true, false, or a mapping of keywords."""

MAIN = "urn:moldau:schema"
"""The name of the schema itself."""
VALUES = ("enum", "const", "default", "examples")
"""Keywords that hold documents, not schemas."""
BY_NAMES = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies")
"""Keywords that hold schemas by names. These names may equal keywords: a property may be called `default`."""
REFERENCES = ("$ref", "$dynamicRef")


class JsonSchemaError(MoldauError):
    """The text is not a JSON Schema; the message gives the reason."""


class JsonSchema:
    """A schema whose references all begin with the name of their target part, which has the same meaning everywhere."""

    def __init__(self, texts: Mapping[str, Node], validator: type[Validator]) -> None:
        """`texts`: schemas by name, MAIN first."""
        parts = _Parts(texts, validator)
        self.parts = {name: node for name, (node, _) in parts.found.items()}
        self.root, self.root_reference = self.parts[MAIN], f"{MAIN}#"
        self._registry: Registry[Any] = Registry().with_resources(
            (name, specification.create_resource(node)) for name, (node, specification) in parts.found.items()
        )
        self._given = parts.given
        self._found: dict[str, Node] = {}
        """Reference -> its target, for those already followed."""
        self._kind = _with_decimals(validator)  # type: ignore[arg-type]  # a class has a hash

    @classmethod
    def parse(cls, text: str, references: tuple[tuple[str, str], ...] = ()) -> Self:
        """`references`: names and texts. Raises JsonSchemaError."""
        try:
            contents = json.loads(text)
            if not isinstance(contents, dict | bool):
                raise JsonSchemaError("a JSON Schema is an object, true or false")
            validator = validator_for(contents, default=Draft7Validator)
            texts = {MAIN: contents} | {name: json.loads(other) for name, other in references}
            for name, node in texts.items():
                if not isinstance(node, dict | bool):
                    raise JsonSchemaError(f"its reference {name} is no JSON Schema")
            parsed = cls(texts, validator)
            validator.check_schema(parsed.root)
            parsed._follow()
        except SchemaError as error:
            raise JsonSchemaError(f"it is no JSON Schema: {error.message}") from error
        except UnknownCategoryError as error:
            raise JsonSchemaError(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise JsonSchemaError(f"it is no JSON: {error}") from error
        except (TypeError, AttributeError) as error:  # meta-schemas accept other types of `$schema` and `$id`
            raise JsonSchemaError(f"it is no JSON Schema: {error}") from error
        return parsed

    def referred(self, reference: str) -> Node:
        """The target of a `$ref`. Raises JsonSchemaError."""
        if reference in self._found:
            return self._found[reference]
        given = self._given.get(reference, reference)
        try:
            found = self._registry.resolver().lookup(reference).contents
        except (Unresolvable, LookupError, ValueError, TypeError) as error:  # other errors: into a list or a text
            raise JsonSchemaError(f"its $ref {given} leads nowhere") from error
        if not isinstance(found, dict | bool):
            raise JsonSchemaError(f"its $ref {given} leads to no schema")
        self._found[reference] = found
        return found

    def validator(self, node: Node) -> Validator:
        """A validator of documents against that part of the schema."""
        return self._kind(node, registry=self._registry)

    def _follow(self) -> None:
        """Raises JsonSchemaError for a reference without a target, in the schema or in its references."""
        self._registry = self._registry.crawl()  # otherwise each anchor is searched in all texts
        seen = {MAIN}
        nodes = [self.root]
        while nodes:
            for reference in _references(nodes.pop()):
                if not isinstance(reference, str):
                    raise JsonSchemaError(f"its $ref {json.dumps(reference)[:100]} is no text")
                self.referred(reference)
                name = urldefrag(reference).url
                if name not in seen:
                    seen.add(name)
                    nodes.append(self.referred(name))


class _Scope(msgspec.Struct, frozen=True):
    """The context of a node: the base URI of its references, the new name of its part, and the draft."""

    uri: str
    part: str
    draft: Specification[Any]

    def of(self, node: Node) -> _Scope:
        """The scope inside a node, which may have its own `$id` and draft; the part stays the same."""
        if not isinstance(node, dict):
            return self
        draft = self.draft
        if isinstance(node.get("$schema"), str):
            draft = specification_with(node["$schema"], default=draft)
        name = draft.id_of(node) if isinstance(node.get(_id_key(draft)), str) else None
        return _Scope(self.uri if name is None else urljoin(self.uri, name).rstrip("#"), self.part, draft)


class _Parts:
    """`found`: the texts, and their parts with an `$id`, by their new names, with their drafts. `given`: new reference
    -> the reference as it was written."""

    def __init__(self, texts: Mapping[str, Node], validator: type[Validator]) -> None:
        draft = specification_with(str(validator.META_SCHEMA.get("$schema") or validator.META_SCHEMA["id"]))
        self.found: dict[str, tuple[Node, Specification[Any]]] = {}
        self.given: dict[str, str] = {}
        self._draft = draft
        uris = {name: name.rstrip("#") for name in texts}
        scopes = {name: _Scope(uri, uri if uri == MAIN else _new_name(uri), draft) for name, uri in uris.items()}
        self._names = {scope.uri: scope.part for scope in scopes.values()}
        for name, node in texts.items():
            self._names.setdefault(scopes[name].of(node).uri, scopes[name].part)
        for name, node in texts.items():
            for uri in _uris(node, scopes[name]):
                self._names.setdefault(uri, _new_name(uri))
        for name, node in texts.items():
            scope = scopes[name]
            self.found[scope.part] = (self._rewritten(node, scope, is_text=True), scope.of(node).draft)

    def _rewritten(self, node: Node, around: _Scope, *, is_text: bool = False, is_by_names: bool = False) -> Node:
        """`is_text`: the node is a whole text. `is_by_names`: `node` is the value of one of BY_NAMES."""
        if isinstance(node, list):
            return [self._rewritten(inside, around) for inside in node]
        if not isinstance(node, dict):
            return node
        if is_by_names:
            return {key: self._rewritten(value, around) for key, value in node.items()}
        scope = around.of(node)
        if scope.uri != around.uri and not is_text:
            scope = msgspec.structs.replace(scope, part=self._names[scope.uri])
        found = {
            key: value if key in VALUES else self._rewritten(value, scope, is_by_names=key in BY_NAMES)
            for key, value in node.items()
        }
        for key in REFERENCES:
            if isinstance(node.get(key), str):
                found[key] = self._reference(node[key], scope)
        if isinstance(node.get("pattern"), str):
            found["pattern"] = Pattern(node["pattern"])
        if isinstance(node.get("patternProperties"), dict):
            found["patternProperties"] = {Pattern(key): value for key, value in found["patternProperties"].items()}
        if scope.draft == self._draft:
            found.pop("$schema", None)  # it would make a validator drop its added keywords
        if scope.uri != around.uri:
            found[_id_key(scope.draft)] = scope.part
            self.found.setdefault(scope.part, (found, scope.draft))
        return found

    def _reference(self, given: str, scope: _Scope) -> str:
        uri, fragment = urldefrag(given)
        part = self._names.get(urljoin(scope.uri, uri)) or self._names.get(uri) if uri else scope.part
        if part is None:
            return given
        self.given.setdefault(f"{part}#{fragment}", given)
        return f"{part}#{fragment}"


def _new_name(uri: str) -> str:
    """An absolute URI: an enclosing `$id` does not change a reference to it."""
    return f"urn:moldau:part:{quote(uri, safe='')}"


def _id_key(draft: Specification[Any]) -> str:
    return "id" if draft in (DRAFT3, DRAFT4) else "$id"


def _inside(node: Node, *, is_by_names: bool) -> Iterator[tuple[Node, bool]]:
    """The children of a node that may hold schemas, and whether each holds them by names. `is_by_names`: whether `node`
    does."""
    if isinstance(node, list):
        yield from ((inside, False) for inside in node)
    elif isinstance(node, dict):
        for name, inside in node.items():
            if is_by_names or name not in VALUES:
                yield inside, not is_by_names and name in BY_NAMES


def _uris(node: Node, around: _Scope, *, is_by_names: bool = False) -> Iterator[str]:
    """The URIs of the parts that have an `$id`."""
    scope = around if is_by_names else around.of(node)
    if scope.uri != around.uri:
        yield scope.uri
    for inside, has_names in _inside(node, is_by_names=is_by_names):
        yield from _uris(inside, scope, is_by_names=has_names)


def _references(node: Node, *, is_by_names: bool = False) -> Iterator[object]:
    if isinstance(node, dict) and not is_by_names:
        yield from (node[key] for key in REFERENCES if key in node)
    for inside, has_names in _inside(node, is_by_names=is_by_names):
        yield from _references(inside, is_by_names=has_names)


@lru_cache(16)
def _with_decimals(validator: type[Validator]) -> type[Validator]:
    """The same validator with decimal arithmetic: in binary, 19.99 is not a multiple of 0.01."""
    made: type[Validator] = extend(validator, {"multipleOf": _multiple_of})
    return made


def _multiple_of(validator: Validator, step: float, instance: object, _: Node) -> Iterator[ValidationError]:
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(step)):
        yield ValidationError(f"{instance!r} is not a multiple of {step}")
