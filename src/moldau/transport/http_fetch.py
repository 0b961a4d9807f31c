"""One HTTP request to a server that may be broken or hostile: a bound on time and bytes, no redirect, no proxy.

For what a broker or a client asks of an issuer: its keys, and tokens (KIP-768).
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import h11
import msgspec

from moldau.errors import MoldauError

TIMEOUT_S: Final = 10.0
"""For the whole: the name, the connection, TLS, the request and its answer."""
_READ_BYTES: Final = 64 << 10


class FetchError(MoldauError):
    """There is no answer. The text says why, and holds nothing that the server sent. `is_lasting`: another try will
    hardly end better (a status of 4xx)."""

    def __init__(self, message: str, *, is_lasting: bool = False) -> None:
        super().__init__(message)
        self.is_lasting = is_lasting


class HttpRequest(msgspec.Struct, frozen=True):
    """`url`: http or https, checked by the caller. `body`: None for GET, else a POST. Headers may be secrets."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    def __repr__(self) -> str:
        return f"HttpRequest({self.url})"


async def fetch(
    request: HttpRequest, max_bytes: int, tls: ssl.SSLContext | None = None, timeout_s: float = TIMEOUT_S
) -> bytes:
    """The body of the answer, whose status is 200. `tls`: None: the authorities of the system. Raises FetchError."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _fetch(request, max_bytes, tls)
    except TimeoutError:
        raise FetchError(f"no answer within {timeout_s:g} s") from None
    except h11.ProtocolError:
        raise FetchError("the answer is no HTTP") from None
    except ssl.SSLError as error:
        raise FetchError(f"TLS: {error.reason or 'the handshake failed'}{_verification(error)}") from None
    except (OSError, UnicodeError, ValueError) as error:
        raise FetchError(f"no connection: {getattr(error, 'strerror', None) or type(error).__name__}") from None


async def _fetch(request: HttpRequest, max_bytes: int, tls: ssl.SSLContext | None) -> bytes:
    parts = urlsplit(request.url)
    host, is_secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    context = (tls or ssl.create_default_context()) if is_secure else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_READ_BYTES)
    try:
        connection = h11.Connection(h11.CLIENT)
        target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        headers = [("Host", parts.netloc), ("Accept", "application/json"), ("Connection", "close"), *request.headers]
        if request.body is not None:
            headers.append(("Content-Length", str(len(request.body))))
        method = "GET" if request.body is None else "POST"
        writer.write(connection.send(h11.Request(method=method, target=target, headers=headers)) or b"")
        if request.body:
            writer.write(connection.send(h11.Data(data=request.body)) or b"")
        writer.write(connection.send(h11.EndOfMessage()) or b"")
        await writer.drain()
        return await _answer(connection, reader, max_bytes)
    finally:
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            writer.transport.abort()


async def _answer(connection: h11.Connection, reader: asyncio.StreamReader, max_bytes: int) -> bytes:
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            _check_status(event.status_code)
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > max_bytes:
                raise FetchError(f"the answer has more than {max_bytes} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return bytes(body)
        elif isinstance(event, h11.ConnectionClosed):
            raise FetchError("the answer ends before its end")


def _check_status(status: int) -> None:
    if status != 200:
        told = ": redirects are not followed" if 300 <= status < 400 else ""
        raise FetchError(f"the answer has the status {status}{told}", is_lasting=400 <= status < 500)


def _verification(error: ssl.SSLError) -> str:
    return f" ({error.verify_message})" if isinstance(error, ssl.SSLCertVerificationError) else ""
