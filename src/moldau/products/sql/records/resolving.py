"""The columns of a relation whose statement leaves them to the schemas in a registry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.format import CORRUPT_COLUMN
from moldau.products.pipelines.formats.registry import Registry, UnknownSchemaError
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.language.queries import Name
from moldau.products.sql.language.statements import Column, Role
from moldau.products.sql.records.bare import BareRegistry, is_record
from moldau.products.sql.records.layout import columns_of, is_table
from moldau.products.sql.records.part import KEY, VALUE
from moldau.products.sql.records.registered import FORMATS

BARE_KEY = "ROWKEY"
"""The column of a key that has no fields, as in ksqlDB."""


def resolved(relation: Relation, registry: Registry | None) -> Relation:
    """The relation with columns: those of the newest schemas of its topic, if it has none. Columns of the key that are
    declared stay. Raises FlowError, RegistryError."""
    declared = relation.columns or ()
    storage = relation.storage
    by_schema = [name for name, kind in ((KEY, storage.key_format), (VALUE, storage.value_format)) if kind in FORMATS]
    if declared and (VALUE not in by_schema or any(column.role is Role.VALUE for column in declared)):
        return relation
    if VALUE not in by_schema:
        raise FlowError(
            f"{relation.name} has no columns: declare them, or use a format whose schema a registry has "
            f"({', '.join(FORMATS).upper()})"
        )
    if registry is None:
        raise FlowError(f"the columns of {relation.name} are in a schema registry: name it, or declare the columns")
    key: tuple[Column, ...] = ()
    if not declared and KEY in by_schema:
        key = tuple(_columns(relation, registry, KEY))
    if not declared and not key and is_table(relation):
        raise FlowError(f"the table {relation.name} needs a key: declare its PRIMARY KEY, or use a key format with a "
                        "schema")  # fmt: skip
    value = () if declared and not _has_schema(relation, registry) else _columns(relation, registry, VALUE)
    found = msgspec.structs.replace(relation, columns=(*declared, *key, *value))
    columns_of(found)  # refuses names that stand twice
    return found


def _has_schema(relation: Relation, registry: Registry) -> bool:
    try:
        registry.newest(f"{relation.topic}-{VALUE}")
    except UnknownSchemaError:
        return False
    return True


def _columns(relation: Relation, registry: Registry, name: str) -> Iterator[Column]:
    from moldau.spark import spark_type  # a statement is checked without Spark

    subject = f"{relation.topic}-{name}"
    kind = relation.storage.key_format if name == KEY else relation.storage.value_format
    role = Role.VALUE if name == VALUE else Role.PRIMARY_KEY if is_table(relation) else Role.KEY
    try:
        schema = registry.newest(subject)
    except UnknownSchemaError as error:
        raise FlowError(
            f"the columns of {relation.name} are not declared, and the registry has no schema of {subject}: {error}"
        ) from error
    if name == KEY and kind != "protobuf" and not is_record(schema):
        registry = BareRegistry(registry.url, registry.patience_ms, registry.security, BARE_KEY)
    fields: Any = FORMATS[kind](registry=registry, subject=subject).values().kind
    for field in fields:
        if field.name != CORRUPT_COLUMN:
            yield Column(Name(field.name, 0, 0), spark_type(field.type), role)
