"""Avro: Apache Avro's library parses schemas, and compares them by the rules of schema resolution."""

from __future__ import annotations

import json
from functools import lru_cache

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.errors import AvroException
from avro.name import Names
from avro.schema import Schema as AvroSchema
from avro.schema import make_avsc_object

from moldau.products.registry.core.kinds.avro_defaults import bad_defaults
from moldau.products.registry.core.kinds.kind import Kind, WholeSchema
from moldau.products.registry.core.refusals import SchemaError

PARSED_KEPT = 1_000


def kept(schema: WholeSchema) -> str:
    """The original JSON without spaces. A stored schema may have a bad default."""
    bad = list(bad_defaults(_parse(schema)))
    if bad:
        raise SchemaError(f"Avro for Java could not read it: {'; '.join(bad)}")
    return json.dumps(json.loads(schema.text), separators=(",", ":"), ensure_ascii=False)


def problems(reader: WholeSchema, writer: WholeSchema) -> list[str]:
    found = ReaderWriterCompatibilityChecker().get_compatibility(_parse(reader), _parse(writer))
    if found.compatibility is SchemaCompatibilityType.compatible:
        return []
    places = ", ".join(sorted(found.locations))
    return [f"{message} (at {places})" for message in sorted(found.messages)]


@lru_cache(PARSED_KEPT)
def _parse(schema: WholeSchema) -> AvroSchema:
    """Raises SchemaError."""
    names = Names()
    try:
        for _, text in schema.references:
            make_avsc_object(json.loads(text), names)
        return make_avsc_object(json.loads(schema.text), names)
    except (AvroException, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise SchemaError(f"it is no Avro schema: {error}") from error


AVRO_SCHEMAS = Kind(kept, problems)
