"""Requests to the instances of a SQL service, on worker threads."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from typing import IO, Any, ClassVar, TypeVar

import msgspec

from moldau.products.console.called_service import MAX_ANSWER, CalledService, CalledServiceError
from moldau.products.console.core.sql_facts import QueryDescription, SqlLists

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


class _Described(msgspec.Struct, frozen=True, rename="camel"):
    query_description: QueryDescription


class SqlServer(CalledService, frozen=True):
    """The instance that runs the statements answers."""

    PREFIX: ClassVar[str] = "sql."
    FLAG: ClassVar[str] = "--sql"
    NOUN: ClassVar[str] = "the SQL service"

    def lists(self) -> SqlLists:
        """Raises CalledServiceError."""
        found: dict[str, Any] = {}
        for one in self._run(LISTS):
            found |= one
        return _as(found, SqlLists)

    def explained(self, query_id: str) -> QueryDescription:
        """Raises CalledServiceError."""
        found = self._run(f"EXPLAIN `{query_id.replace('`', '')}`;")
        return _as(found, tuple[_Described])[0].query_description

    def events(self, text: str) -> Iterator[Event]:
        """The answers to statements, or the rows of a query; closing the iterator ends the query. Raises
        CalledServiceError."""
        try:
            for one in self._run(text):
                yield "entity", one
        except CalledServiceError as error:
            if error.code != QUERY_ENDPOINT:
                raise
            yield from self._rows(text)

    def _run(self, text: str) -> list[Entity]:
        with closing(self._ask("/ksql", text, "application/json")) as answer:
            return self.decoded(_ENTITIES, answer.read(MAX_ANSWER + 1))

    def _rows(self, text: str) -> Iterator[Event]:
        with closing(self._ask("/query", text, "text/event-stream")) as answer:
            name = ""
            try:
                while line := answer.readline(MAX_LINE):
                    kind, _, value = line.decode("utf-8", "replace").rstrip("\n").partition(":")
                    if kind == "event":
                        name = value.strip()
                    elif kind == "data":
                        yield name, self.decoded(_ROW, value.encode())
                    elif not kind and value == "" and line != b"\n":
                        yield "waiting", None
            except (OSError, http.client.HTTPException) as error:
                raise CalledServiceError(f"{self.NOUN} ended the connection: {error}") from error

    def _ask(self, path: str, text: str, accept: str) -> IO[bytes]:
        """The answer of the first instance that is not waiting for another one."""
        told: CalledServiceError | None = None
        for url in self.urls:
            try:
                return self.opened(url, path, "POST", {"ksql": text}, accept)
            except CalledServiceError as error:
                if error.code not in (0, NOT_READY):
                    raise
                told = error if told is None or error.code else told
        raise told or CalledServiceError("no SQL service is named")


def _as(found: object, kind: type[Kind]) -> Kind:
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise CalledServiceError(f"the SQL service did not answer as one of Moldau: {error}") from error
