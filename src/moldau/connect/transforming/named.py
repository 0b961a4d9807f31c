"""Transforms and predicates by their names: Kafka's class (`org.apache.kafka.connect.transforms.Cast$Value`), the short
name (`Cast$Value`), or `module:function` for a transform in Python."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from moldau.connect.configuration import Setting
from moldau.connect.converting.converter import DataError
from moldau.connect.data.record import Record
from moldau.connect.transforming import (
    casting,
    fields,
    flattening,
    headers,
    masking,
    metadata,
    timestamps,
    topics,
)
from moldau.connect.transforming.parts import Given, Part, Predicate, Transform

TRANSFORMS_PACKAGE = "org.apache.kafka.connect.transforms."
PREDICATES_PACKAGE = "org.apache.kafka.connect.transforms.predicates."


class UnknownNameError(ValueError):
    """A name without a transform or a predicate."""


@dataclass(frozen=True, slots=True)
class TransformKind:
    """`make` raises ConfigError with the names of the settings."""

    settings: tuple[Setting, ...]
    make: Callable[[Given], Transform]


@dataclass(frozen=True, slots=True)
class PredicateKind:
    settings: tuple[Setting, ...]
    make: Callable[[Given], Predicate]


_Made = Callable[[Given, Part], Transform]
_OF_PARTS: Mapping[str, tuple[tuple[Setting, ...], _Made]] = {
    "Cast": (casting.SETTINGS, casting.cast),
    "ExtractField": (fields.EXTRACT_SETTINGS, fields.extract_field),
    "Flatten": (flattening.SETTINGS, flattening.flatten),
    "HeaderFrom": (headers.FROM_SETTINGS, headers.header_from),
    "HoistField": (fields.HOIST_SETTINGS, fields.hoist_field),
    "InsertField": (fields.INSERT_SETTINGS, fields.insert_field),
    "MaskField": (masking.SETTINGS, masking.mask_field),
    "ReplaceField": (fields.REPLACE_SETTINGS, fields.replace_field),
    "SetSchemaMetadata": (metadata.SETTINGS, metadata.set_schema_metadata),
    "TimestampConverter": (timestamps.SETTINGS, timestamps.timestamp_converter),
}
"""These exist for the key and for the value."""
_OF_RECORDS: Mapping[str, tuple[tuple[Setting, ...], _Made]] = {
    "DropHeaders": (headers.DROP_SETTINGS, headers.drop_headers),
    "Filter": ((), lambda given, part: lambda record: None),
    "InsertHeader": (headers.INSERT_SETTINGS, headers.insert_header),
    "RegexRouter": (topics.REGEX_SETTINGS, topics.regex_router),
    "TimestampRouter": (topics.TIMESTAMP_SETTINGS, topics.timestamp_router),
    "ValueToKey": (fields.VALUE_TO_KEY_SETTINGS, fields.value_to_key),
}


def _kind(settings: tuple[Setting, ...], make: _Made, part: Part) -> TransformKind:
    return TransformKind(settings, lambda given: make(given, part))


TRANSFORMS: Mapping[str, TransformKind] = {
    **{
        f"{name}${part.value}": _kind(settings, make, part)
        for name, (settings, make) in _OF_PARTS.items()
        for part in Part
    },
    **{name: _kind(settings, make, Part.VALUE) for name, (settings, make) in _OF_RECORDS.items()},
}
"""By short name."""
PREDICATES: Mapping[str, PredicateKind] = {
    "HasHeaderKey": PredicateKind(headers.HAS_KEY_SETTINGS, headers.has_header_key),
    "RecordIsTombstone": PredicateKind((), lambda given: lambda record: record.value is None),
    "TopicNameMatches": PredicateKind(topics.MATCHES_SETTINGS, topics.topic_name_matches),
}
"""By short name."""


def transform_kind(name: str) -> TransformKind:
    """Raises UnknownNameError, with the nearest name."""
    if ":" in name:
        return _function_kind(name)
    short = name.removeprefix(TRANSFORMS_PACKAGE)
    if short in _OF_PARTS:
        raise UnknownNameError(
            f"{name} is for the key or the value: did you mean {name}${Part.KEY.value} or {name}${Part.VALUE.value}?"
        )
    found = TRANSFORMS.get(short)
    if found is None:
        raise UnknownNameError(_not_found(name, short, list(TRANSFORMS)))
    return found


def predicate_kind(name: str) -> PredicateKind:
    """Raises UnknownNameError, with the nearest name."""
    short = name.removeprefix(PREDICATES_PACKAGE)
    found = PREDICATES.get(short)
    if found is None:
        raise UnknownNameError(_not_found(name, short, list(PREDICATES)))
    return found


def _not_found(name: str, short: str, known: Sequence[str]) -> str:
    by_folded = {one.lower(): one for one in known}
    near = difflib.get_close_matches(short.lower(), list(by_folded), 1)
    return f"Class {name} could not be found." + (f" Did you mean {by_folded[near[0]]}?" if near else "")


def _function_kind(reference: str) -> TransformKind:
    """A function of a record that returns a record or None. It has no settings."""
    module_name, _, function_name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UnknownNameError(f"The module {module_name} cannot be imported: {error!r}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        functions = [one for one, value in vars(module).items() if callable(value) and not one.startswith("_")]
        near = difflib.get_close_matches(function_name, functions, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UnknownNameError(f"The module {module_name} has no function {function_name}.{hint}")

    def apply(record: Record) -> Record | None:
        made = function(record)
        if made is not None and not isinstance(made, Record):
            raise DataError(f"{reference} returned {type(made).__name__}, expected a Record or None")
        return made

    return TransformKind((), lambda given: apply)
