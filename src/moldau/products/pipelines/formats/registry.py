"""A client of a schema registry with Confluent's HTTP API: schemas by the ids in records.

A record's value is a zero byte, four bytes of the schema's id, and the value in the schema's format.
"""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from moldau.client.protocol.secrets import AccessError, Origin
from moldau.errors import KafkaError, MoldauError
from moldau.products.pipelines.core.cluster import setting_of
from moldau.products.pipelines.core.keys import Key
from moldau.products.pipelines.core.patience import keep_trying
from moldau.products.pipelines.core.section import Section
from moldau.products.pipelines.formats.registry_security import (
    NAMES,
    NO_SECURITY,
    PREFIX,
    URL,
    USER_INFO,
    RegistrySecurity,
)
from moldau.transport import http_retries

MAGIC = 0
HEADER_BYTES = 5

EXAMPLE = "http://localhost:8081"
ANSWER_SECONDS = 10
PATIENCE_MS = 60_000
"""The patience of a running pipeline with a registry that is temporarily unavailable."""
_CONTENT = "application/vnd.schemaregistry.v1+json"


class RegistryError(MoldauError):
    """The registry is unreachable or rejects the request; the message says why."""


class UnknownSchemaError(RegistryError):
    """The schema, subject or version does not exist, or not in the requested form."""


class RegistryDeniedError(RegistryError):
    """The registry asks for a login, or denies access to the login."""


class RegistryUnreachableError(RegistryError):
    """The registry does not answer, or cannot at the moment."""


