"""A node that answers requests as a test wants, over any network."""

from __future__ import annotations

import asyncio

import msgspec

from moldau.wire.protocol.api_keys import ApiKey, response_header_version
from moldau.wire.protocol.codec import encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import decode_request_header, encode_response_header
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from moldau.wire.protocol.messages.metadata import MetadataResponse


class AnsweringNode:
    """It serves Metadata up to version 9. `is_mute`: it reads requests and answers none."""

    def __init__(self) -> None:
        self.connections: list[AnsweringConnection] = []
        self.requests: list[tuple[ApiKey, int]] = []
        self.is_mute = False

    def accept(self) -> AnsweringConnection:
        self.connections.append(AnsweringConnection(self))
        return self.connections[-1]

    def answer(self, api_key: int, version: int) -> msgspec.Struct | None:
        if api_key == ApiKey.API_VERSIONS:
            return ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.METADATA, 0, 9),))
        self.requests.append((ApiKey(api_key), version))
        return None if self.is_mute else MetadataResponse(cluster_id="the other one")


class AnsweringConnection(asyncio.Protocol):
    """One connection to it."""

    def __init__(self, node: AnsweringNode) -> None:
        self.is_lost = False
        self.transport: asyncio.Transport
        self._node = node
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= 4 and len(received) >= 4 + int.from_bytes(received[:4], "big"):
            end = 4 + int.from_bytes(received[:4], "big")
            header, _ = decode_request_header(memoryview(bytes(received[4:end])))
            del received[:end]
            answer = self._node.answer(header.api_key, header.api_version)
            if answer is not None:
                version = response_header_version(header.api_key, header.api_version)
                head = encode_response_header(header.correlation_id, version)
                self.transport.write(frame(head, encode_message(answer, header.api_version)))
