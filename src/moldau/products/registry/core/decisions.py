"""Decides a write: the records for the topic, and the answer once they are committed.

Nothing here changes the state. A rejected request raises a Refusal.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from moldau.products.registry.core.kinds.kind import WholeSchema
from moldau.products.registry.core.kinds.kinds import KINDS, kind_named
from moldau.products.registry.core.records import (
    AVRO,
    ConfigKey,
    ConfigValue,
    DeleteSubjectKey,
    DeleteSubjectValue,
    ModeKey,
    NewestId,
    NewestIdKey,
    Record,
    Reference,
    SchemaKey,
    SchemaValue,
)
from moldau.products.registry.core.refusals import (
    Refusal,
    SchemaError,
    incompatible,
    invalid_level,
    invalid_schema,
    is_referenced,
    no_level,
    no_schema,
    no_subject,
    not_permitted,
    subject_deleted_already,
    subject_not_deleted_first,
    version_deleted_already,
    version_not_deleted_first,
)
from moldau.products.registry.core.state import DEFAULT_LEVEL, DEFAULT_MODE, LATEST, RegistryState, Schema, schema_of

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


# --- schemas ---


def parse_schema(state: RegistryState, kind: str, text: str, references: Sequence[Reference]) -> Schema:
    """The schema in its canonical form. Raises Refusal."""
    try:
        schema = Schema(kind, text, tuple(_numbered(state, one) for one in references))
        kept = kind_named(kind).kept(_whole(state, schema))
        kept.encode()
    except SchemaError as error:
        raise invalid_schema(str(error)) from error
    except UnicodeEncodeError as error:  # JSON may contain half of a surrogate pair, UTF-8 may not
        raise invalid_schema(f"it has a character that UTF-8 does not have: {error}") from error
    return msgspec.structs.replace(schema, text=kept)


def _numbered(state: RegistryState, reference: Reference) -> Reference:
    """Pins a reference to the latest version to the current one. Raises SchemaError."""
    if reference.version != LATEST:
        return reference
    try:
        latest = state.version(reference.subject, LATEST)
    except Refusal as error:
        raise SchemaError(f"its reference {reference.name!r}: {error}") from error
    return msgspec.structs.replace(reference, version=latest.version)


def _whole(state: RegistryState, schema: Schema) -> WholeSchema:
    """The schema with the texts of all its references. Raises SchemaError."""
    found: dict[Reference, str] = {}
    try:
        _add_references(state, schema, found)
    except RecursionError as error:
        raise SchemaError("its references have too many levels") from error
    by_name = {reference.name: text for reference, text in found.items()}
    return WholeSchema(schema.text, tuple(by_name.items()))


def _add_references(state: RegistryState, schema: Schema, found: dict[Reference, str]) -> None:
    """Adds each reference once, however many paths lead to it, after its own references. Raises SchemaError."""
    for reference in schema.references:
        if reference in found:
            continue
        try:
            there = schema_of(state.version(reference.subject, reference.version, deleted=True))
        except Refusal as error:
            raise SchemaError(f"its reference {reference.name!r}: {error}") from error
        _add_references(state, there, found)
        found[reference] = there.text


def whole_schema(state: RegistryState, schema: Schema) -> WholeSchema:
    """The schema with the texts of all its references. Raises Refusal."""
    try:
        return _whole(state, schema)
    except SchemaError as error:
        raise invalid_schema(str(error)) from error


def find_registered(state: RegistryState, subject: str, schema: Schema, *, deleted: bool) -> SchemaValue:
    """The subject's version with this schema. Raises Refusal."""
    for value in state.versions_there(subject, deleted=deleted):
        if schema_of(value) == schema:
            return value
    raise no_schema()


def decide_register(state: RegistryState, subject: str, schema: Schema) -> tuple[list[Record], int]:
    """The records for a new schema of the subject, and the id of the schema. Raises Refusal."""
    _check_mode(state, subject)
    versions = state.versions(subject)
    same = next((value for value in versions if schema_of(value) == schema), None)
    if same is not None:
        return [], same.id
    problems = find_problems(state, schema, versions_before(state, subject), state.level_in_force(subject))
    if problems:
        raise incompatible(subject, problems)
    schema_id = state.id_of(schema) or state.newest_id + 1
    version = max((value.version for value in state.versions(subject, deleted=True)), default=0) + 1
    value = SchemaValue(
        subject,
        version,
        schema_id,
        schema.text,
        None if schema.kind == AVRO else schema.kind,
        schema.references or None,
    )
    return [(SchemaKey(subject, version), value)], schema_id


def versions_before(state: RegistryState, subject: str) -> list[SchemaValue]:
    """The versions with which the subject's level compares a new schema."""
    versions = state.versions(subject)
    return versions if state.level_in_force(subject).endswith("_TRANSITIVE") else versions[-1:]


