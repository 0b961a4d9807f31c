"""One blocking connection to one broker, Moldau's or Apache Kafka's (2.8 and later, by negotiated versions).

For columns and Spark tasks, which fetch megabytes at a time in a thread or process of their own and want no object per
record. Requests may be pipelined: `send` several, `receive` in the same order, as Kafka answers. Not thread-safe.

Every failure of the connection, also a timeout, is a KafkaError (NETWORK_EXCEPTION or REQUEST_TIMED_OUT, both
retriable) and leaves the connection closed: what was in flight is unknown to the caller.
"""

from __future__ import annotations

import socket
import time
from collections import deque
from types import TracebackType
from typing import TypeVar

import msgspec

from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, invariant, kafka_error
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_into
from moldau.wire.protocol.framing import LENGTH_SIZE, decode_frame_length, frame_length
from moldau.wire.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CONNECT_TIMEOUT_MS = 10_000
REQUEST_TIMEOUT_MS = 30_000
MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""A fetch of one batch may pass its own limits (the first batch comes whole), so this is far above them."""

MAX_IN_FLIGHT = 64
SOFTWARE_NAME = "moldau"
_API_VERSIONS_VERSION = 3
_UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]
_MAX_CORRELATION_ID = 0x7FFFFFFF
_READ_AHEAD_BYTES = 64 * 1024
# parts up to this size are joined before they are written; larger ones (record batches) are not copied
_JOIN_BYTES = 16 * 1024

ResponseType = TypeVar("ResponseType", bound=msgspec.Struct)


class UnknownHostError(KafkaError):
    """The host's name has no address. Retriable: a name that was known may be gone while its machine starts again."""

    code = 13
    name = "NETWORK_EXCEPTION"
    is_retriable = True


class PendingRequest(msgspec.Struct, frozen=True):
    """A request whose answer is still to be received."""

    correlation_id: int
    api_key: ApiKey
    version: int


