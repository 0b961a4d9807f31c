"""One blocking connection to one broker, Moldau's or Apache Kafka's (2.8 and later, by negotiated versions).

For columnar reads, Spark tasks (which fetch megabytes at a time without an object per record) and administration.
Requests may be pipelined: `send` several, then `receive` in the same order. Not thread-safe.

Every failure of the connection, including a timeout, is a KafkaError (NETWORK_EXCEPTION or REQUEST_TIMED_OUT, both
retriable) and closes the connection. The outcome of unanswered requests is then unknown.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar, cast

import msgspec

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.connection import ClientProtocol
from moldau.client.protocol.sasl import NONCE_BYTES, Login, authenticating, go_on, log_in_again_after_ms
from moldau.errors import KafkaError, ProtocolError, invariant, kafka_error
from moldau.ports import Dialer, Stream
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, api_key_of
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.framing import LENGTH_SIZE, gathered
from moldau.wire.protocol.sasl_tokens import BearerToken, Credentials
from moldau.wire.protocol.schema import Request

_READ_AHEAD_BYTES = 64 * 1024
# parts up to this size are joined before they are written; larger ones (record batches) are not copied
_JOIN_BYTES = 16 * 1024

ResponseType = TypeVar("ResponseType", bound=msgspec.Struct)


class ClientConnection:
    """A connection with negotiated versions, open from construction on. Raises KafkaError as described in the
    module."""

    def __init__(
        self,
        dialer: Dialer,
        access: ClusterAccess,
        host: str,
        port: int,
        *,
        connect_timeout_ms: int | None = None,
        credentials: Login | None = None,
    ) -> None:
        """`connect_timeout_ms`: replaces that of the access. `credentials`: the login; None if the listener needs
        none."""
        self.host = host
        self.port = port
        if connect_timeout_ms is None:
            connect_timeout_ms = access.connect_timeout_ms
        # negotiation counts as connecting: a recovering broker accepts connections, but answers only when it is done
        self.request_timeout_ms = connect_timeout_ms
        self._monotonic_ms = dialer.monotonic_ms
        self._dialer = dialer
        self._credentials = credentials
        self._log_in_again_ms: int | None = None
        self._protocol = ClientProtocol(str(self), client_id=access.client_id)
        self._read_ahead = b""
        self._early: deque[tuple[int, memoryview]] = deque()
        """Responses received early because of the next login, as version and body."""
        # fetch the token before a broker waits for it
        known = _known(credentials)
        self._stream: Stream | None = dialer.dial(host, port, connect_timeout_ms)
        try:
            request: list[bytes] | None = self._protocol.versions_request()
            while request is not None:
                self._write(request)
                request = self._protocol.take_versions(self.receive())
            # a broker delays the rejection to slow down password guessing
            self.request_timeout_ms = access.request_timeout_ms
            if known is not None:
                self._authenticate(known)
        except BaseException:
            self.close()
            raise

    # --- closing ---

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent. False after `close`, and after an error that ended the connection."""
        return self._stream is not None

    @property
    def in_flight(self) -> int:
        """The number of requests whose responses the caller has not received yet."""
        return len(self._early) + len(self._protocol.pending)

    def fileno(self) -> int:
        """The descriptor of the socket, which can be read once a response arrives. Raises KafkaError if the connection
        is closed."""
        return self._connected().fileno()

    def has_ended(self) -> bool:
        """Whether an idle connection was closed, here or by the broker. Does not wait."""
        return self._stream is None or bool(self._read_ahead) or (not self.in_flight and self._stream.has_ended())

    def close(self) -> None:
        """Ends the connection; responses in flight are lost. Does nothing if it is closed."""
        stream, self._stream = self._stream, None
        self._protocol.pending.clear()
        self._early.clear()
        self._read_ahead = b""
        if stream is not None:
            stream.close()

    def __enter__(self) -> ClientConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    # --- authentication ---

    def _authenticate(self, known: Credentials | BearerToken) -> None:
        """Logs in, or logs in again (KIP-368). First receives the responses in flight into separate memory, because a
        broker accepts no other request during a login. Raises KafkaError."""
        self._log_in_again_ms = None
        while self._protocol.pending:
            version = self._protocol.pending[0].version
            self._early.append((version, self._receive_next(None)))
        exchange = authenticating(known, self._dialer.random_bytes(NONCE_BYTES), str(self))
        began_ms = self._monotonic_ms()
        try:
            step = go_on(exchange)
            while not isinstance(step, int):
                api_key = api_key_of(step)
                version = self.version_of(api_key)
                self._write(self._protocol.request(step, version))
                step = go_on(exchange, self._decoded(API_VERSIONS[api_key].response, version, self._receive_next(None)))
        except BaseException:
            self.close()
            raise
        if step:
            self._log_in_again_ms = began_ms + log_in_again_after_ms(step)

    # --- requests ---

    def version_of(self, api_key: ApiKey, *, max_version: int | None = None) -> int:
        """The version of the API that requests use: see ClientProtocol.version_of."""
        return self._protocol.version_of(api_key, max_version=max_version)

    def request(self, message: Request[ResponseType], *, max_version: int | None = None) -> ResponseType:
        """Sends one request and waits for its response. No other request may be in flight."""
        invariant(not self.in_flight, "request() while others are in flight")
        api_key = api_key_of(message)
        self.send(message, self.version_of(api_key, max_version=max_version))
        return self.receive_message(cast("type[ResponseType]", API_VERSIONS[api_key].response))

    def send(self, message: Request[Any], version: int) -> None:
        """Writes one request; `receive` returns responses in the order of the requests. Blocks while the socket is
        full. If the session ends soon, also blocks until the requests in flight are answered."""
        self._connected()
        due_ms = self._log_in_again_ms
        if due_ms is not None and self._monotonic_ms() >= due_ms:
            known = _known(self._credentials)
            if known is not None:
                self._authenticate(known)
        self._write(self._protocol.request(message, version))

    def receive_message(self, response: type[ResponseType], buffer: bytearray | None = None) -> ResponseType:
        """The decoded response to the oldest request in flight. Record batches in it are views (see `receive`)."""
        version, body = self._receive(buffer)
        return self._decoded(response, version, body)

    def receive(self, buffer: bytearray | None = None) -> memoryview:
        """The body of the response to the oldest request in flight.

        The body is in `buffer` if it fits, which the caller may reuse once it no longer needs the view; otherwise, and
        after a login, in separate memory. Raises ProtocolError for an invalid response, and closes the connection.
        """
        return self._receive(buffer)[1]

    def _receive(self, buffer: bytearray | None) -> tuple[int, memoryview]:
        """The version and the body of the next response."""
        invariant(self.in_flight, "nothing is in flight")
        if self._early:
            return self._early.popleft()
        return self._protocol.pending[0].version, self._receive_next(buffer)

    def _decoded(self, response: type[ResponseType], version: int, body: memoryview) -> ResponseType:
        try:
            return decode_message(response, version, body)[0]
        except ProtocolError:
            self.close()
            raise

    def _receive_next(self, buffer: bytearray | None) -> memoryview:
        deadline_ms = self._monotonic_ms() + self.request_timeout_ms
        try:
            prefix = bytearray(LENGTH_SIZE)
            self._read_into(memoryview(prefix), deadline_ms)
            length = self._protocol.response_length(prefix)
            if buffer is None or len(buffer) < length:
                buffer = bytearray(length)
            frame = memoryview(buffer)[:length]
            self._read_into(frame, deadline_ms)
            return self._protocol.response_body(frame)
        except BaseException:
            # also on KeyboardInterrupt: after half a response the connection cannot be used
            self.close()
            raise

    # --- the stream ---

    def _connected(self) -> Stream:
        if self._stream is None:
            raise kafka_error("NETWORK_EXCEPTION", f"the connection to {self} is closed")
        return self._stream

    def _lost(self, error: OSError) -> KafkaError:
        self.close()
        if isinstance(error, TimeoutError):
            return kafka_error("REQUEST_TIMED_OUT", f"{self} did not answer within {self.request_timeout_ms} ms")
        return kafka_error("NETWORK_EXCEPTION", f"lost the connection to {self}: {error}")

    def _write(self, parts: list[bytes]) -> None:
        stream = self._connected()
        try:
            for piece in gathered(parts, _JOIN_BYTES):
                stream.send(piece, self.request_timeout_ms)
        except OSError as error:
            raise self._lost(error) from error
        except BaseException:
            self.close()  # half a request is written
            raise

    def _read_into(self, target: memoryview, deadline_ms: int) -> None:
        """Fills `target`. Small reads come from a read-ahead buffer, so length and body take one system call."""
        stream = self._connected()
        filled = 0
        try:
            while filled < len(target):
                if self._read_ahead:
                    taken = self._read_ahead[: len(target) - filled]
                    target[filled : filled + len(taken)] = taken
                    self._read_ahead = self._read_ahead[len(taken) :]
                    filled += len(taken)
                    continue
                timeout_ms = max(deadline_ms - self._monotonic_ms(), 1)
                if len(target) - filled < _READ_AHEAD_BYTES:
                    self._read_ahead = stream.receive(_READ_AHEAD_BYTES, timeout_ms)
                    received = len(self._read_ahead)
                else:
                    received = stream.receive_into(target[filled:], timeout_ms)
                    filled += received
                if not received:
                    raise ConnectionResetError("the broker closed it")
        except OSError as error:
            raise self._lost(error) from error


def _known(login: Login | None) -> Credentials | BearerToken | None:
    """The credentials for a login now. Waits if a token must be fetched."""
    return login if login is None or isinstance(login, Credentials) else login.bearer()
