"""Moldau's own client over the simulated network, with a time limit for each request.

Each connection draws the version of each API, to cover every served version.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from moldau.client.async_driver import AsyncConnection
from moldau.client.protocol.connection import ClientProtocol, PendingRequest
from moldau.errors import ProtocolError
from moldau.simulation.violation import ViolationError
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.schema import Request

if TYPE_CHECKING:
    from moldau.simulation.network import SimulatedNetwork

Response = TypeVar("Response", bound=msgspec.Struct)

REQUEST_TIMEOUT_S = 10.0
PORT = 9092
"""The port of every broker."""
LIMITED = "limited"
"""The only client id that has a quota."""
FIRST_VERSIONS: dict[ApiKey, int] = {
    ApiKey.METADATA: 4,  # below this version, a request for a topic creates it
    ApiKey.OFFSET_FETCH: 2,
    ApiKey.CREATE_TOPICS: 4,
}


class UnansweredError(Exception):
    """The connection ended, or the response did not come in time. The outcome of the request is unknown."""


class Client(Protocol):
    """The interface through which a simulated client sends requests; see AsyncConnection."""

    @property
    def is_open(self) -> bool: ...
    @property
    def versions(self) -> dict[ApiKey, int]: ...
    @property
    def answering(self) -> BrokerClient | None:
        """The connection with the latest response."""

    def version_of(self, key: ApiKey) -> int: ...
    def send(self, message: Request[Response], note: Callable[[Response], None]) -> asyncio.Future[Response]: ...
    async def request(
        self,
        message: Request[Response],
        *,
        note: Callable[[Response], None] | None = None,
        timeout_s: float | None = None,
    ) -> Response: ...
    async def answer_in_time(self, answer: asyncio.Future[Response]) -> Response: ...
    def close(self) -> None: ...


class Versions(dict[ApiKey, int]):
    """The version of each API on a connection, drawn on first use."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    def __missing__(self, key: ApiKey) -> int:
        row = API_VERSIONS[key]
        drawn = self._random.randint(max(FIRST_VERSIONS.get(key, 0), row.min_version), row.max_version)
        self[key] = drawn
        return drawn


class BrokerClient(AsyncConnection):
    """One connection to the broker. It is closed after an UnansweredError: open another."""

    def __init__(self, name: str, host: str, random: Random, versions: dict[ApiKey, int] | None = None) -> None:
        """Connects host `name` to the broker on `host`. `versions`: shared by several connections."""
        self.name = name
        self.host = host
        self.versions = Versions(random) if versions is None else versions
        super().__init__(
            ClientProtocol("the broker", client_id=name, first_correlation_id=random.randrange(1 << 20)),
            version_of=self.versions.__getitem__,
            decode=self._decoded,
            lost=UnansweredError,
            request_timeout_s=REQUEST_TIMEOUT_S,
        )

    @classmethod
    async def open(
        cls,
        network: SimulatedNetwork,
        name: str,
        host: str,
        random: Random,
        versions: dict[ApiKey, int] | None = None,
    ) -> BrokerClient:
        """Connects host `name` to the broker on `host`. Raises UnansweredError if the broker does not listen, or the
        link is cut."""
        client = cls(name, host, random, versions)
        try:
            await network.connect(name, host, PORT, client)
        except (ConnectionRefusedError, TimeoutError) as error:
            raise UnansweredError(str(error)) from error
        return client

    @property
    def answering(self) -> BrokerClient:
        return self

    def pause_reading(self) -> None:
        """Makes later data from the broker wait."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            super().buffer_updated(nbytes)
        except ProtocolError as error:
            raise ViolationError("responses in order", f"{self.name}: {error}") from error

    def _decoded(self, pending: PendingRequest, body: memoryview) -> msgspec.Struct:
        api_key, version = pending.api_key, pending.version
        response, position = decode_message(API_VERSIONS[api_key].response, version, bytes(body))
        if position != len(body):
            raise ViolationError(
                "well-formed responses", f"{api_key.name} v{version}: {len(body) - position} bytes left"
            )
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms and self.name != LIMITED:
            raise ViolationError("only who passes a quota waits", f"{self.name}: {api_key.name} waits {throttle_ms} ms")
        return response
