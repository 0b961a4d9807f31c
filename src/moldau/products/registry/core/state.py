"""The state that results from the topic's records: subjects and versions, schemas by id, levels, modes.

The same records give the same state in every registry. Only `apply` changes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from moldau.products.registry.core.records import (
    AVRO,
    ClearSubjectKey,
    ConfigKey,
    ConfigValue,
    DeleteSubjectValue,
    ModeKey,
    ModeValue,
    NewestId,
    Reference,
    SchemaKey,
    SchemaValue,
    decode_record,
)
from moldau.products.registry.core.refusals import no_schema, no_subject, no_version

LATEST = -1
DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"

_log = logging.getLogger(__name__)


class Schema(msgspec.Struct, frozen=True):
    """Equal schemas have the same id in every subject. `text`: in the canonical form of its kind."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()


def schema_of(value: SchemaValue) -> Schema:
    return Schema(value.schemaType or AVRO, value.schema, value.references or ())


class RegistryState:
    def __init__(self) -> None:
        self.newest_id = 0
        """The greatest id of any record."""
        self._subjects: dict[str, dict[int, SchemaValue]] = {}
        self._by_id: dict[int, dict[tuple[str, int], None]] = {}
        self._ids: dict[Schema, int] = {}
        self._levels: dict[str | None, str] = {}
        self._modes: dict[str | None, str] = {}

    def copy(self) -> RegistryState:
        """A snapshot for long queries."""
        copied = RegistryState()
        copied.newest_id = self.newest_id
        copied._subjects = {subject: dict(versions) for subject, versions in self._subjects.items()}
        copied._by_id = {schema_id: dict(places) for schema_id, places in self._by_id.items()}
        copied._ids, copied._levels, copied._modes = dict(self._ids), dict(self._levels), dict(self._modes)
        return copied

    # -- records

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Applies a record; ignores an unknown one."""
        try:
            found_key, found = decode_record(key, value)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            _log.warning("a record with the key %r is passed over: %s", key[:200], error)
            return
        match found_key, found:
            case SchemaKey(subject, version), _:
                self._replace(subject, version, found if isinstance(found, SchemaValue) else None)
            case _, NewestId(newest_id):
                self.newest_id = max(self.newest_id, newest_id)
            case _, DeleteSubjectValue(subject, last):
                for version, kept in list(self._subjects.get(subject, {}).items()):
                    if version <= last:
                        self._replace(subject, version, msgspec.structs.replace(kept, deleted=True))
            case ClearSubjectKey(subject), _:
                for version in list(self._subjects.get(subject, {})):
                    self._replace(subject, version, None)
            case ConfigKey(subject), _:
                _put(self._levels, subject, found.compatibilityLevel if isinstance(found, ConfigValue) else None)
            case ModeKey(subject), _:
                _put(self._modes, subject, found.mode if isinstance(found, ModeValue) else None)

    def _replace(self, subject: str, version: int, value: SchemaValue | None) -> None:
        versions = self._subjects.setdefault(subject, {})
        old = versions.pop(version, None)
        if old is not None:
            places = self._by_id[old.id]
            del places[subject, version]
            if not places:
                del self._by_id[old.id]
                self._ids.pop(schema_of(old), None)
        if value is not None:
            versions[version] = value
            self._by_id.setdefault(value.id, {})[subject, version] = None
            self._ids.setdefault(schema_of(value), value.id)
            self.newest_id = max(self.newest_id, value.id)
        if not versions:
            del self._subjects[subject]

    # -- questions. `deleted`: include softly deleted versions. `deleted_only`: exclude all others

    def subjects(self, prefix: str = "", *, deleted: bool = False, deleted_only: bool = False) -> list[str]:
        found = []
        for subject, versions in sorted(self._subjects.items()):
            is_deleted = all(one.deleted for one in versions.values())
            if subject.startswith(prefix) and (is_deleted if deleted_only else deleted or not is_deleted):
                found.append(subject)
        return found

    def versions(self, subject: str, *, deleted: bool = False) -> list[SchemaValue]:
        """In order; empty for an unknown subject."""
        return [value for _, value in sorted(self._subjects.get(subject, {}).items()) if deleted or not value.deleted]

    def versions_there(self, subject: str, *, deleted: bool = False) -> list[SchemaValue]:
        """Raises Refusal for an unknown subject."""
        found = self.versions(subject, deleted=deleted)
        if not found:
            raise no_subject(subject)
        return found

    def version(self, subject: str, version: int, *, deleted: bool = False) -> SchemaValue:
        """`version` may be LATEST. Raises Refusal."""
        found = self.versions_there(subject, deleted=deleted)
        if version == LATEST:
            return found[-1]
        for value in found:
            if value.version == version:
                return value
        raise no_version(version)

    def of_id(self, schema_id: int, *, deleted: bool = True) -> list[SchemaValue]:
        """The versions with this schema. Raises Refusal for an unknown id."""
        places = self._by_id.get(schema_id)
        if places is None:
            raise no_schema()
        found = (self._subjects[subject][version] for subject, version in sorted(places))
        return [value for value in found if deleted or not value.deleted]

    def id_of(self, schema: Schema) -> int | None:
        return self._ids.get(schema)

    def referring_to(self, subject: str, version: int, *, deleted: bool = False) -> Iterator[SchemaValue]:
        for versions in self._subjects.values():
            for value in versions.values():
                if (deleted or not value.deleted) and any(
                    (one.subject, one.version) == (subject, version) for one in value.references or ()
                ):
                    yield value

    def level(self, subject: str | None) -> str | None:
        """The compatibility level of the subject; None for all other subjects."""
        return self._levels.get(subject) or (DEFAULT_LEVEL if subject is None else None)

    def level_in_force(self, subject: str) -> str:
        return self.level(subject) or self._levels.get(None, DEFAULT_LEVEL)

    def mode(self, subject: str | None) -> str | None:
        return self._modes.get(subject) or (DEFAULT_MODE if subject is None else None)

    def mode_in_force(self, subject: str) -> str:
        return self.mode(subject) or self._modes.get(None, DEFAULT_MODE)


def _put(settings: dict[str | None, str], subject: str | None, text: str | None) -> None:
    if text is None:
        settings.pop(subject, None)
    else:
        settings[subject] = text
