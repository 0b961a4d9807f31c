"""The state of one connection without its socket: frames, correlation ids, versions. A driver moves the bytes and
waits.

First call `versions_request`, then `take_versions` for each response until it returns no further request. After that,
call `request` any number of times, with up to MAX_IN_FLIGHT unanswered. For each response call `response_length` with
its first four bytes, then `response_body` with the frame. Kafka answers in the order of the requests.

A protocol error is final: the rest of the stream cannot be read.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from moldau.errors import ERROR_CODES, ProtocolError, invariant, kafka_error
from moldau.types import Buffer
from moldau.wire.protocol.api_keys import ApiKey, api_key_of, declared_api, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_into
from moldau.wire.protocol.framing import decode_frame_length, frame_length, stranger
from moldau.wire.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.protocol.schema import Request

MAX_RESPONSE_BYTES = 512 * 1024 * 1024
"""One batch may exceed the limits of a fetch, because the first batch is returned whole. So this is far above them."""

MAX_IN_FLIGHT = 64
SOFTWARE_NAME = "moldau"
_API_VERSIONS_VERSION = 3
_UNSUPPORTED_VERSION = ERROR_CODES["UNSUPPORTED_VERSION"]
_MAX_CORRELATION_ID = 0x7FFFFFFF


class PendingRequest(msgspec.Struct, frozen=True):
    """A request without a response so far."""

    correlation_id: int
    api_key: ApiKey
    version: int


class ClientProtocol:
    """The state of one connection. `peer` names the broker in errors, as host:port."""

    def __init__(self, peer: str, *, client_id: str = SOFTWARE_NAME, first_correlation_id: int = 0) -> None:
        self.peer = peer
        self.pending: deque[PendingRequest] = deque()
        self._client_id = client_id
        self._next_correlation_id = first_correlation_id
        self._versions: dict[int, tuple[int, int]] = {}
        self._asked_versions_in = _API_VERSIONS_VERSION

    # --- versions ---

    def versions_request(self) -> list[bytes]:
        """The first request of a connection."""
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version="1")
        return self.request(request, self._asked_versions_in)

    def take_versions(self, body: Buffer) -> list[bytes] | None:
        """Stores the broker's versions, or returns the request that an older broker understands.

        Raises KafkaError for an error response, and ProtocolError for an invalid one.
        """
        if self._asked_versions_in and len(body) >= 2 and int.from_bytes(body[:2], "big") == _UNSUPPORTED_VERSION:
            # KIP-511: a broker that does not know this version answers in v0
            self._asked_versions_in = 0
            return self.request(ApiVersionsRequest(), 0)
        response, _ = decode_message(ApiVersionsResponse, self._asked_versions_in, body)
        if response.error_code:
            raise kafka_error(response.error_code, f"{self.peer} refused ApiVersions")
        self._versions = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        return None

    def version_of(self, api_key: ApiKey, *, max_version: int | None = None) -> int:
        """The highest version that both sides know, at most `max_version`.

        Raises UNSUPPORTED_VERSION if there is none.
        """
        ours = declared_api(api_key)
        lowest, highest = self._versions.get(api_key, (0, -1))
        version = min(ours.max_version, highest)
        if max_version is not None:
            version = min(version, max_version)
        if version < max(ours.min_version, lowest):
            told = f"{self.peer} serves no version of {api_key.name} that this client knows"
            if api_key is ApiKey.METADATA and api_key not in self._versions:
                told += ": it is the listener of a controller, and clients need that of a broker"
            raise kafka_error("UNSUPPORTED_VERSION", told)
        return version

    # --- requests and answers ---

    def request(self, message: Request[Any], version: int, *, is_answered: bool = True) -> list[bytes]:
        """The parts of the frame to write. Expects a response from now on, except for a Produce with acks=0."""
        invariant(len(self.pending) < MAX_IN_FLIGHT, f"more than {MAX_IN_FLIGHT} requests in flight")
        api_key, correlation_id = api_key_of(message), self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _MAX_CORRELATION_ID
        parts = [encode_request_header(RequestHeader(api_key, version, correlation_id, self._client_id))]
        encode_into(message, version, parts)
        if is_answered:
            self.pending.append(PendingRequest(correlation_id, api_key, version))
        return [frame_length(*parts), *parts]

    def response_length(self, prefix: Buffer) -> int:
        """The number of bytes after the first four of a response. Raises ProtocolError if the bytes do not begin a
        response."""
        try:
            # a TLS alert would pass as a length of 352 MB
            who = None if self._versions else stranger(prefix)
            if who is not None:
                raise ProtocolError(who)
            return decode_frame_length(prefix, max_bytes=MAX_RESPONSE_BYTES)
        except ProtocolError as error:
            raise ProtocolError(f"{self.peer}: {error}") from error

    def oldest(self) -> PendingRequest:
        """The request that is answered next. Raises ProtocolError if none is pending."""
        if not self.pending:
            raise ProtocolError(f"{self.peer} sent an answer that nobody asked for")
        return self.pending[0]

    def response_body(self, frame: memoryview) -> memoryview:
        """The body of the response to the oldest request in flight, as a view of `frame` (without the length prefix).

        Raises ProtocolError for the response to another request, and if none is pending.
        """
        pending = self.pending.popleft()
        correlation_id, position = decode_response_header(
            frame, response_header_version(pending.api_key, pending.version)
        )
        if correlation_id != pending.correlation_id:
            raise ProtocolError(
                f"{self.peer} answered request {correlation_id}, but request {pending.correlation_id} was next"
            )
        return frame[position:]
