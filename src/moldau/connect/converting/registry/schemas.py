"""The schemas of a registry, through Confluent's client: settings, subjects, ids, errors."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from moldau.connect.configuration import Importance, Kind, Secret, Setting, in_range, one_of
from moldau.connect.converting.converter import DataError, RetriableError, Role
from moldau.connect.converting.schema_cache import Bounded

_HEAD = struct.Struct(">bI")
_STRATEGY = "io.confluent.kafka.serializers.subject."
STRATEGIES = tuple(
    f"{_STRATEGY}{name}" for name in ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
)
_RETRIABLE = (408, 429)
_TIMEOUT_S = 30


def _flag(name: str, default: bool, documentation: str) -> Setting:
    return Setting(name, Kind.BOOLEAN, default, documentation=documentation)


REGISTRY_SETTINGS: tuple[Setting, ...] = (
    Setting("schema.registry.url", Kind.STRING, importance=Importance.HIGH, documentation="The URL of the registry."),
    Setting(
        "basic.auth.credentials.source",
        Kind.STRING,
        "URL",
        documentation="Where the login is: in the URL, or in basic.auth.user.info (USER_INFO).",
        check=one_of("URL", "USER_INFO"),
    ),
    Setting("basic.auth.user.info", Kind.PASSWORD, None, documentation="The login as user:password."),
    Setting("schema.registry.ssl.ca.location", Kind.STRING, None, documentation="A PEM file that signs the registry."),
    _flag("auto.register.schemas", True, "Whether a schema that the subject does not have is registered."),
    _flag("use.latest.version", False, "Whether values are written with the newest schema of the subject."),
    _flag("normalize.schemas", False, "Whether the registry compares schemas in their normal form."),
    Setting(
        "key.subject.name.strategy",
        Kind.STRING,
        STRATEGIES[0],
        documentation="How the subject of a key is named.",
        check=one_of(*STRATEGIES),
    ),
    Setting(
        "value.subject.name.strategy",
        Kind.STRING,
        STRATEGIES[0],
        documentation="How the subject of a value is named.",
        check=one_of(*STRATEGIES),
    ),
    Setting(
        "schemas.cache.config",
        Kind.INT,
        1000,
        Importance.LOW,
        "The most schemas that the converter keeps.",
        check=in_range(0),
    ),
)


class Stored(NamedTuple):
    """A schema of the registry. `references`: name, subject and version of each."""

    id: int
    text: str
    references: tuple[tuple[str, str, int], ...]


class Schemas:
    """`kind`: AVRO, JSON or PROTOBUF. All calls raise DataError; RetriableError if the registry does not answer."""

    def __init__(self, values: Mapping[str, object], role: Role, kind: str) -> None:
        self.kind = kind
        self._form = "serialized" if kind == "PROTOBUF" else None  # a descriptor: there is no parser of the text here
        self.cache_size = int(str(values["schemas.cache.config"]))
        self._role = role
        self._strategy = str(values[f"{role}.subject.name.strategy"]).removeprefix(_STRATEGY)
        self._registers = bool(values["auto.register.schemas"])
        self._uses_latest = bool(values["use.latest.version"])
        self._normalizes = bool(values["normalize.schemas"])
        self._values = dict(values)
        self._client: Any = None
        self._ids: Bounded[tuple[str, str], Stored] = Bounded(self.cache_size)
        self._stored: Bounded[int, Stored] = Bounded(self.cache_size)

    def subject(self, topic: str, name: str | None) -> str:
        """`name`: of the record's type, which two of the strategies need."""
        if self._strategy == "TopicNameStrategy":
            return f"{topic}-{self._role}"
        if not name:
            raise DataError(f"{self._strategy} needs a schema with a name")
        return name if self._strategy == "RecordNameStrategy" else f"{topic}-{name}"

    def for_writing(self, subject: str, text: str) -> Stored:
        """The id of the schema, and the schema to write with: another one than `text` with use.latest.version."""
        found = self._ids.get((subject, text))
        return found or self._ids.put((subject, text), self._ask(lambda client: self._find(client, subject, text)))

    def by_id(self, schema_id: int) -> Stored:
        found = self._stored.get(schema_id)
        if found is not None:
            return found
        schema = self._ask(lambda client: client.get_schema(schema_id, fmt=self._form))
        if (schema.schema_type or "AVRO") != self.kind:
            raise DataError(f"schema {schema_id} is {schema.schema_type}, not {self.kind}")
        return self._stored.put(schema_id, Stored(schema_id, schema.schema_str or "", _references(schema)))

    def of_version(self, subject: str, version: int) -> Stored:
        """A schema that another one refers to."""
        found = self._ask(lambda client: client.get_version(subject, version, fmt=self._form))
        return Stored(found.schema_id, found.schema.schema_str or "", _references(found.schema))

    def version(self, schema_id: int, subject: str) -> int | None:
        """The version that the subject has of a schema."""
        found = self._ask(lambda client: client.get_schema_versions(schema_id))
        return next((one.version for one in found if one.subject == subject), None)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _find(self, client: Any, subject: str, text: str) -> Stored:
        from confluent_kafka.schema_registry import Schema

        if self._uses_latest:
            found = client.get_latest_version(subject, fmt=self._form)
            return Stored(found.schema_id, found.schema.schema_str or "", _references(found.schema))
        schema = Schema(text, self.kind)
        if self._registers:
            return Stored(client.register_schema(subject, schema, self._normalizes), text, ())
        return Stored(client.lookup_schema(subject, schema, self._normalizes).schema_id, text, ())

    def _ask(self, question: Any) -> Any:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return question(self._connected())
        except SchemaRegistryError as error:
            reason = f"the schema registry says {error.http_status_code}: {error.error_message}"
            is_retriable = error.http_status_code >= 500 or error.http_status_code in _RETRIABLE
            raise (RetriableError if is_retriable else DataError)(reason) from None
        except DataError:
            raise
        except Exception as error:  # the classes of the HTTP library that Confluent's client chose
            raise RetriableError(f"the schema registry does not answer: {error}") from None

    def _connected(self) -> Any:
        """Made at the first use: the client's libraries take time and memory."""
        if self._client is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient

            settings: dict[str, object] = {"url": self._values["schema.registry.url"], "timeout": _TIMEOUT_S}
            login = self._values["basic.auth.user.info"]
            if self._values["basic.auth.credentials.source"] == "USER_INFO" and isinstance(login, Secret):
                settings["basic.auth.user.info"] = login.text
            authority = self._values["schema.registry.ssl.ca.location"]
            if authority:
                settings["ssl.ca.location"] = authority
            try:
                self._client = SchemaRegistryClient(settings)
            except (ValueError, TypeError) as error:
                raise DataError(f"the settings of the schema registry are rejected: {error}") from None
        return self._client


def _references(schema: Any) -> tuple[tuple[str, str, int], ...]:
    return tuple((one.name, one.subject, one.version) for one in schema.references or ())


def framed(schema_id: int, payload: bytes) -> bytes:
    """The wire format: a zero, the id in four bytes, the payload."""
    return _HEAD.pack(0, schema_id) + payload


def unframed(payload: bytes) -> tuple[int, bytes]:
    """The id and the payload. Raises DataError."""
    if len(payload) < _HEAD.size or payload[0] != 0:
        raise DataError("The bytes do not begin with a zero and the id of a schema (Unknown magic byte!)")
    return _HEAD.unpack_from(payload)[1], payload[_HEAD.size :]
