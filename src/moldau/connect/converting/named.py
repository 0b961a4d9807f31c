"""Converters by Kafka's names and by short names."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module

from moldau.connect.configuration import ConfigError, parse, wrong
from moldau.connect.converting.converter import Converter, Role

_MODULE = "moldau.connect.converting"
CONVERTERS: dict[str, tuple[str, str]] = {
    "string": ("org.apache.kafka.connect.storage.StringConverter", "plain:StringConverter"),
    "bytes": ("org.apache.kafka.connect.converters.ByteArrayConverter", "plain:ByteArrayConverter"),
    "short": ("org.apache.kafka.connect.converters.ShortConverter", "plain:ShortConverter"),
    "integer": ("org.apache.kafka.connect.converters.IntegerConverter", "plain:IntegerConverter"),
    "long": ("org.apache.kafka.connect.converters.LongConverter", "plain:LongConverter"),
    "float": ("org.apache.kafka.connect.converters.FloatConverter", "plain:FloatConverter"),
    "double": ("org.apache.kafka.connect.converters.DoubleConverter", "plain:DoubleConverter"),
    "boolean": ("org.apache.kafka.connect.converters.BooleanConverter", "plain:BooleanConverter"),
    "json": ("org.apache.kafka.connect.json.JsonConverter", "json:JsonConverter"),
    "header": ("org.apache.kafka.connect.storage.SimpleHeaderConverter", "simple_headers:SimpleHeaderConverter"),
    "json-schema": ("io.confluent.connect.json.JsonSchemaConverter", "registry.json_schema:JsonSchemaConverter"),
    "protobuf": ("io.confluent.connect.protobuf.ProtobufConverter", "registry.protobuf:ProtobufConverter"),
    "avro": ("io.confluent.connect.avro.AvroConverter", "registry.avro:AvroConverter"),
}
"""Kafka's name and our class, by the short name."""
HEADERS_ONLY = ("header",)
VALUES_ONLY = ("avro", "protobuf", "json-schema")


def names_of(*, is_header: bool) -> list[str]:
    """Kafka's names of the converters of headers, or of keys and values."""
    others = VALUES_ONLY if is_header else HEADERS_ONLY
    return sorted(full for short, (full, _) in CONVERTERS.items() if short not in others)


def class_of(name: str, role: Role, key: str) -> type[Converter]:
    """The class of a converter, imported now. `key`: the setting that names it. Raises ConfigError."""
    short = name if name in CONVERTERS else _SHORT.get(name)
    if short is None:
        near = difflib.get_close_matches(name, [*CONVERTERS, *_SHORT], 1, 0.5)
        reason = f"Class {name} could not be found." + (f" Did you mean {near[0]}?" if near else "")
        raise ConfigError({key: [wrong(key, name, reason)]})
    if short in HEADERS_ONLY and role is not Role.HEADER:
        raise ConfigError({key: [wrong(key, name, "It converts headers only.")]})
    if short in VALUES_ONLY and role is Role.HEADER:
        raise ConfigError({key: [wrong(key, name, "It converts keys and values only.")]})
    module, _, of_module = CONVERTERS[short][1].partition(":")
    found: type[Converter] = getattr(import_module(f"{_MODULE}.{module}"), of_module)
    return found


def new_converter(given: Mapping[str, str | None], role: Role, default: str, key: str | None = None) -> Converter:
    """The converter that the setting `key` (`value.converter` for a value) of a configuration names.

    Its own settings are those with this name and a point in front. `default`: the name if the setting is missing.
    Raises ConfigError, and MissingExtraError if a library of the converter is not installed.
    """
    key = key or f"{role}.converter"
    converter = class_of(given.get(key) or default, role, key)
    return converter(parse(converter.settings, given, f"{key}."), role)


_SHORT = {full: short for short, (full, _) in CONVERTERS.items()}
