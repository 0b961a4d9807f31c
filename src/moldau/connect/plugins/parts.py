"""Converters, transforms and predicates as plugins, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from moldau.connect.configuration import ConfigError, Setting
from moldau.connect.converting.converter import Role
from moldau.connect.converting.named import CONVERTERS, HEADERS_ONLY, VALUES_ONLY, class_of
from moldau.connect.transforming.named import PREDICATES, PREDICATES_PACKAGE, TRANSFORMS, TRANSFORMS_PACKAGE
from moldau.extras import MissingExtraError

CONVERTER: Final = "converter"
HEADER_CONVERTER: Final = "header_converter"
TRANSFORMATION: Final = "transformation"
PREDICATE: Final = "predicate"


@dataclass(frozen=True, slots=True)
class Part:
    """`types`: the words of Kafka Connect."""

    types: tuple[str, ...]
    settings: tuple[Setting, ...]


def known() -> dict[str, tuple[str, ...]]:
    """The types of each, by name.."""
    found = {full: _converter_types(short) for short, (full, _) in sorted(CONVERTERS.items())}
    found |= {TRANSFORMS_PACKAGE + name: (TRANSFORMATION,) for name in sorted(TRANSFORMS)}
    return found | {PREDICATES_PACKAGE + name: (PREDICATE,) for name in sorted(PREDICATES)}


def find(name: str) -> Part | None:
    """None: no converter, transform or predicate has this name. Raises ConfigError for one whose library is missing."""
    for short, (full, _) in CONVERTERS.items():
        if name in (short, full):
            return Part(_converter_types(short), _converter_settings(full, short))
    transform = TRANSFORMS.get(name.removeprefix(TRANSFORMS_PACKAGE))
    if transform is not None:
        return Part((TRANSFORMATION,), transform.settings)
    predicate = PREDICATES.get(name.removeprefix(PREDICATES_PACKAGE))
    return None if predicate is None else Part((PREDICATE,), predicate.settings)


def _converter_types(short: str) -> tuple[str, ...]:
    if short in HEADERS_ONLY:
        return (HEADER_CONVERTER,)
    return (CONVERTER,) if short in VALUES_ONLY else (CONVERTER, HEADER_CONVERTER)


def _converter_settings(full: str, short: str) -> tuple[Setting, ...]:
    try:
        return class_of(full, Role.HEADER if short in HEADERS_ONLY else Role.VALUE, "class").settings
    except MissingExtraError as error:
        raise ConfigError({"class": (f"{full}: {error}",)}) from error
