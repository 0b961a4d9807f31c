"""Another node of the cluster, over one connection, which is made on demand and made again after it ends.

A node answers the requests of a connection in order, so a delayed answer (a Fetch) delays the answers after it. A
caller that must not wait for such a request uses a separate `Peer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from moldau.client.async_driver import AsyncConnection
from moldau.client.protocol.connection import ClientProtocol, PendingRequest
from moldau.client.protocol.sasl import log_in_again_after_ms
from moldau.core.metadata.image import BrokerListener
from moldau.errors import KafkaError, MoldauError, ProtocolError
from moldau.shell.peers.outages import Outage, reason
from moldau.transport.network import Network
from moldau.wire.protocol.api_keys import ApiKey, declared_api
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.schema import Request

MAX_IN_FLIGHT = 32
"""Requests that may wait for an answer; further ones wait before they are sent."""

FIRST_BACKOFF_MS = 50
MAX_BACKOFF_MS = 500
"""The longest pause between two connection tries, which doubles each time; as in Kafka's quorum."""

FIRST_TRY_S = 1.5
SHORT_TRIES = 4
MAX_DOUBLINGS = 2
MAX_TRY_S = FIRST_TRY_S * 2**MAX_DOUBLINGS
"""How long one try may take. The first SHORT_TRIES that time out are short: the system resends 1, 3 and 7 s after its
first packet, and a new try sooner reaches a network that has recovered. Each further try may take twice as long as the
one before, because the peer may be busy."""
CLIENT_ID = "moldau-node"
"""The client id of nodes at each other."""

_GIVEN_UP = "the peer is not waited for any more"
_VERSIONS_VERSION = 3
"""The version of the first ApiVersions: every possible peer supports it."""

Response = TypeVar("Response", bound=msgspec.Struct)


class NoAnswerError(MoldauError):
    """The peer cannot be reached, its connection was lost, or its answer did not come in time. Whether it executed the
    request is unknown."""


class NobodyListensError(NoAnswerError):
    """The peer's machine refuses the connection: the process is gone, or does not listen yet."""