def find_problems(state: RegistryState, schema: Schema, against: Sequence[SchemaValue], level: str) -> list[str]:
    """Why the schema cannot follow these versions at this level; empty if it can. Raises Refusal."""
    found = []
    new = whole_schema(state, schema)
    for value in reversed(against) if level != "NONE" else ():
        old_schema = schema_of(value)
        if old_schema.kind != schema.kind:
            found.append(f"version {value.version} is of the kind {old_schema.kind}, and not {schema.kind}")
            continue
        old, problems = whole_schema(state, old_schema), KINDS[schema.kind].problems
        try:
            if level.startswith(("BACKWARD", "FULL")):
                found += [f"it cannot read version {value.version}: {why}" for why in problems(new, old)]
            if level.startswith(("FORWARD", "FULL")):
                found += [f"version {value.version} cannot read it: {why}" for why in problems(old, new)]
        except SchemaError as error:
            raise invalid_schema(str(error)) from error
    return found


# --- deletion ---


def decide_delete_version(
    state: RegistryState, subject: str, version: int, *, permanent: bool
) -> tuple[list[Record], int]:
    """Answers with the version's number."""
    _check_mode(state, subject)
    value = state.version(subject, version, deleted=True)
    key = SchemaKey(subject, value.version)
    if permanent and not value.deleted:
        raise version_not_deleted_first(subject, value.version)
    if not permanent and value.deleted:
        raise version_deleted_already(subject, value.version)
    _check_unreferenced(state, [value], permanent=permanent)
    if permanent:
        return _gone_for_good(state, subject, [value]), value.version
    return [(key, msgspec.structs.replace(value, deleted=True))], value.version


def decide_delete_subject(state: RegistryState, subject: str, *, permanent: bool) -> tuple[list[Record], list[int]]:
    """Answers with the numbers of the deleted versions."""
    _check_mode(state, subject)
    everything, there = state.versions(subject, deleted=True), state.versions(subject)
    if not everything:
        raise no_subject(subject)
    if permanent and there:
        raise subject_not_deleted_first(subject)
    if not permanent and not there:
        raise subject_deleted_already(subject)
    gone = everything if permanent else there
    _check_unreferenced(state, gone, permanent=permanent)
    numbers = [value.version for value in gone]
    if permanent:
        return _gone_for_good(state, subject, gone), numbers
    return [(DeleteSubjectKey(subject), DeleteSubjectValue(subject, numbers[-1]))], numbers


def _check_unreferenced(state: RegistryState, gone: Sequence[SchemaValue], *, permanent: bool) -> None:
    """Allows references among the deleted schemas. A softly deleted schema can still be read by its id, so its
    references must not be deleted permanently. Raises Refusal."""
    going = {(value.subject, value.version) for value in gone}
    for value in gone:
        referring = state.referring_to(value.subject, value.version, deleted=permanent)
        if any((one.subject, one.version) not in going for one in referring):
            raise is_referenced(value.subject, value.version)


def _gone_for_good(state: RegistryState, subject: str, gone: Sequence[SchemaValue]) -> list[Record]:
    """Records that delete the versions; with the last one also the subject's level and mode, which a later subject of
    this name does not inherit."""
    records: list[Record] = [(SchemaKey(subject, value.version), None) for value in gone]
    if len(gone) == len(state.versions(subject, deleted=True)):
        records += [(ModeKey(subject), None)] if state.mode(subject) else []
        records += [(ConfigKey(subject), None)] if state.level(subject) else []
    if any(value.id == state.newest_id for value in gone):
        records.append((NewestIdKey(), NewestId(state.newest_id)))
    return records


# --- levels ---


def decide_level(state: RegistryState, subject: str | None, level: str) -> tuple[list[Record], str]:
    """`subject`: None for all subjects without their own level. Answers with the level."""
    _check_mode(state, subject)
    if level.upper() not in LEVELS:
        raise invalid_level(level)
    return [(ConfigKey(subject), ConfigValue(level.upper()))], level.upper()


def decide_delete_level(state: RegistryState, subject: str | None) -> tuple[list[Record], str]:
    """Answers with the deleted level, or for all subjects with the default that is restored."""
    _check_mode(state, subject)
    level = state.level(subject)
    if level is None:
        raise no_level(str(subject))
    return [(ConfigKey(subject), None)], level if subject is not None else DEFAULT_LEVEL


def _check_mode(state: RegistryState, subject: str | None) -> None:
    mode = state.mode_in_force(subject) if subject is not None else state.mode(None)
    if mode != DEFAULT_MODE:
        raise not_permitted(str(subject), str(mode))
