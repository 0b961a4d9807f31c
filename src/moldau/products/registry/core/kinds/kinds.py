"""The kinds of schemas by the names that records and requests use."""

from __future__ import annotations

from moldau.products.registry.core.kinds.avro import AVRO_SCHEMAS
from moldau.products.registry.core.kinds.json_reading import JSON_SCHEMAS
from moldau.products.registry.core.kinds.kind import Kind
from moldau.products.registry.core.kinds.protobuf import PROTOBUF_SCHEMAS
from moldau.products.registry.core.records import AVRO
from moldau.products.registry.core.refusals import SchemaError

JSON = "JSON"
PROTOBUF = "PROTOBUF"
KINDS: dict[str, Kind] = {JSON: JSON_SCHEMAS, PROTOBUF: PROTOBUF_SCHEMAS, AVRO: AVRO_SCHEMAS}


def kind_named(name: str) -> Kind:
    """The kind of schemas with this name in requests. Raises SchemaError."""
    if name not in KINDS:
        raise SchemaError(f"there is no kind of schemas {name!r}: it is one of {', '.join(KINDS)}")
    return KINDS[name]