class Peer:
    """The node at `address`. Used on one loop.

    `on_lost` is called when the other side has ended a connection in use: the peer may have died. `outage` is notified
    when the peer is unreachable; with `is_prompt`, also when a request gets no answer, because none of its requests
    waits long there.
    """

    def __init__(
        self,
        address: BrokerListener,
        network: Network,
        on_lost: Callable[[], None] = lambda: None,
        *,
        outage: Outage | None = None,
        is_prompt: bool = False,
    ) -> None:
        self._address = address
        self._network = network
        self._on_lost = on_lost
        self._outage = outage
        self._prompt = outage if is_prompt else None
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._connecting = asyncio.Lock()
        self._try: asyncio.Timeout | None = None
        """The connection try in progress, if any."""
        self._connection: _PeerConnection | None = None
        self._backoff_ms = 0
        self._long_tries = 0
        """Tries that took too long since the peer was last connected."""
        self._next_try_s = 0.0
        self._is_closed = False
        self.features: tuple[str, ...] = ()
        """The finalized features that the peer reported at its last connection."""

    @property
    def address(self) -> BrokerListener:
        return self._address

    def move_to(self, address: BrokerListener) -> None:
        """The peer listens at `address` from now on; if that is another one, requests in progress fail."""
        if address != self._address:
            self._address = address
            self.begin_anew()

    def begin_anew(self) -> None:
        """The peer is now another process: requests in progress fail. A machine that lost power does not end its
        connections, so without this call such a request would wait for its whole time-out."""
        self._backoff_ms, self._next_try_s = 0, 0.0
        self.rest()

    async def request(self, message: Request[Response], timeout_ms: int) -> Response:
        """Sends `message` and waits for the answer, at most `timeout_ms` in total. Raises NoAnswerError only.

        A caller that times out or is cancelled ends the connection, because no answer can arrive before the missing
        one. Other requests in progress fail with it.
        """
        connection = self._connection
        if self._prompt is not None:
            self._prompt.asked(self._address)
        if (
            connection is not None
            and not self._connecting.locked()
            and not self._in_flight.locked()
            and not self._must_log_in_again(connection)
        ):
            answer = await self._answer_at_once(connection, message, timeout_ms)
        else:
            # in a task: the first step of a handler runs outside any task, and a time-out needs one
            answer = await asyncio.get_running_loop().create_task(self._answer(message, timeout_ms))
        if self._prompt is not None:
            self._prompt.answered()
        return answer

    async def _answer_at_once(
        self, connection: _PeerConnection, message: Request[Response], timeout_ms: int
    ) -> Response:
        """As `_answer`, if the request can be sent without waiting: a task and its turns of the loop would be a large
        part of the cost of a request."""
        await self._in_flight.acquire()
        expiry: asyncio.TimerHandle | None = None
        try:
            answer = connection.send(message)
            expiry = asyncio.get_running_loop().call_later(timeout_ms / 1_000, _expire, answer)
            return await answer
        except (TimeoutError, asyncio.CancelledError, KafkaError, ProtocolError) as error:
            self._give_up(connection, error, timeout_ms)
            raise
        finally:
            if expiry is not None:
                expiry.cancel()
            self._in_flight.release()

    async def _answer(self, message: Request[Response], timeout_ms: int) -> Response:
        connection: _PeerConnection | None = None
        try:
            async with asyncio.timeout(timeout_ms / 1_000), self._in_flight:
                connection = await self._connected()
                return await connection.send(message)
        except (TimeoutError, asyncio.CancelledError, KafkaError, ProtocolError) as error:
            self._give_up(connection, error, timeout_ms)
            raise

    def _give_up(self, connection: _PeerConnection | None, error: BaseException, timeout_ms: int) -> None:
        """Ends a request without an answer, and its connection. Raises NoAnswerError, unless the caller was
        cancelled."""
        if isinstance(error, TimeoutError | asyncio.CancelledError):
            self._drop(connection)
        if isinstance(error, TimeoutError):
            if self._prompt is not None:
                self._prompt.failed(f"no answer in {timeout_ms} ms", asyncio.get_running_loop().time())
            raise NoAnswerError(f"{self._name()}: no answer in {timeout_ms} ms") from error
        if isinstance(error, KafkaError | ProtocolError):  # it supports no version of this API that we know
            raise NoAnswerError(f"{self._name()}: {error}") from error

    def rest(self) -> None:
        """The peer gets no requests for now: those in progress fail, including those that wait for a connection."""
        under_way, self._try = self._try, None
        if under_way is not None and not under_way.expired():  # an expired one ends its try by itself
            under_way.reschedule(0.0)
        if self._outage is not None:
            self._outage.rest()
        self._drop(self._connection)

    def close(self) -> None:
        """Requests in progress and all later ones fail."""
        self._is_closed = True
        self.rest()

    async def _connected(self) -> _PeerConnection:
        """The connection; made again if there is none."""
        async with self._connecting:
            if self._is_closed:
                raise NoAnswerError(f"{self._name()}: this node asks nothing any more")
            if self._connection is None:
                await asyncio.sleep(self._next_try_s - asyncio.get_running_loop().time())
                self._connection = await self._connect()
            elif self._must_log_in_again(self._connection):
                await self._log_in(self._connection, self._address)
            return self._connection

    def _must_log_in_again(self, connection: _PeerConnection) -> bool:
        due_s = connection.log_in_again_s
        return due_s is not None and asyncio.get_running_loop().time() >= due_s

    async def _log_in(self, connection: _PeerConnection, address: BrokerListener) -> None:
        """Logs in if the peer's listener requires it. Raises KafkaError, NoAnswerError."""
        login = self._network.login_at(address.name)
        if login is None:
            return
        connection.log_in_again_s, connection.is_logging_in = None, True
        began_s = asyncio.get_running_loop().time()
        lifetime_ms = await connection.authenticate(*login)
        connection.is_logging_in = False
        if lifetime_ms:
            connection.log_in_again_s = began_s + log_in_again_after_ms(lifetime_ms) / 1_000

    async def _connect(self) -> _PeerConnection:
        is_open, address, why = False, self._address, _GIVEN_UP
        loop = asyncio.get_running_loop()  # no loop runs if this coroutine is dropped before its end
        if self._outage is not None:
            self._outage.asked(address)
        doublings = max(0, self._long_tries - SHORT_TRIES + 1)
        try_s = MAX_TRY_S if doublings >= MAX_DOUBLINGS else FIRST_TRY_S * 2**doublings
        connection = _PeerConnection(ClientProtocol(self._name(), client_id=CLIENT_ID), self._lost)
        try:
            async with asyncio.timeout(try_s) as this_try:
                self._try = this_try
                tls = self._network.client_tls(address.name)
                await self._network.connect(address.host, address.port, connection, tls)
                served = await connection.request(
                    ApiVersionsRequest(client_software_name="moldau", client_software_version="1")
                )
                await self._log_in(connection, address)
            self.features = tuple(row.name for row in served.finalized_features)
            is_open = self._try is this_try
        except ConnectionRefusedError as error:
            why = reason(error)
            raise NobodyListensError(f"{self._name()}: {why}") from error
        except (OSError, ValueError) as error:
            late = "no answer to the login" if connection.is_logging_in else "no connection"
            why = _GIVEN_UP if self._try is None else reason(error) or f"{late} in {try_s} s"
            raise NoAnswerError(f"{self._name()}: {why}") from error
        except (NoAnswerError, KafkaError, ProtocolError) as error:
            why = str(error)
            raise
        finally:
            self._note_try(this_try, loop.time(), is_open=is_open, why=why)
            self._try = None
            if not is_open:
                connection.end()
        if not is_open:
            raise NoAnswerError(f"{self._name()}: {_GIVEN_UP}")
        return connection

    def _note_try(self, this_try: asyncio.Timeout, now_s: float, *, is_open: bool, why: str) -> None:
        if self._outage is not None:
            self._outage.answered() if is_open else self._outage.failed(why, now_s)
        if is_open:
            self._long_tries = 0
        elif this_try.expired() and self._try is this_try:
            self._long_tries += 1
        self._backoff_ms = 0 if is_open else min(max(FIRST_BACKOFF_MS, 2 * self._backoff_ms), MAX_BACKOFF_MS)
        self._next_try_s = now_s + self._backoff_ms / 1_000

    def _lost(self, connection: _PeerConnection) -> None:
        if connection is self._connection:
            self._connection = None
            self._on_lost()

    def _drop(self, connection: _PeerConnection | None) -> None:
        """This side ends `connection`, so the end says nothing about the peer."""
        if connection is None:
            return
        if connection is self._connection:
            self._connection = None
        connection.end()

    def _name(self) -> str:
        return f"{self._address.host}:{self._address.port}"


