"""The key and the value of a relation's records, each as the part of its format."""

from __future__ import annotations

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.language.statements import Column
from moldau.products.sql.records.kafka_bytes import KafkaPart
from moldau.products.sql.records.layout import is_table, key_columns, value_columns
from moldau.products.sql.records.part import KEY, VALUE, Part
from moldau.products.sql.records.registered import FORMATS, RegisteredPart
from moldau.products.sql.records.texts import DelimitedPart, JsonPart


def key_part(relation: Relation, registry: Registry | None) -> Part | None:
    """None for a stream without a key. Raises FlowError."""
    columns = key_columns(relation)
    if is_table(relation) and (not columns or relation.storage.key_format == "none"):
        raise FlowError(f"the table {relation.name} has no key: a column PRIMARY KEY, and a key format")
    return _part(relation, KEY, relation.storage.key_format, columns, registry) if columns else None


def value_part(relation: Relation, registry: Registry | None) -> Part | None:
    """None if all columns are elsewhere. Raises FlowError."""
    columns = value_columns(relation)
    return _part(relation, VALUE, relation.storage.value_format, columns, registry) if columns else None


def _part(relation: Relation, name: str, kind: str, columns: tuple[Column, ...], registry: Registry | None) -> Part:
    part: Part
    if kind == "kafka":
        part = KafkaPart(name=name, columns=columns)
    elif kind == "json":
        part = JsonPart(name=name, columns=columns)
    elif kind == "delimited":
        part = DelimitedPart(name=name, columns=columns, delimiter=relation.storage.delimiter)
    elif kind in FORMATS:
        if registry is None:
            raise FlowError(f"the format {kind.upper()} of the {name} of {relation.name} needs a schema registry")
        subject = f"{relation.topic}-{name}"
        part = RegisteredPart(name=name, columns=columns, format=kind, registry=registry, subject=subject)
    else:
        raise FlowError(f"the {name} of {relation.name} has columns, so its format is not {kind.upper()}")
    part.check()
    return part
