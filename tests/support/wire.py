"""A socket that sends exactly the given bytes, and a broker's responses to them."""

from __future__ import annotations

import itertools
import os
import socket
import struct
from typing import Any

from moldau.client.protocol.sasl import NONCE_BYTES, Credentials, authenticating, go_on
from moldau.wire.protocol.api_keys import API_VERSIONS, CONTROLLER_API_VERSIONS, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.headers import RequestHeader, decode_response_header, encode_request_header
from moldau.wire.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

TIMEOUT_S = 60.0
"""Enough for a whole frame of 100 MiB on a busy machine: only a silent broker makes a test wait so long."""


class Closed(Exception):
    """The broker closed the connection without a response."""


class RawConnection:
    """One connection. `send` writes bytes as they are; `ask` sends a message and decodes the response."""

    def __init__(self, bootstrap_servers: str, source_address: str = "", kernel_buffer_bytes: int = 0) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.socket()
        self.socket.settimeout(TIMEOUT_S)
        if kernel_buffer_bytes:
            # the buffers of both kernels: the sender's grows with the size of a segment, 64 KiB on loopback
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1_400)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, kernel_buffer_bytes)
        self.socket.bind((source_address, 0))
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Closed from error

    def send_frame(self, payload: bytes) -> None:
        self.send(struct.pack(">i", len(payload)) + payload)

    def receive_frame(self) -> bytes:
        """The next response without its length. Raises Closed at the end, TimeoutError if the broker is silent."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError as error:
                raise Closed from error
            if not part:
                raise Closed
            data += part
        return data

    def assert_closed(self) -> None:
        try:
            answer = self.receive_frame()
        except Closed:
            return
        raise AssertionError(f"the connection stays open and answers {answer[:80]!r}")

    def assert_alive(self) -> None:
        """The connection still answers a request."""
        from moldau.wire.protocol.messages.metadata import MetadataRequest

        assert self.ask(MetadataRequest(topics=()), 1).brokers

    def start(self, request: Any, version: int, **header: Any) -> int:
        """Sends a request and gives its correlation id."""
        correlation_id = header.pop("correlation_id", None) or next(self._correlation_ids)
        self.send_frame(request_bytes(request, version, correlation_id=correlation_id, **header))
        return correlation_id

    def finish(self, request: Any, version: int, correlation_id: int) -> Any:
        row = row_of(request)
        answer = self.receive_frame()
        seen, position = decode_response_header(answer, response_header_version(row[0], version))
        assert seen == correlation_id
        message, end = decode_message(row[1].response, version, answer, position)
        assert end == len(answer)
        return message

    def ask(self, request: Any, version: int, **header: Any) -> Any:
        return self.finish(request, version, self.start(request, version, **header))


def log_in(connection: RawConnection, credentials: Credentials) -> None:
    """By SASL. Raises KafkaError if the broker rejects it."""
    exchange = authenticating(credentials, os.urandom(NONCE_BYTES), "the broker")
    request = go_on(exchange)
    while not isinstance(request, int):
        version = {SaslHandshakeRequest: 1, SaslAuthenticateRequest: 2}[type(request)]
        request = go_on(exchange, connection.ask(request, version))


def row_of(request: Any):
    declared = {**API_VERSIONS, **CONTROLLER_API_VERSIONS}
    return next((key, row) for key, row in declared.items() if row.request is type(request))


def request_bytes(request: Any, version: int, *, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    """Header and body of a request, without the length before them."""
    header = RequestHeader(row_of(request)[0], version, correlation_id, client_id)
    return bytes(encode_request_header(header)) + bytes(encode_message(request, version))
