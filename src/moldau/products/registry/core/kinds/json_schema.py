"""JSON Schema: parsed, and kept as the JSON that was given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from jsonschema.protocols import Validator

from moldau.products.json_schemas import JsonSchema, JsonSchemaError, Node
from moldau.products.registry.core.kinds.json_patterns import with_checked_patterns
from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.refusals import SchemaError

PARSED_KEPT = 1_000


class ParsedSchema(JsonSchema):
    """Its patterns come from strangers."""

    def __init__(self, texts: Mapping[str, Node], validator: type[Validator]) -> None:
        super().__init__(texts, with_checked_patterns(validator))  # type: ignore[arg-type]  # a class has a hash

    def allows(self, node: Node, document: object) -> bool:
        """Raises SlowPatternError."""
        return bool(self.validator(node).is_valid(document))


@lru_cache(PARSED_KEPT)
def parse(schema: WholeSchema) -> ParsedSchema:
    """The schema with those that it refers to. Raises SchemaError."""
    try:
        return ParsedSchema.parse(schema.text, schema.references)
    except JsonSchemaError as error:
        raise SchemaError(str(error)) from error


def kept(schema: WholeSchema) -> str:
    """The JSON as it was given, without spaces. Raises SchemaError."""
    parse(schema)
    return json.dumps(json.loads(schema.text), separators=(",", ":"), ensure_ascii=False)
