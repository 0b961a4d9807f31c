"""Drives the client on an event loop. Requests are sent at once, and each response resolves its future."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from moldau.client.protocol.connection import ClientProtocol, PendingRequest
from moldau.client.protocol.sasl import NONCE_BYTES, Login, authenticating, go_on
from moldau.ports import Random, Workers
from moldau.wire.protocol.api_keys import ApiKey, api_key_of
from moldau.wire.protocol.framing import LENGTH_SIZE
from moldau.wire.protocol.sasl_tokens import Credentials
from moldau.wire.protocol.schema import Request

Response = TypeVar("Response", bound=msgspec.Struct)

BUFFER_BYTES = 16 << 10
"""The receive buffer of a connection. A longer response gets its own buffer."""
LONG_BYTES = 4 << 20
"""That buffer has the size of the response, or starts with this size if the response is longer."""


class AsyncConnection(asyncio.BufferedProtocol):
    """One connection, open from `connection_made` until `close` or until it is lost. A ProtocolError passes out of
    `buffer_updated`, and the transport ends the connection.

    A response larger than the connection's buffer is received directly into its final buffer. A Fetch response has
    megabytes, and copying it would cost a follower as much as writing it.

    `version_of`: the version of an API that requests use. `decode`: decodes a response. `lost`: makes the error of a
    request without a response; the outcome of such a request is unknown.
    """

    def __init__(
        self,
        protocol: ClientProtocol,
        *,
        version_of: Callable[[ApiKey], int],
        decode: Callable[[PendingRequest, memoryview], msgspec.Struct],
        lost: Callable[[str], Exception],
        request_timeout_s: float,
    ) -> None:
        self.is_open = False
        self.version_of = version_of
        self._protocol = protocol
        self._decode = decode
        self._lost = lost
        self._request_timeout_s = request_timeout_s
        self._buffer = self._short = bytearray(BUFFER_BYTES)
        self._filled = 0
        self._waiting: deque[_Waiting] = deque()
        self._transport: asyncio.Transport

    def send(
        self, message: Request[Response], note: Callable[[Response], None] | None = None
    ) -> asyncio.Future[Response]:
        """Sends at once. The future has the response, or the error from `lost` if the connection ends before.

        `note` is called with the response at the moment of its arrival, from which its promises count.
        """
        self._write(message, is_answered=True)
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(answer, note))
        return answer

    def send_unanswered(self, message: Request[Any]) -> None:
        """Sends a request without a response (acks=0)."""
        self._write(message, is_answered=False)

    async def request(
        self,
        message: Request[Response],
        *,
        note: Callable[[Response], None] | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """Sends and waits, as `send` and `answer_in_time`. `timeout_s` replaces that of the connection."""
        return await self.answer_in_time(self.send(message, note), timeout_s)

    async def answer_in_time(self, answer: asyncio.Future[Response], timeout_s: float | None = None) -> Response:
        """Waits for the future from `send`. A timeout closes the connection, because later responses could not be
        matched."""
        allowed_s = self._request_timeout_s if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(allowed_s):
                return await answer
        except TimeoutError as error:
            self.close()
            raise self._lost(f"no answer in {allowed_s} s") from error

    async def authenticate(self, login: Login, random: Random, workers: Workers) -> int:
        """Logs in, or logs in again. Send nothing else meanwhile. Returns the lifetime of the session in milliseconds,
        0: for ever. Raises KafkaError, and as `request`. `workers` compute the hashes of SCRAM."""
        known = login if isinstance(login, Credentials) else await login.bearer_soon()
        exchange = authenticating(known, random.random_bytes(NONCE_BYTES), self._protocol.peer)
        step = go_on(exchange)
        while not isinstance(step, int):
            answer: msgspec.Struct = await self.request(cast(Request[Any], step))
            step = await workers.run(partial(go_on, exchange, answer))
        return step

    def close(self) -> None:
        """Ends the connection at once. Requests in flight fail when the transport reports the end."""
        self.is_open = False
        if not self._transport.is_closing():
            self._transport.abort()

    def _write(self, message: Request[Any], *, is_answered: bool) -> None:
        if not self.is_open:
            raise self._lost("not connected")
        version = self.version_of(api_key_of(message))
        parts = self._protocol.request(message, version, is_answered=is_answered)
        self._transport.write(b"".join(parts))

    # -- callbacks of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        view, end = memoryview(self._buffer)[: self._filled], 0
        while len(view) - end >= LENGTH_SIZE:
            begin, size = end, LENGTH_SIZE + self._protocol.response_length(view[end : end + LENGTH_SIZE])
            if len(view) - begin < size:
                self._keep(view[begin:], size)
                return
            end += size
            frame = view[begin + LENGTH_SIZE : end]
            self._take(frame if self._buffer is not self._short else memoryview(bytes(frame)))
        self._keep(view[end:], 0)

    def _keep(self, begun: memoryview, size: int) -> None:
        """Makes room for the rest of a response of `size` bytes (0: not known yet), whose first bytes are `begun`. The
        room grows with the received bytes, so announcing a large size costs nothing."""
        self._filled = len(begun)
        if size <= BUFFER_BYTES:
            self._buffer = self._short
        elif self._buffer is self._short or len(begun) == len(self._buffer):
            self._buffer = bytearray(min(size, max(LONG_BYTES, 4 * len(begun))))
        else:
            return
        memoryview(self._buffer)[: len(begun)] = begun  # also if the part moves within the buffer

    def _take(self, frame: memoryview) -> None:
        pending = self._protocol.oldest()
        response = self._decode(pending, self._protocol.response_body(frame))
        waiting = self._waiting.popleft()
        if not waiting.answer.done():
            if waiting.note is not None:
                waiting.note(response)
            waiting.answer.set_result(response)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        lost, self._waiting = self._waiting, deque()
        reason = "connection lost" + ("" if exc is None else f": {exc}")  # None: closed by either side
        for waiting in lost:
            if not waiting.answer.done():
                waiting.answer.set_exception(self._lost(reason))
                waiting.answer.exception()  # suppresses the warning about an error that no caller awaits


class _Waiting(msgspec.Struct, frozen=True):
    answer: asyncio.Future[Any]
    note: Callable[[Any], None] | None
