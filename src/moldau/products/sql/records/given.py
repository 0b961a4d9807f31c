"""Records of tests: columns in JSON as the records of a topic."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.given import json_text
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.language.statements import Column
from moldau.products.sql.records.layout import key_columns, names_of, nearest_name, value_columns

_OWN = ("_key", "_value", "_timestamp", "_partition", "_offset", "_headers")


def given_record(relation: Relation, record: object, offset: int) -> dict[str, object]:
    """A row of `RelationSource.GIVEN_COLUMNS`, with key and value as JSON. Raises FlowError."""
    if not isinstance(record, Mapping):
        raise FlowError(f"a record of {relation.name} is a mapping of its columns, not {record!r}")
    key, value = key_columns(relation), value_columns(relation)
    known = [*names_of(key), *names_of(value)]
    unknown = [name for name in record if name not in _OWN and nearest_name(known, str(name)) is None]
    if unknown:
        raise FlowError(f"a record of {relation.name} has no {unknown[0]!r}; it has {', '.join((*known, *_OWN))}")
    headers = record.get("_headers") or {}
    return {
        "key": _bytes(_key(relation, key, record)),
        "value": _bytes(record["_value"] if "_value" in record else json_text(_of(value, record))),
        "topic": relation.topic,
        "partition": record.get("_partition", 0),
        "offset": record.get("_offset", offset),
        "timestamp": record.get("_timestamp", "1970-01-01T00:00:00Z"),
        "headers": [{"key": name, "value": _bytes(text)} for name, text in headers.items()],
    }


def _key(relation: Relation, columns: Sequence[Column], record: Mapping[str, object]) -> str | None:
    fields = _of(columns, record)
    given = record.get("_key")
    if isinstance(given, Mapping):
        known = names_of(columns)
        unknown = [name for name in given if nearest_name(known, str(name)) is None]
        if unknown:
            raise FlowError(f"the key of {relation.name} has no {unknown[0]!r}; it has {', '.join(known)}")
        fields |= _of(columns, given)
    elif given is not None:
        if len(columns) != 1:
            raise FlowError(f"the key of {relation.name} has {len(columns)} columns: give `_key` as a mapping of them")
        fields = {columns[0].name.text: given}
    if not fields:
        return None
    return json_text(next(iter(fields.values())) if len(columns) == 1 else fields)


def _of(columns: Sequence[Column], record: Mapping[str, object]) -> dict[str, object]:
    """The given values of the columns."""
    found = {column.name.text: nearest_name(list(map(str, record)), column.name.text) for column in columns}
    return {name: record[given] for name, given in found.items() if given is not None}


def _bytes(value: object) -> str | None:
    """In base64, as in Spark's JSON."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json_text(value)
    return base64.b64encode(text.encode()).decode()
