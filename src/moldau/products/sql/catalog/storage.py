"""The properties of WITH: the topic of a stream or table, and the formats of its records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from moldau.products.sql.language.queries import Name, error_of
from moldau.products.sql.language.statements import Property
from moldau.types import nearest

Value = TypeVar("Value", str, int)

VALUE_FORMATS = ("json", "avro", "protobuf", "json_sr", "kafka", "delimited", "none")
KEY_FORMATS = VALUE_FORMATS
"""`kafka`: the bytes of Kafka's own serializers (string, integer, long, double). `json_sr`: JSON with a schema in a
registry. `none`: nothing is read or written there."""
MOST_PARTITIONS = 10_000

_TEXTS = ("kafka_topic", "value_format", "key_format", "format", "timestamp", "timestamp_format", "value_delimiter")
_NUMBERS = ("partitions", "replicas", "retention_ms")
PROPERTIES = (*_TEXTS, *_NUMBERS)
_WINDOW = "a windowed table has its window in the key columns WINDOWSTART and WINDOWEND"
_NAMES = "the record of a schema is named Key or Value"
_NOT_HERE = {
    "window_type": _WINDOW,
    "window_size": _WINDOW,
    "wrap_single_value": "a single column is always a field of the value; for a bare value use the format KAFKA",
    "key_schema_id": "the newest schema of the subject is used",
    "value_schema_id": "the newest schema of the subject is used",
    "key_schema_full_name": _NAMES,
    "value_schema_full_name": _NAMES,
    "value_avro_schema_full_name": _NAMES,
}
"""Properties of ksqlDB that mean nothing here, with the reason."""


class Storage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`topic`: None until its name is chosen. `partitions`, `replicas`: for a topic that is made; None: those of the
    sources, or the cluster's default. `retention_ms`: of a topic that is made. `timestamp`: the column that is the
    record's time, None for the record's own; `timestamp_format`: of a text column. `delimiter`: of the format
    DELIMITED."""

    topic: str | None = None
    key_format: str = "kafka"
    value_format: str = "json"
    partitions: int | None = None
    replicas: int | None = None
    retention_ms: int | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    delimiter: str = ","


def storage_of(properties: Iterable[Property], defaults: Mapping[str, str], at: Name) -> Storage:
    """`defaults`: formats of properties that are not given, such as those of a query's source. `at`: the name in the
    statement, for errors without a place of their own. Raises SqlError."""
    given = {one.name.text: one for one in properties}
    for one in given.values():
        _check_known(one.name)
    both = _text(given, "format", VALUE_FORMATS)
    if both is not None:
        for name in ("key_format", "value_format"):
            if name in given:
                raise error_of(given[name].name, f"`format` is the format of keys and values: leave out `{name}`")
    found: dict[str, Any] = {
        "topic": _text(given, "kafka_topic"),
        "key_format": both or _text(given, "key_format", KEY_FORMATS) or defaults.get("key_format"),
        "value_format": both or _text(given, "value_format", VALUE_FORMATS) or defaults.get("value_format"),
        "partitions": _number(given, "partitions", MOST_PARTITIONS),
        "replicas": _number(given, "replicas", 2**15 - 1),
        "retention_ms": _number(given, "retention_ms", 2**63 - 1),
        "timestamp": _text(given, "timestamp"),
        "timestamp_format": _text(given, "timestamp_format"),
        "delimiter": _text(given, "value_delimiter"),
    }
    storage = Storage(**{name: value for name, value in found.items() if value is not None})
    if storage.timestamp_format is not None and storage.timestamp is None:
        raise error_of(given["timestamp_format"].name, "`timestamp_format` is of the column in `timestamp`: name it")
    if storage.value_format == "none":
        named = given["value_format"].name if "value_format" in given else at
        raise error_of(named, "a value has a format, only a key may have none")
    return storage


def _check_known(name: Name) -> None:
    if name.text in _NOT_HERE:
        raise error_of(name, f"`{name.text}` is not known here: {_NOT_HERE[name.text]}")
    if name.text not in PROPERTIES:
        raise error_of(name, f"`{name.text}` is no property", near=nearest(name.text, PROPERTIES))


def _text(given: Mapping[str, Property], name: str, allowed: tuple[str, ...] = ()) -> str | None:
    """In lower case if only some texts are allowed."""
    one = given.get(name)
    if one is None:
        return None
    if not isinstance(one.value, str) or not one.value:
        raise error_of(one.name, f"`{name}` is a text, as in {name} = '{allowed[0] if allowed else 'orders'}'")
    value = one.value.lower() if allowed else one.value
    if allowed and value not in allowed:
        known = ", ".join(allowed).upper()
        near = nearest(value, allowed)
        problem = f"`{name}` is {one.value!r}; it can be {known}"
        raise error_of(one.name, problem, near=None if near is None else near.upper())
    return value


def _number(given: Mapping[str, Property], name: str, most: int) -> int | None:
    one = given.get(name)
    if one is None:
        return None
    # True is an int too
    if not isinstance(one.value, int) or isinstance(one.value, bool) or not 1 <= one.value <= most:
        raise error_of(one.name, f"`{name}` is a whole number from 1 to {most}")
    return one.value
