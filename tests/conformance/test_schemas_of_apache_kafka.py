"""Every declared message equals Apache Kafka's own schema: versions, fields, types, defaults.

The jars of Apache Kafka have the schemas as JSON: MOLDAU_KAFKA_LIBS names their directory. No Java is started.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moldau.wire.protocol import messages
from moldau.wire.protocol.api_keys import API_VERSIONS, CONTROLLER_API_VERSIONS
from moldau.wire.protocol.schema import (
    Array,
    Bytes,
    Field,
    FieldType,
    Nested,
    Primitive,
    Text,
    Versions,
    declared_messages,
    fields_of,
    message_info,
)
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA

pytestmark = NEEDS_APACHE_KAFKA

Schema = dict[str, Any]

PRIMITIVES = ("bool", "int8", "int16", "uint16", "int32", "int64", "float64", "string", "bytes", "records", "uuid")
KNOWN_DIFFERENCES = (
    "ElectLeadersResponse.ErrorCode: is_ignorable True, not False",  # v0 has no field for it, and must be answered too
    "SaslAuthenticateResponse.ErrorMessage: default None, not ''",  # null if no error, as brokers answer
    # version 0 of a transaction's state is for an older Kafka, which does not know these
    "TransactionLogValue.PreviousProducerId: is_ignorable True, not False",
    "TransactionLogValue.NextProducerId: is_ignorable True, not False",
    "TransactionLogValue.ClientTransactionVersion: is_ignorable True, not False",
    "TransactionLogValue.NextProducerEpoch: is_ignorable True, not False",
)


def without_comments(text: str) -> str:
    """JSON that may have `//` comments at the ends of lines; strings may contain `//` too."""
    lines = []
    for line in text.splitlines():
        pieces = line.split("//")
        kept = pieces[0]
        for piece in pieces[1:]:
            if kept.count('"') % 2 == 0:
                break
            kept += "//" + piece
        lines.append(kept)
    return "\n".join(lines)


@pytest.fixture(scope="module")
def schemas() -> dict[str, Schema]:
    """By the name of each message of Apache Kafka."""
    found = {}
    for jar in sorted(Path(os.environ["MOLDAU_KAFKA_LIBS"]).glob("kafka*.jar")):
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if name.startswith("common/") and name.endswith(".json"):
                    schema = json.loads(without_comments(opened.read(name).decode()))
                    found[schema["name"]] = schema
    return found


DECLARED = {
    cls.__name__: cls
    for family in pkgutil.iter_modules(messages.__path__)
    for cls in declared_messages(importlib.import_module(f"{messages.__name__}.{family.name}"))
}


def span(versions: Versions, within: Versions) -> tuple[int, int]:
    """The rest of `versions`; the same value for all empty ones."""
    first, last = max(versions.first, within.first), min(versions.last, within.last)
    return (first, last) if first <= last else (0, -1)


def kind_of(field_type: FieldType) -> str:
    match field_type:
        case Primitive(name=name):
            return name
        case Text():
            return "string"
        case Bytes(is_view=is_view):
            return "records" if is_view else "bytes"
        case Array(element=element):
            return f"[]{kind_of(element)}"
        case Nested():
            return "struct"


def kind_in(schema: Schema) -> str:
    name = str(schema["type"]).removeprefix("[]")
    prefix = "[]" if str(schema["type"]).startswith("[]") else ""
    return prefix + (name if name in PRIMITIVES else "struct")


def default_in(schema: Schema) -> object:
    """Apache Kafka's default for a missing field."""
    kind, said = kind_in(schema), schema.get("default")
    if said == "null":
        return None
    if kind.startswith("[]"):
        return ()
    if kind == "string":
        return "" if said is None else said
    if kind == "bool":
        return str(said).lower() == "true"
    if kind == "bytes":
        return b""
    return float(said or 0) if kind == "float64" else int(str(said or 0), 0)


def versions_in(schema: Schema) -> Versions:
    return Versions.parse(schema.get("versions") or schema["taggedVersions"])