class _Reference(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int


class _Text(msgspec.Struct, frozen=True):
    """The registry's answer to a request for a schema by id."""

    schema: str
    references: tuple[_Reference, ...] | None = None
    kind: str | None = msgspec.field(default=None, name="schemaType")


class _Version(_Text, frozen=True, kw_only=True):
    id: int


class _Registered(msgspec.Struct, frozen=True):
    id: int


Answer = TypeVar("Answer")

REGISTRY = Key(
    "registry",
    "A schema registry with Confluent's HTTP interface ([`moldau registry`](../../use/registry.md) is one).",
    absent="values are bare",
    values="address, or [mapping](#a-schema-registry)",
)


class RegisteredSchema(msgspec.Struct, frozen=True):
    """`references`: the texts of the schemas that it uses, by the names in it, each after those that it needs. `kind`:
    in the registry's words."""

    id: int
    text: str
    references: tuple[tuple[str, str], ...] = ()
    kind: str = "AVRO"


class Registry(msgspec.Struct, frozen=True):
    """`patience_ms`: how long requests are retried while the registry does not answer."""

    url: str
    patience_ms: int = PATIENCE_MS
    security: RegistrySecurity = NO_SECURITY

    @classmethod
    def parse(cls, section: Section, directory: Path) -> Registry | None:
        """The registry in `registry`: an address, or `url` with security settings. `directory`: the base of relative
        paths. Raises SpecError."""
        if not section.has(REGISTRY):
            return None
        if section.is_text(REGISTRY):
            return cls(section.web_address(REGISTRY, EXAMPLE).rstrip("/"))
        given = section.section(REGISTRY)
        given.allow(*NAMES)
        url = given.web_address(URL, EXAMPLE).rstrip("/")
        properties = {name: setting_of(given, name, directory) for name in given.entries() if name != URL}
        try:
            security = RegistrySecurity.from_properties(properties)
            security.check_sent_to(url)
            security.properties()  # rejects a secret that is not a reference
        except AccessError as error:
            given.refuse(error.name if given.has(error.name) else None, error.reason)
        return cls(url, security=security)

    @classmethod
    def at(cls, address: str, properties: Mapping[str, str], origin: Origin | None, patience_ms: int) -> Registry:
        """The registry at an address that a person entered. It gets the secrets of `properties` (with the prefix
        `schema.registry.`) only if they belong to this address. `origin`: see Origin. Raises AccessError."""
        url = (address if "://" in address else f"http://{address}").rstrip("/")
        if "@" in url.partition("://")[2].partition("/")[0]:
            raise AccessError(f"{PREFIX}{URL}", f"takes no user and password; {PREFIX}{USER_INFO} does")
        security = RegistrySecurity.from_properties(properties, origin, PREFIX)
        has_secret = security.user_info is not None or security.token is not None
        if has_secret and url != properties.get(f"{PREFIX}{URL}", "").rstrip("/"):
            security = msgspec.structs.replace(security, user_info=None, token=None)
        security.check_sent_to(url)
        return cls(url, patience_ms, security)

    def check(self, timeout_ms: int) -> None:
        """Raises RegistryUnreachableError without an answer from the address within `timeout_ms`, RegistryDeniedError
        if the login is denied."""
        try:
            msgspec.structs.replace(self, patience_ms=timeout_ms)._ask("/schemas/types", tuple[str, ...])
        except RegistryUnreachableError as error:
            raise RegistryUnreachableError(f"{error} (tried for {timeout_ms / 1_000:g} s)") from error
        except RegistryDeniedError:
            raise
        except RegistryError:
            pass  # a registry that does not know this path has still answered

    def schema_of_id(self, schema_id: int, form: str = "") -> RegisteredSchema:
        """`form`: see `newest`. Raises RegistryError."""
        form = f"?format={form}" if form else ""
        return self._schema(schema_id, self._ask(f"/schemas/ids/{schema_id}{form}", _Text), form)

    def newest(self, subject: str, form: str = "") -> RegisteredSchema:
        """`form`: `serialized` for Protobuf descriptors instead of the text. Raises RegistryError."""
        form = f"?format={form}" if form else ""
        found = self._ask(f"/subjects/{_path(subject)}/versions/latest{form}", _Version)
        return self._schema(found.id, found, form)

    def register(self, subject: str, text: str, kind: str) -> int:
        """Registers the schema as a version of the subject; returns its id. Raises RegistryError, also if the schema is
        incompatible with an older version."""
        body = {"schema": text, "schemaType": kind}
        return self._ask(f"/subjects/{_path(subject)}/versions", _Registered, body).id

    def _schema(self, schema_id: int, found: _Text, form: str = "") -> RegisteredSchema:
        references: dict[str, str] = {}
        for one in found.references or ():
            there = self._ask(f"/subjects/{_path(one.subject)}/versions/{one.version}{form}", _Version)
            references |= dict(self._schema(there.id, there, form).references)
            references[one.name] = there.schema
        return RegisteredSchema(schema_id, found.schema, tuple(references.items()), found.kind or "AVRO")

    def _ask(self, path: str, kind: type[Answer], body: Mapping[str, str] | None = None) -> Answer:
        """The JSON answer, as `kind`. `body`: for a POST. Retries while the registry is unavailable."""
        return keep_trying(
            lambda: self._ask_once(path, kind, body),
            lambda error: isinstance(error, RegistryUnreachableError),
            self.patience_ms,
            f"{self.url}{path}",
            asked_pause_s=http_retries.asked_pause_s,
        )

    def _ask_once(self, path: str, kind: type[Answer], body: Mapping[str, str] | None) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": _CONTENT, "Content-Type": _CONTENT}
        try:
            request = urllib.request.Request(self.url + path, data, {**headers, **self.security.headers()})
            opener = self.security.opener(self.url)
        except KafkaError as error:
            raise RegistryError(f"the schema registry {self.url}: {error}") from error
        try:
            with opener.open(request, timeout=ANSWER_SECONDS) as answer:
                return msgspec.json.decode(answer.read(), type=kind)
        except urllib.error.HTTPError as error:
            reason = f"{self.url}{path} answered {error.code}: {_message(error)}"
            if error.code == 404 or (error.code == 422 and body is None):
                raise UnknownSchemaError(reason) from error
            if error.code in (401, 403):
                raise RegistryDeniedError(reason) from error
            if http_retries.may_pass(error.code):
                raise RegistryUnreachableError(reason) from error
            raise RegistryError(reason) from error
        except (OSError, http.client.HTTPException) as error:
            raise RegistryUnreachableError(
                f"the schema registry {self.url} does not answer: {_reason(error)}"
            ) from error
        except (ValueError, msgspec.DecodeError) as error:
            raise RegistryError(f"{self.url}{path} did not answer as a schema registry does: {error}") from error


def _reason(error: OSError | http.client.HTTPException) -> str:
    """The reason, in the words used for a broker."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, socket.gaierror):
        return "there is no such host"
    if isinstance(cause, TimeoutError):
        return f"no answer within {ANSWER_SECONDS} s"
    return (cause.strerror or str(cause)).lower() if isinstance(cause, OSError) else str(cause)


def _message(error: urllib.error.HTTPError) -> str:
    """The registry's own message."""
    try:
        return str(json.loads(error.read())["message"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return str(error.reason)


def _path(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")
