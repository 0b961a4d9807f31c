"""A small HTTP/1.1 server for operators, on the node's loop: GET of a few paths, within bounds.

A connection serves one request and is closed. A head of more than 8 KiB or a peer slower than TIMEOUT_S closes it too.
Beyond MAX_CONNECTIONS, a new connection closes the oldest that has not sent a request. On a loopback listener the Host
header must name a loopback address, which prevents DNS rebinding by foreign web pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import cast

import msgspec

from moldau.transport.http_authorization import CHALLENGE

MAX_HEAD_BYTES = 8 << 10
BUFFER_BYTES = 4 << 10
MAX_CONNECTIONS = 32
TIMEOUT_S = 15.0
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class HttpAnswer(msgspec.Struct, frozen=True):
    """`body`: the bytes to send; `content_type`: with its charset."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


Answering = Callable[[str], Awaitable[HttpAnswer]]
"""Maps a path, without its query, to the answer."""
Admitting = Callable[[str, list[str]], bool]
"""Whether a request with these `Authorization` headers may read the path."""


def everybody(_path: str, _headers: list[str]) -> bool:
    """Admits every request: for an endpoint without authentication."""
    return True


def is_loopback_host(host: str) -> bool:
    """Whether a Host header (`localhost:9644`, `[::1]:9644`) names this machine's loopback."""
    if host.startswith("["):
        name = host[1:].partition("]")[0]
    else:
        name = host.rpartition(":")[0] if host.count(":") == 1 else host
    return name.lower().rstrip(".") in LOOPBACK_NAMES


class HttpEndpoint:
    """The shared state of one listener's connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        answer: Answering,
        *,
        is_loopback_only: bool,
        admits: Admitting = everybody,
    ) -> None:
        self.loop = loop
        self.answer = answer
        self.admits = admits
        self.is_loopback_only = is_loopback_only
        self.connections: dict[HttpConnection, None] = {}

    def make_room(self) -> bool:
        """Closes the connection that has been silent for longest; False if all of them have sent a request. Otherwise a
        few silent clients would keep out the liveness probe, and its supervisor would restart a healthy node."""
        silent = next((connection for connection in self.connections if not connection.has_asked), None)
        if silent is None:
            return False
        del self.connections[silent]
        silent.end()
        return True

    def close(self) -> None:
        """Ends every connection at once, also before its answer."""
        for connection in list(self.connections):
            connection.end()


class HttpConnection(asyncio.BufferedProtocol):
    """One request and its answer."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._head = b""
        self._buffer = bytearray(BUFFER_BYTES)
        self._transport: asyncio.Transport | None = None
        self._answering: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def has_asked(self) -> bool:
        """Whether a whole request has arrived."""
        return self._answering is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        endpoint = self._endpoint
        if len(endpoint.connections) >= MAX_CONNECTIONS and not endpoint.make_room():
            self._send(HttpAnswer(HTTPStatus.SERVICE_UNAVAILABLE, b"too many connections\n"))
            return
        endpoint.connections[self] = None
        self._timer = endpoint.loop.call_later(TIMEOUT_S, self.end)

    def secured(self, certificate: bytes | None) -> None:
        """See SecuredProtocol. A client with a trusted certificate must still authenticate."""

    def connection_lost(self, error: Exception | None) -> None:
        self._endpoint.connections.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
        self._transport = None

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        if self._answering is not None or self._transport is None or self._transport.is_closing():
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) <= MAX_HEAD_BYTES:
            return
        if not 0 <= end <= MAX_HEAD_BYTES:
            self._send(HttpAnswer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, b"the head is too long\n"))
            return
        self._answering = self._endpoint.loop.create_task(self._answer(self._head[:end]))

    async def _answer(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._send(HttpAnswer(HTTPStatus.BAD_REQUEST, b"this port speaks HTTP/1.1\n"))
            return
        method, target, _ = words
        path, hosts = target.partition("?")[0], _values(lines, "host")
        if len(hosts) > 1 or (self._endpoint.is_loopback_only and not (hosts and is_loopback_host(hosts[0]))):
            self._send(HttpAnswer(HTTPStatus.FORBIDDEN, b"the Host header names another machine\n"))
        elif method not in ("GET", "HEAD"):
            self._send(HttpAnswer(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n"))
        elif not self._endpoint.admits(path, _values(lines, "authorization")):
            self._send(HttpAnswer(HTTPStatus.UNAUTHORIZED, b"unauthorized\n", headers=(CHALLENGE,)))
        else:
            try:
                answer = await self._endpoint.answer(path)
            except Exception:
                self._send(HttpAnswer(HTTPStatus.INTERNAL_SERVER_ERROR, b"this could not be answered\n"))
                raise
            self._send(answer, is_body_left_out=method == "HEAD")

    def _send(self, answer: HttpAnswer, *, is_body_left_out: bool = False) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        status = HTTPStatus(answer.status)
        more = "".join(f"{name}: {text}\r\n" for name, text in answer.headers)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
            f"Content-Length: {len(answer.body)}\r\nCache-Control: no-store\r\n"
            f"X-Content-Type-Options: nosniff\r\n{more}Connection: close\r\n\r\n"
        ).encode("latin-1")
        transport.write(head if is_body_left_out else head + answer.body)
        transport.close()

    def end(self) -> None:
        """Drops the connection: it took too long, or the node is stopping."""
        if self._transport is not None:
            self._transport.abort()


def _values(lines: list[str], name: str) -> list[str]:
    """The values of the headers with that name."""
    return [line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith(f"{name}:")]
