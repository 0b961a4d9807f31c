"""JSON Schema: parsed, and stored as the original JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jsonschema.protocols import Validator

from moldau.products.json_schemas import JsonSchema, JsonSchemaError, Node
from moldau.products.registry.core.kinds.json_patterns import with_checked_patterns
from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.refusals import SchemaError

PARSED_KEPT = 1_000
COMPANIONS = (
    ("if", ("then", "else")),
    ("dependentRequired", ("minContains", "maxContains")),  # of `contains`, in the same drafts
    ("maximum", ("exclusiveMaximum", "exclusiveMinimum")),  # of `maximum` and `minimum` in draft 4
)
"""Keywords that a validator reads together with another one, so its table may lack them."""


class ParsedSchema(JsonSchema):
    """A schema whose patterns are not trusted. `draft`: the URI of its meta-schema."""

    def __init__(self, texts: Mapping[str, Node], validator: type[Validator]) -> None:
        super().__init__(texts, with_checked_patterns(validator))  # type: ignore[arg-type]  # a class has a hash
        self.draft = str(validator.META_SCHEMA.get("$schema"))
        known = set(validator.VALIDATORS) - {"format"}
        self._said = known.union(*(names for beside, names in COMPANIONS if beside in known), ("$schema",))
        self._has_lonely_refs = "dependentRequired" not in known

    def said(self, node: Node) -> Any:
        """The keywords of a node that concern documents: without annotations and keywords that its draft does not know.
        Up to draft 7, `$ref` hides all keywords next to it."""
        if not isinstance(node, dict):
            return node
        if self._has_lonely_refs and "$ref" in node:
            return {"$ref": node["$ref"]}
        return {name: value for name, value in node.items() if name in self._said}

    def allows(self, node: Node, document: object) -> bool:
        """Raises SlowPatternError."""
        return bool(self.validator(node).is_valid(document))


@lru_cache(PARSED_KEPT)
def parse(schema: WholeSchema) -> ParsedSchema:
    """The schema with its references. Raises SchemaError."""
    try:
        return ParsedSchema.parse(schema.text, schema.references)
    except JsonSchemaError as error:
        raise SchemaError(str(error)) from error


def kept(schema: WholeSchema) -> str:
    """The original JSON without spaces. Raises SchemaError."""
    parse(schema)
    return json.dumps(json.loads(schema.text), separators=(",", ":"), ensure_ascii=False)