class ClientConnection:
    """A connection that has negotiated versions; open from construction on. Raises KafkaError as the module says."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = SOFTWARE_NAME,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.host = host
        self.port = port
        # telling the versions is a part of connecting: who accepts and then says nothing is not waited for longer
        self.request_timeout_ms = connect_timeout_ms
        self._client_id = client_id
        self._max_response_bytes = max_response_bytes
        self._next_correlation_id = 0
        self._pending: deque[PendingRequest] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self._read_ahead = b""
        self._socket: socket.socket | None = self._open(connect_timeout_ms)
        try:
            self._negotiate()
        except BaseException:
            self.close()
            raise
        self.request_timeout_ms = request_timeout_ms

    # --- opening and closing ---

    def _open(self, connect_timeout_ms: int) -> socket.socket:
        try:
            opened = socket.create_connection((self.host, self.port), timeout=connect_timeout_ms / 1000)
        except (socket.gaierror, UnicodeError) as error:
            # UnicodeError: a name that cannot be one, such as `a..b`
            if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
                reason = f"the name service did not answer for the host {self.host!r}"
                raise kafka_error("NETWORK_EXCEPTION", f"cannot reach {self}: {reason}") from error
            raise UnknownHostError(f"cannot reach {self}: there is no host {self.host!r}") from error
        except ConnectionRefusedError as error:
            reason = "connection refused, nothing listens there"
            raise kafka_error("NETWORK_EXCEPTION", f"cannot reach {self}: {reason}") from error
        except TimeoutError as error:
            reason = f"no answer within {connect_timeout_ms} ms"
            raise kafka_error("NETWORK_EXCEPTION", f"cannot reach {self}: {reason}") from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise kafka_error("NETWORK_EXCEPTION", f"cannot reach {self}: {reason}") from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1")
        self.send(ApiKey.API_VERSIONS, request, _API_VERSIONS_VERSION)
        body = self.receive()
        if len(body) >= 2 and int.from_bytes(body[:2], "big") == _UNSUPPORTED_VERSION:
            # KIP-511: a broker that does not know this version answers in v0
            self.send(ApiKey.API_VERSIONS, ApiVersionsRequest(), 0)
            response, _ = decode_message(ApiVersionsResponse, 0, self.receive())
        else:
            response, _ = decode_message(ApiVersionsResponse, _API_VERSIONS_VERSION, body)
        if response.error_code:
            raise kafka_error(response.error_code, f"{self} refused ApiVersions")
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered yet."""
        return len(self._pending)

    def close(self) -> None:
        """Silent if closed; answers in flight are lost."""
        opened, self._socket = self._socket, None
        self._pending.clear()
        self._read_ahead = b""
        if opened is not None:
            opened.close()

    def __enter__(self) -> ClientConnection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    # --- requests ---

    def version_of(self, api_key: ApiKey, *, max_version: int | None = None) -> int:
        """The highest version that both sides know, and that is not above `max_version`.

        Raises UNSUPPORTED_VERSION where there is none.
        """
        ours = API_VERSIONS[api_key]
        lowest, highest = self._versions.get(api_key, (0, -1))
        version = min(ours.max_version, highest)
        if max_version is not None:
            version = min(version, max_version)
        if version < max(ours.min_version, lowest):
            raise kafka_error(
                "UNSUPPORTED_VERSION", f"{self} serves no version of {api_key.name} that this client knows"
            )
        return version

    def request(
        self, api_key: ApiKey, message: msgspec.Struct, response: type[ResponseType], *, max_version: int | None = None
    ) -> ResponseType:
        """Sends one request and waits for its answer; nothing else may be in flight."""
        invariant(not self._pending, "request() while others are in flight")
        version = self.version_of(api_key, max_version=max_version)
        self.send(api_key, message, version)
        return self.receive_message(response)

    def send(self, api_key: ApiKey, message: msgspec.Struct, version: int) -> None:
        """Writes one request; its answer comes from `receive`, in turn. Blocks while the socket is full."""
        invariant(len(self._pending) < MAX_IN_FLIGHT, f"more than {MAX_IN_FLIGHT} requests in flight")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        parts = [encode_request_header(RequestHeader(api_key, version, correlation_id, self._client_id))]
        encode_into(message, version, parts)
        self._write([frame_length(*parts), *parts])
        self._pending.append(PendingRequest(correlation_id, api_key, version))

    def receive_message(self, response: type[ResponseType], buffer: bytearray | None = None) -> ResponseType:
        """The answer to the oldest request in flight, decoded; record batches in it are views (see `receive`)."""
        invariant(self._pending, "nothing is in flight")
        version = self._pending[0].version
        body = self.receive(buffer)
        try:
            message, _ = decode_message(response, version, body)
        except ProtocolError:
            self.close()
            raise
        return message

    def receive(self, buffer: bytearray | None = None) -> memoryview:
        """The body of the answer to the oldest request in flight.

        It lies in `buffer` if it fits there (the caller may use that again once it is done with the view), else in
        memory of its own. Raises ProtocolError for an answer that is none, with the connection closed.
        """
        invariant(self._pending, "nothing is in flight")
        deadline = time.monotonic() + self.request_timeout_ms / 1000
        try:
            length_bytes = bytearray(LENGTH_SIZE)
            self._read_into(memoryview(length_bytes), deadline)
            try:
                length = decode_frame_length(length_bytes, max_bytes=self._max_response_bytes)
            except ProtocolError as error:
                raise ProtocolError(f"{self}: {error}") from error
            if buffer is None or len(buffer) < length:
                buffer = bytearray(length)
            frame = memoryview(buffer)[:length]
            self._read_into(frame, deadline)
            pending = self._pending.popleft()
            header_version = response_header_version(pending.api_key, pending.version)
            correlation_id, position = decode_response_header(frame, header_version)
            if correlation_id != pending.correlation_id:
                raise ProtocolError(
                    f"{self} answered request {correlation_id}, but request {pending.correlation_id} was next"
                )
        except BaseException:
            # also a KeyboardInterrupt: half an answer is read, nothing can follow it
            self.close()
            raise
        return frame[position:]

    # --- the socket ---

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise kafka_error("NETWORK_EXCEPTION", f"the connection to {self} is closed")
        return self._socket

    def _lost(self, error: OSError) -> KafkaError:
        self.close()
        if isinstance(error, TimeoutError):
            return kafka_error("REQUEST_TIMED_OUT", f"{self} did not answer within {self.request_timeout_ms} ms")
        return kafka_error("NETWORK_EXCEPTION", f"lost the connection to {self}: {error}")

    def _write(self, parts: list[bytes]) -> None:
        opened = self._connected()
        opened.settimeout(self.request_timeout_ms / 1000)
        try:
            small: list[bytes] = []
            for part in parts:
                if len(part) <= _JOIN_BYTES:
                    small.append(part)
                    continue
                if small:
                    opened.sendall(b"".join(small))
                    small = []
                opened.sendall(part)
            if small:
                opened.sendall(b"".join(small))
        except OSError as error:
            raise self._lost(error) from error
        except BaseException:
            self.close()  # half a request is written
            raise

    def _read_into(self, target: memoryview, deadline: float) -> None:
        """Fills `target`. Small reads come from a read-ahead, so that length and body cost one call to the system."""
        opened = self._connected()
        filled = 0
        try:
            while filled < len(target):
                if self._read_ahead:
                    taken = self._read_ahead[: len(target) - filled]
                    target[filled : filled + len(taken)] = taken
                    self._read_ahead = self._read_ahead[len(taken) :]
                    filled += len(taken)
                    continue
                opened.settimeout(max(deadline - time.monotonic(), 0.001))
                if len(target) - filled < _READ_AHEAD_BYTES:
                    self._read_ahead = opened.recv(_READ_AHEAD_BYTES)
                    received = len(self._read_ahead)
                else:
                    received = opened.recv_into(target[filled:])
                    filled += received
                if not received:
                    raise ConnectionResetError("the broker closed it")
        except OSError as error:
            raise self._lost(error) from error
