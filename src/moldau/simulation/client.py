"""A small Kafka client of the simulator: one connection, requests answered in order, a time limit on each.

It speaks every served version: which one, each connection draws anew, so that all of them are lived with.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from moldau.simulation.violation import ViolationError
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import RequestHeader, decode_response_header, encode_request_header

if TYPE_CHECKING:
    from moldau.simulation.network import End, SimulatedNetwork

Response = TypeVar("Response", bound=msgspec.Struct)

REQUEST_TIMEOUT_S = 10.0
LIMITED = "limited"
"""The only client id that has a quota."""
FIRST_VERSIONS: dict[ApiKey, int] = {
    ApiKey.METADATA: 4,  # below it, asking for a topic creates it
    ApiKey.OFFSET_FETCH: 2,
    ApiKey.CREATE_TOPICS: 4,
}


class UnansweredError(Exception):
    """The connection went away, or the answer did not come in time: whether the request was done is unknown."""


class _Versions(dict[ApiKey, int]):
    """The version of each API that a connection uses, drawn when it is first used."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def __missing__(self, key: ApiKey) -> int:
        row = API_VERSIONS[key]
        drawn = self._random.randint(max(FIRST_VERSIONS.get(key, 0), row.min_version), row.max_version)
        self[key] = drawn
        return drawn


class BrokerClient(asyncio.Protocol):
    """One connection to the broker. After an UnansweredError it is closed: open another."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.versions = _Versions(random)
        self.end: End
        self.is_open = False
        self._next_correlation_id = random.randrange(1 << 20)
        self._received = bytearray()
        self._waiting: deque[_Question] = deque()

    @classmethod
    async def open(cls, network: SimulatedNetwork, name: str, port: int, random: Random) -> BrokerClient:
        """Connects. Raises UnansweredError if nobody listens."""
        client = cls(name, random)
        try:
            client.end = await network.connect(name, port, client)
        except ConnectionRefusedError as error:
            raise UnansweredError(str(error)) from error
        client.is_open = True
        return client

    def version_of(self, api_key: ApiKey) -> int:
        return self.versions[api_key]

    def send(
        self, api_key: ApiKey, request: msgspec.Struct, note: Callable[[msgspec.Struct], None] | None = None
    ) -> asyncio.Future[msgspec.Struct]:
        """Sends at once; the future gives the response, or raises UnansweredError if the connection ends before.

        `note` gets the response at the instant at which it arrives: what it promises counts from then on.
        """
        if not self.is_open:
            raise UnansweredError("not connected")
        version = self.versions[api_key]
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        header = encode_request_header(RequestHeader(api_key, version, correlation_id, self.name))
        answer: asyncio.Future[msgspec.Struct] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Question(correlation_id, api_key, version, answer, note))
        self.end.write(frame(header, encode_message(request, version)))
        return answer

    def send_unanswered(self, api_key: ApiKey, request: msgspec.Struct) -> None:
        """Sends what the broker does not answer (acks=0)."""
        if not self.is_open:
            raise UnansweredError("not connected")
        version = self.versions[api_key]
        header = encode_request_header(RequestHeader(api_key, version, self._next_correlation_id, self.name))
        self._next_correlation_id = (self._next_correlation_id + 1) & 0x7FFFFFFF
        self.end.write(frame(header, encode_message(request, version)))

    async def request(
        self,
        api_key: ApiKey,
        request: msgspec.Struct,
        response_type: type[Response],
        *,
        note: Callable[[Response], None] | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Response:
        """Sends and waits. Raises UnansweredError, and closes the connection, as clients do after a timeout."""
        answer = self.send(api_key, request, cast("Callable[[msgspec.Struct], None] | None", note))
        return cast(Response, await self.answer_in_time(answer, timeout_s))

    async def answer_in_time(
        self, answer: asyncio.Future[msgspec.Struct], timeout_s: float = REQUEST_TIMEOUT_S
    ) -> msgspec.Struct:
        """Waits for what `send` gave. Raises as `request`."""
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError as error:
            self.close()
            raise UnansweredError(f"no answer in {timeout_s} s") from error

    def close(self) -> None:
        self.is_open = False
        if not self.end.is_closing():
            self.end.abort()

    # -- callbacks of the transport

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= 4:
            end = 4 + int.from_bytes(received[:4], "big")
            if len(received) < end:
                return
            body = bytes(received[4:end])
            del received[:end]
            self._response_received(body)

    def _response_received(self, body: bytes) -> None:
        if not self._waiting:
            raise ViolationError("responses in order", f"{self.name} got a response that it did not ask for")
        question = self._waiting.popleft()
        api_key, version = question.api_key, question.version
        correlation_id, position = decode_response_header(body, response_header_version(api_key, version))
        if correlation_id != question.correlation_id:
            raise ViolationError(
                "responses in order",
                f"{self.name} got correlation id {correlation_id}, asked {question.correlation_id} ({api_key.name})",
            )
        response, position = decode_message(API_VERSIONS[api_key].response, version, body, position)
        if position != len(body):
            raise ViolationError(
                "well-formed responses", f"{api_key.name} v{version}: {len(body) - position} bytes left"
            )
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms and self.name != LIMITED:
            raise ViolationError("only who passes a quota waits", f"{self.name}: {api_key.name} waits {throttle_ms} ms")
        if question.answer.done():
            return
        if question.note is not None:
            question.note(response)
        question.answer.set_result(response)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        waiting, self._waiting = self._waiting, deque()
        for question in waiting:
            if not question.answer.done():
                question.answer.set_exception(UnansweredError(f"connection lost: {exc}"))
                question.answer.exception()  # that nobody waits for it any more is no complaint


class _Question(msgspec.Struct):
    correlation_id: int
    api_key: ApiKey
    version: int
    answer: asyncio.Future[msgspec.Struct]
    note: Callable[[msgspec.Struct], None] | None
