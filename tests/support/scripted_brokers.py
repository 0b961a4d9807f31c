"""Brokers that answer a blocking client by a test's script, without sockets and in their own time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from moldau.errors import kafka_error
from moldau.types import Buffer
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, declared_api, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.framing import LENGTH_SIZE, frame
from moldau.wire.protocol.headers import decode_request_header, encode_response_header
from moldau.wire.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

Script = Callable[[Any], msgspec.Struct]
"""The answer of one broker to one request."""


class ScriptedBrokers:
    """A Dialer: `scripts` by address. A pause passes at once and counts; an address without a script does not
    listen."""

    def __init__(self, scripts: dict[tuple[str, int], Script]) -> None:
        self.scripts = scripts
        self.now_ms = 0
        self.dialled: list[tuple[str, int]] = []

    def dial(self, host: str, port: int, timeout_ms: int) -> _ScriptedStream:
        self.dialled.append((host, port))
        script = self.scripts.get((host, port))
        if script is None:
            raise kafka_error("NETWORK_EXCEPTION", f"cannot reach {host}:{port}: nobody listens")
        return _ScriptedStream(script)

    def monotonic_ms(self) -> int:
        return self.now_ms

    def pause(self, length_ms: int) -> None:
        self.now_ms += length_ms

    def random_bytes(self, count: int) -> bytes:
        return bytes(count)


class _ScriptedStream:
    def __init__(self, script: Script) -> None:
        self._script = script
        self._received = bytearray()
        self._answers = bytearray()

    def send(self, data: Buffer, timeout_ms: int) -> None:
        self._received += data
        while len(self._received) >= LENGTH_SIZE:
            end = LENGTH_SIZE + int.from_bytes(self._received[:LENGTH_SIZE], "big")
            if len(self._received) < end:
                return
            self._answer(bytes(self._received[LENGTH_SIZE:end]))
            del self._received[:end]

    def _answer(self, body: bytes) -> None:
        header, position = decode_request_header(body)
        key, version = header.api_key, header.api_version
        response: msgspec.Struct
        if key == ApiKey.API_VERSIONS:
            rows = tuple(ApiVersion(key, row.min_version, row.max_version) for key, row in API_VERSIONS.items())
            response = ApiVersionsResponse(api_keys=rows)
        else:
            response = self._script(decode_message(declared_api(key).request, version, body, position)[0])
        response_header = encode_response_header(header.correlation_id, response_header_version(key, version))
        self._answers += frame(response_header, encode_message(response, version))

    def receive(self, max_bytes: int, timeout_ms: int) -> bytes:
        taken = bytes(self._answers[:max_bytes])
        del self._answers[:max_bytes]
        return taken

    def receive_into(self, target: memoryview, timeout_ms: int) -> int:
        taken = self.receive(len(target), timeout_ms)
        target[: len(taken)] = taken
        return len(taken)

    def has_ended(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing to close."""
