"""Requests to the instances of a SQL service, on worker threads."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from typing import IO, Any, TypeVar

import msgspec

from moldau.client.protocol.secrets import AccessError, Origin
from moldau.errors import KafkaError, MoldauError
from moldau.products.console.core.sql_facts import QueryDescription, SqlLists
from moldau.products.pipelines.formats.registry_security import NO_SECURITY, URL, RegistrySecurity

PREFIX = "sql."
"""Before the names of `RegistrySecurity`, in settings."""
TIMEOUT_S = 60.0
"""Without any byte. An instance that sends rows gives a sign of life every few seconds."""
MAX_ANSWER = 8 << 20
MAX_LINE = 4 << 20
QUERY_ENDPOINT, NOT_READY = 40002, 50302
LISTS = "SHOW STREAMS; SHOW TABLES; SHOW QUERIES;"

Kind = TypeVar("Kind")
Entity = dict[str, Any]
_ENTITIES = msgspec.json.Decoder(list[Entity])
_ROW = msgspec.json.Decoder(Entity, float_hook=Decimal)
"""Keeps all digits of a number."""

Event = tuple[str, Any]
"""`entity` with its object; of rows: `header`, `row`, `end`, `error` with theirs, and `waiting`."""


class SqlServerError(MoldauError):
    """No instance answers, or one rejects the request; the message says why. `code`: of the service; 0 without one."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class _Described(msgspec.Struct, frozen=True, rename="camel"):
    query_description: QueryDescription


class SqlServer(msgspec.Struct, frozen=True):
    """`urls`: of the instances; the one that runs the statements answers."""

    urls: tuple[str, ...]
    security: RegistrySecurity = NO_SECURITY

    @classmethod
    def at(cls, addresses: str, properties: Mapping[str, str], origin: Origin | None) -> SqlServer:
        """`addresses`: with commas between them. `properties`: the login there, if there is one, is sent only to the
        addresses in `sql.url`. `origin`: see Origin. Raises AccessError."""
        urls = _urls(addresses)
        security = RegistrySecurity.from_properties(properties, origin, PREFIX)
        if urls != _urls(properties.get(f"{PREFIX}{URL}", "")):
            security = msgspec.structs.replace(security, user_info=None, token=None)
        for url in urls:
            if "@" in url.partition("://")[2].partition("/")[0]:
                raise AccessError("--sql", "takes no user and password")
            security.check_sent_to(url)
        return cls(urls, security)

    def lists(self) -> SqlLists:
        """Raises SqlServerError."""
        found: dict[str, Any] = {}
        for one in self._run(LISTS):
            found |= one
        return _as(found, SqlLists)

    def explained(self, query_id: str) -> QueryDescription:
        """Raises SqlServerError."""
        found = self._run(f"EXPLAIN `{query_id.replace('`', '')}`;")
        return _as(found, tuple[_Described])[0].query_description

    def events(self, text: str) -> Iterator[Event]:
        """The answers to statements, or the rows of a query; closing the iterator ends the query. Raises
        SqlServerError."""
        try:
            for one in self._run(text):
                yield "entity", one
        except SqlServerError as error:
            if error.code != QUERY_ENDPOINT:
                raise
            yield from self._rows(text)

    def _run(self, text: str) -> list[Entity]:
        with closing(self._ask("/ksql", text, "application/json")) as answer:
            return _decoded(_ENTITIES, answer.read(MAX_ANSWER + 1))

    def _rows(self, text: str) -> Iterator[Event]:
        with closing(self._ask("/query", text, "text/event-stream")) as answer:
            name = ""
            try:
                while line := answer.readline(MAX_LINE):
                    kind, _, value = line.decode("utf-8", "replace").rstrip("\n").partition(":")
                    if kind == "event":
                        name = value.strip()
                    elif kind == "data":
                        yield name, _decoded(_ROW, value.encode())
                    elif not kind and value == "" and line != b"\n":
                        yield "waiting", None
            except (OSError, http.client.HTTPException) as error:
                raise SqlServerError(f"the SQL service ended the connection: {error}") from error

    def _ask(self, path: str, text: str, accept: str) -> IO[bytes]:
        """The answer of the first instance that is not waiting for another one."""
        told: SqlServerError | None = None
        for url in self.urls:
            try:
                return self._opened(url, path, text, accept)
            except SqlServerError as error:
                if error.code not in (0, NOT_READY):
                    raise
                told = error if told is None or error.code else told
        raise told or SqlServerError("no SQL service is named")

    def _opened(self, url: str, path: str, text: str, accept: str) -> IO[bytes]:
        try:
            headers = {"content-type": "application/json", "accept": accept, **self.security.headers()}
            request = urllib.request.Request(f"{url}{path}", json.dumps({"ksql": text}).encode(), headers)
            answer: IO[bytes] = self.security.opener(url).open(request, timeout=TIMEOUT_S)
            return answer
        except urllib.error.HTTPError as error:
            with error:
                raise _rejected(error.code, error.read(MAX_ANSWER)) from error
        except (OSError, http.client.HTTPException, KafkaError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise SqlServerError(f"the SQL service {url} does not answer: {reason}") from error


def _urls(addresses: str) -> tuple[str, ...]:
    return tuple((one if "://" in one else f"http://{one}").strip().rstrip("/") for one in addresses.split(","))


def _as(found: object, kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise SqlServerError(f"the SQL service did not answer as one of Moldau: {error}") from error


def _decoded(decoder: msgspec.json.Decoder[Kind], data: bytes) -> Kind:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SqlServerError(f"the SQL service did not answer as one: {error}") from error


def _rejected(status: int, body: bytes) -> SqlServerError:
    try:
        found = msgspec.json.decode(body, type=dict[str, Any])
        return SqlServerError(str(found["message"]), int(found["error_code"]))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, ValueError, TypeError):
        return SqlServerError(f"the SQL service answered {status}", status * 100)
