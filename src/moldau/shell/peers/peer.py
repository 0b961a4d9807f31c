"""Another node of the cluster, as this one speaks to it: one connection, made when it is needed, and made again.

A node answers the requests of a connection in their order, so that one which it holds back (a Fetch) holds back those
behind it: a caller that must not wait for such a request has a `Peer` of its own.
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
"""Requests that may wait for an answer; one more waits until it may be sent."""

FIRST_BACKOFF_MS = 50
MAX_BACKOFF_MS = 500
"""Between two tries to connect, doubling from the first to the longest; as in Kafka's quorum."""

FIRST_TRY_S = 1.5
SHORT_TRIES = 4
MAX_DOUBLINGS = 2
MAX_TRY_S = FIRST_TRY_S * 2**MAX_DOUBLINGS
"""How long one try may take: the first SHORT_TRIES that take too long end soon, for the system sends again 1, 3 and 7 s
after it has opened a connection in vain, and a new try reaches a network that was healed sooner. Each further one may
take twice as long as the one before: the peer may be busy."""
CLIENT_ID = "moldau-node"
"""As which nodes introduce themselves to each other."""

_GIVEN_UP = "the peer is not waited for any more"
_VERSIONS_VERSION = 3
"""Of the first ApiVersions: every node that can be a peer knows it."""

Response = TypeVar("Response", bound=msgspec.Struct)


class NoAnswerError(MoldauError):
    """The peer cannot be reached, its connection was lost, or its answer did not come in time: whether the request was
    done is unknown."""


class NobodyListensError(NoAnswerError):
    """The peer's machine refuses the connection: the process is gone, or does not serve yet."""


class Peer:
    """The node at `address`. Lives on one loop.

    `on_lost` is called when a connection that was in use has ended, and not by this side: the peer may have died.
    `outage` hears when it is not reached; `is_prompt`: also when a request has no answer, for none waits long there.
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
        """To connect, while one is under way."""
        self._connection: _PeerConnection | None = None
        self._backoff_ms = 0
        self._long_tries = 0
        """To connect, since the peer was connected last: those that took too long."""
        self._next_try_s = 0.0
        self._is_closed = False
        self.features: tuple[str, ...] = ()
        """The finalized features that the peer serves, as it said when it was reached last."""

    @property
    def address(self) -> BrokerListener:
        return self._address

    def move_to(self, address: BrokerListener) -> None:
        """The peer listens at `address` from now on: requests under way fail where that is another one."""
        if address != self._address:
            self._address = address
            self.begin_anew()

    def begin_anew(self) -> None:
        """The peer runs in another process by now: requests under way fail. A machine that lost its power ends no
        connection: without this call, a request on it would wait for its whole time-out."""
        self._backoff_ms, self._next_try_s = 0, 0.0
        self.rest()

    async def request(self, message: Request[Response], timeout_ms: int) -> Response:
        """Sends `message` and waits for the answer, at most `timeout_ms` for all of it. Raises NoAnswerError only.

        Whoever gives up, by time or by being cancelled, ends the connection: behind an answer that does not come
        nothing would come either. Other requests under way fail with it.
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
            # in a task: a handler in its first step runs in none, and a timeout needs one
            answer = await asyncio.get_running_loop().create_task(self._answer(message, timeout_ms))
        if self._prompt is not None:
            self._prompt.answered()
        return answer

    async def _answer_at_once(
        self, connection: _PeerConnection, message: Request[Response], timeout_ms: int
    ) -> Response:
        """As `_answer`, where there is nothing to wait for before the request leaves: a task, and the turns of the loop
        that it takes, would be a good part of what a request costs."""
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
        """What becomes of a request and of its connection. Raises NoAnswerError, unless the caller was cancelled."""
        if isinstance(error, TimeoutError | asyncio.CancelledError):
            self._drop(connection)
        if isinstance(error, TimeoutError):
            if self._prompt is not None:
                self._prompt.failed(f"no answer in {timeout_ms} ms")
            raise NoAnswerError(f"{self._name()}: no answer in {timeout_ms} ms") from error
        if isinstance(error, KafkaError | ProtocolError):  # it serves no version of this API that we know
            raise NoAnswerError(f"{self._name()}: {error}") from error

    def rest(self) -> None:
        """The peer is not asked for now: requests under way fail, also those that wait for a connection to be made."""
        under_way, self._try = self._try, None
        if under_way is not None and not under_way.expired():  # one that has run out ends its try by itself
            under_way.reschedule(0.0)
        if self._outage is not None:
            self._outage.rest()
        self._drop(self._connection)

    def close(self) -> None:
        """Requests under way fail, and so do all that come."""
        self._is_closed = True
        self.rest()

    async def _connected(self) -> _PeerConnection:
        """The connection, made anew where there is none."""
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
        """Where the listener of the peer asks for it. Raises KafkaError, NoAnswerError."""
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
        loop = asyncio.get_running_loop()  # none runs where this coroutine is dropped in the middle
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
            self._outage.answered() if is_open else self._outage.failed(why)
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
        """This side ends `connection`: that is no news of the peer."""
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
    """Speaks the highest versions that both sides know, from the answer to ApiVersions on. `on_end` is called once it
    has ended, for whatever reason."""

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
        """On the loop's clock: the session ends soon after. None: it lasts."""
        self.is_logging_in = False
        """A node that refuses takes its time to say so."""
        self._knows_versions = False

    def end(self) -> None:
        """Closes it, if it was ever made."""
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