def _expire(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


class _PeerConnection(AsyncConnection):
    """Uses the highest versions that both sides know, after the answer to ApiVersions. `on_end` is called once the
    connection has ended, for any reason."""

    def __init__(self, protocol: ClientProtocol, on_end: Callable[[_PeerConnection], None]) -> None:
        super().__init__(
            protocol,
            version_of=self._version_of,
            decode=self._decoded,
            lost=NoAnswerError,
            request_timeout_s=MAX_TRY_S,
        )
        self._on_end = on_end
        self.log_in_again_s: float | None = None
        """On the loop's clock, shortly before the session ends. None: the session does not end."""
        self.is_logging_in = False
        """A node may delay its rejection."""
        self._knows_versions = False

    def end(self) -> None:
        """Closes the connection, if it was opened."""
        if self.is_open:
            self.close()

    def _version_of(self, api_key: ApiKey) -> int:
        is_handshake = api_key is ApiKey.API_VERSIONS and not self._knows_versions
        return _VERSIONS_VERSION if is_handshake else self._protocol.version_of(api_key)

    def _decoded(self, pending: PendingRequest, body: memoryview) -> msgspec.Struct:
        if pending.api_key is ApiKey.API_VERSIONS and self._protocol.take_versions(body) is not None:
            raise ProtocolError(f"version {_VERSIONS_VERSION} of ApiVersions is not known there")
        self._knows_versions = True
        return decode_message(declared_api(pending.api_key).response, pending.version, body)[0]

    def buffer_updated(self, nbytes: int) -> None:
        try:
            super().buffer_updated(nbytes)
        except (KafkaError, ProtocolError) as error:
            self.close()
            self.connection_lost(error)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_end(self)
