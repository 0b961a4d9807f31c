"""Reads and checks requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request

from moldau.products.sql.serving.http.errors import BAD_REQUEST, TOO_LARGE, RejectedRequest

MAX_BODY = 1_000_000
"""In bytes, of one request with statements."""
MAX_LINE = 1_000_000
"""In bytes, of one row of /inserts-stream: a broker with Kafka's default settings takes no larger record."""

Body = TypeVar("Body")


class Asked(msgspec.Struct, frozen=True):
    """The body of a request with statements. `properties` and `variables`: as texts."""

    sql: str
    properties: Mapping[str, str]
    variables: Mapping[str, str]


class _Body(msgspec.Struct, frozen=True):
    """ksqlDB's two names of each. A client may send more fields, as to ksqlDB."""

    ksql: str | None = None
    sql: str | None = None
    streamsProperties: dict[str, Any] | None = None  # noqa: N815 - the name in the request
    properties: dict[str, Any] | None = None
    sessionVariables: dict[str, Any] | None = None  # noqa: N815
    commandSequenceNumber: int | None = None  # noqa: N815


async def read_asked(request: Request) -> Asked:
    """Raises RejectedRequest.

    A `commandSequenceNumber` is checked and not waited for: each statement is done when its response is sent.
    """
    body = await read_object(request, _Body)
    sql = body.ksql if body.ksql is not None else body.sql
    if sql is None:
        raise RejectedRequest(BAD_REQUEST, 'the request names no statement: send {"ksql": "..."}')
    return Asked(
        sql, _texts({**(body.streamsProperties or {}), **(body.properties or {})}), _texts(body.sessionVariables or {})
    )


async def read_object(request: Request, kind: type[Body]) -> Body:
    """Raises RejectedRequest for another body, and for one with more than MAX_BODY bytes."""
    found = bytearray()
    async for part in request.stream():
        found += part
        if len(found) > MAX_BODY:
            raise RejectedRequest(TOO_LARGE, f"the request is larger than {MAX_BODY:,} bytes")
    return decoded(bytes(found), kind)


def decoded(data: bytes, kind: type[Body]) -> Body:
    """Raises RejectedRequest."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RejectedRequest(BAD_REQUEST, f"the request cannot be read: {error}") from error


async def lines_of(request: Request) -> AsyncIterator[list[bytes]]:
    """The lines of the body as they come: those that are whole, after each part that came. Raises RejectedRequest for a
    line with more than MAX_LINE bytes."""
    rest = b""
    async for part in request.stream():
        *whole, rest = (rest + part).split(b"\n")
        if len(rest) > MAX_LINE or any(len(line) > MAX_LINE for line in whole):
            raise RejectedRequest(TOO_LARGE, f"a line is larger than {MAX_LINE:,} bytes")
        if whole:
            yield [line for line in whole if line.strip()]
    if rest.strip():
        yield [rest]


def _texts(given: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in given.items() if value is not None}


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
