"""Rows of a file as records for a sink: `moldau connect test --rows`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from moldau.cli.arguments import input_path
from moldau.cli.output import CommandError
from moldau.cli.records.text import Record, from_json

RECORD_FIELDS = {"topic", "partition", "offset", "timestamp", "key", "value", "headers"}
_PLAIN = {bool: "boolean", int: "int64", float: "double", str: "string"}

Schema = dict[str, Any]


def read_rows(path: str) -> Iterator[Record]:
    """A record for each line that is not blank. Raises CommandError."""
    try:
        text = input_path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield _row(line)
            except CommandError as error:
                raise CommandError(f"{path}:{number}: {error}") from error


def _row(line: str) -> Record:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise CommandError("this is not JSON") from error
    if isinstance(found, dict) and "value" in found and set(found) <= RECORD_FIELDS:
        return from_json(line.encode())
    return Record(None, line.encode(), [])


def with_schemas(rows: Sequence[Record]) -> list[Record]:
    """The rows in the form of JsonConverter with schemas, with a schema that all of them have. Raises CommandError."""
    try:
        values = [None if row.value is None else json.loads(row.value) for row in rows]
    except ValueError as error:
        raise CommandError("a value is not JSON: name a value.converter") from error
    schema = _schema("the value", values)
    return [
        row if value is None else msgspec.structs.replace(row, value=_text({"schema": schema, "payload": value}))
        for row, value in zip(rows, values, strict=True)
    ]


def _text(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _schema(name: str, values: Sequence[Any]) -> Schema:
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    found: Schema
    if kinds == {dict}:
        names = dict.fromkeys(one for value in present for one in value)
        fields = [{"field": one, **_schema(one, [value.get(one) for value in present])} for one in names]
        found = {"type": "struct", "fields": fields}
    elif kinds == {list}:
        found = {"type": "array", "items": _schema(name, [one for value in present for one in value])}
    elif kinds == {int, float}:
        found = {"type": "double"}
    elif len(kinds) > 1:
        raise CommandError(f"{name} has several types, {' and '.join(sorted(one.__name__ for one in kinds))}")
    else:
        found = {"type": _PLAIN[kinds.pop()] if kinds else "string"}
    return {**found, "optional": True}