class Comparison:
    """Of one message: `differences` has a sentence for each difference."""

    def __init__(self, schema: Schema) -> None:
        self.differences: list[str] = []
        self._structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
        self._note_structs(schema["fields"])

    def _note_structs(self, fields: list[Schema]) -> None:
        for each in fields:
            if "fields" in each:
                self._structs[each["type"].removeprefix("[]")] = each["fields"]
                self._note_structs(each["fields"])

    def compare(self, cls: type[msgspec.Struct], fields: list[Schema], within: Versions, place: str) -> None:
        """The fields of one struct, in the versions `within`."""
        theirs = {each["name"].lower(): each for each in fields if span(versions_in(each), within) != (0, -1)}
        ours = {each.name.replace("_", ""): each for each in fields_of(cls)}
        self._note(place, "fields", sorted(ours), sorted(theirs))
        both = [name for name in ours if name in theirs]
        ordered = [name for name in theirs if name in ours and "tag" not in theirs[name]]
        self._note(place, "order", [name for name in both if ours[name].wire.tag is None], ordered)
        for name in both:
            self._compare_field(ours[name], theirs[name], within, f"{place}.{theirs[name]['name']}")

    def _compare_field(self, ours: Field, theirs: Schema, within: Versions, place: str) -> None:
        wire, present = ours.wire, Versions(*span(versions_in(theirs), within))
        self._note(place, "versions", span(wire.versions, within), span(present, within))
        nullable, tagged = (Versions.parse(theirs.get(name, "none")) for name in ("nullableVersions", "taggedVersions"))
        self._note(place, "nullable", span(wire.nullable, present), span(nullable, present))
        self._note(place, "tag", wire.tag, theirs.get("tag"))
        self._note(place, "tagged", span(wire.tagged, present), span(tagged, present))
        kind = kind_in(theirs)
        self._note(place, "type", kind_of(ours.type), kind)
        if span(present, within) != span(within, within):
            self._note(place, "is_ignorable", wire.is_ignorable, bool(theirs.get("ignorable")))
        if kind not in ("struct", "uuid", "records"):
            self._note(place, "default", ours.default, default_in(theirs))
        nested = ours.type.element if isinstance(ours.type, Array) else ours.type
        if isinstance(nested, Nested):
            self.compare(nested.struct, self._structs[theirs["type"].removeprefix("[]")], present, place)

    def _note(self, place: str, what: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            self.differences.append(f"{place}: {what} {ours!r}, not {theirs!r}")


def differences_of(cls: type[msgspec.Struct], schema: Schema) -> Iterator[str]:
    info, valid = message_info(cls), Versions.parse(schema["validVersions"])
    if info.versions != valid:
        yield f"{cls.__name__}: versions {info.versions}, not {valid}"
    if span(info.flexible, valid) != span(Versions.parse(schema["flexibleVersions"]), valid):
        yield f"{cls.__name__}: flexible {info.flexible}, not {schema['flexibleVersions']}"
    if info.api_key is not None and info.api_key != schema["apiKey"]:
        yield f"{cls.__name__}: key {info.api_key}, not {schema['apiKey']}"
    comparison = Comparison(schema)
    comparison.compare(cls, schema["fields"], valid, cls.__name__)
    yield from comparison.differences


def test_every_declared_message_is_that_of_apache_kafkas_schemas(schemas: dict[str, Schema]) -> None:
    assert sorted(set(DECLARED) - set(schemas)) == []
    found = [said for name, cls in sorted(DECLARED.items()) for said in differences_of(cls, schemas[name])]
    assert sorted(found) == sorted(KNOWN_DIFFERENCES)


def test_every_served_api_has_its_key_and_its_newest_version_that_is_stable(schemas: dict[str, Schema]) -> None:
    for key, row in {**API_VERSIONS, **CONTROLLER_API_VERSIONS}.items():
        schema = schemas[f"{row.name}Request"]
        valid = Versions.parse(schema["validVersions"])
        newest = valid.last - bool(schema.get("latestVersionUnstable"))
        assert (key, row.min_version, row.max_version) == (schema["apiKey"], valid.first, newest), row.name
