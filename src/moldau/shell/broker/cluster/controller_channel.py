"""Sends requests to the active controller, in this process or at the node that leads the quorum.

The broker's own requests use its own login. A client's request travels in an envelope that names the client (KIP-590).

While no leader is known, or the asked node no longer leads, a request waits and is sent again, as in Kafka's channel to
the controller. If an answer is lost, the request may be executed twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Protocol

from moldau.core.controller.quorum_description import quorum_response
from moldau.core.controller.requests import MeteredRequest, QuorumDescription, TokenRequest
from moldau.core.metadata.image import BrokerListener
from moldau.errors import ERROR_CODES, KafkaError, ProtocolError, kafka_error
from moldau.shell.network.session import Session
from moldau.shell.peers.peer import NoAnswerError, Peer
from moldau.transport.network import Network
from moldau.types import METADATA_PARTITION
from moldau.wire.protocol.api_keys import CONTROLLER_API_VERSIONS, api_key_of
from moldau.wire.protocol.envelopes import decode_enclosed_answer, encode_enclosed, encode_principal
from moldau.wire.protocol.error_codes import each_error_code
from moldau.wire.protocol.messages.cluster import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
)
from moldau.wire.protocol.messages.envelope import EnvelopeRequest

MAX_WAITING = 1_000
"""The most requests that wait for another node's controller. Further ones fail with REQUEST_TIMED_OUT."""

RETRY_BACKOFF_S = 0.05
NOT_CONTROLLER = ERROR_CODES["NOT_CONTROLLER"]
_DESCRIBE_QUORUM = DescribeQuorumRequest(
    (DescribeQuorumTopic(METADATA_PARTITION.topic, (DescribeQuorumPartition(METADATA_PARTITION.partition),)),)
)
_LOOPBACK = bytes((127, 0, 0, 1))
"""The address of a client without one (in tests)."""


class Client(Protocol):
    """The client for whom a request is made."""

    @property
    def session(self) -> Session:
        """The client's principal and address."""
        ...

    @property
    def client_id(self) -> str:
        """The client id in the request's header; "" for none."""
        ...

    def hand_on(self) -> None:
        """Notes that another node's controller answers the request: that node writes the audit log."""
        ...


class OwnQuorum(Protocol):
    """This node's view of the quorum."""

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only voter, and so no other node ever leads."""

    @property
    def is_leader(self) -> bool:
        """Whether this node's controller is the active one."""

    @property
    def leader_address(self) -> BrokerListener | None:
        """The leader's listener for brokers. None: this node leads, or no leader is known."""

    @property
    def kraft_version(self) -> int:
        """1: the log holds the voters. 0: the configuration does."""

    def when_leader_changes(self, watcher: Callable[[], None]) -> None:
        """Calls `watcher` at each change of the leader, to or from this node or none."""

    async def submit(self, request: Any) -> Any:
        """The answer of this node's controller. Raises KafkaError: NOT_CONTROLLER while it is not active."""

    def describe(self) -> QuorumDescription:
        """The content of a DescribeQuorum answer."""


class ControllerChannel:
    """A channel to the controller. A slow request delays the next ones on the same channel."""

    def __init__(self, quorum: OwnQuorum, network: Network, timeout_ms: int) -> None:
        self._quorum = quorum
        self._network = network
        self._timeout_ms = timeout_ms
        self._peer: Peer | None = None
        self._waiting = 0
        self._on_lost: Callable[[], None] = lambda: None
        quorum.when_leader_changes(self._leader_changed)

    def when_lost(self, call: Callable[[], None]) -> None:
        """From now on calls `call` when the connection to the controller has ended, and when the leader has changed."""
        self._on_lost = call

    @property
    def kraft_version(self) -> int:
        """The `kraft.version` of the quorum, as far as this node knows."""
        return self._quorum.kraft_version

    async def describe_quorum(self) -> DescribeQuorumResponse:
        """The leader's description, in the highest version. If no leader is reached, this node's own."""
        address = self._quorum.leader_address
        if address is not None:
            with suppress(NoAnswerError):
                return await self._peer_at(address).request(_DESCRIBE_QUORUM, self._timeout_ms)
        return quorum_response(self._quorum.describe())

    async def submit(self, request: Any, client: Client | None = None, *, timeout_ms: int | None = None) -> Any:
        """The active controller's answer, once its records are committed. `client`: the client for whom the broker
        asks; None: for itself. `timeout_ms` replaces the channel's own.

        Raises KafkaError if the controller rejects the request as a whole, and REQUEST_TIMED_OUT if none was reached in
        time, or if too many requests wait.
        """
        if self._quorum.is_alone:
            return await self._quorum.submit(request)
        if self._waiting >= MAX_WAITING:
            raise kafka_error("REQUEST_TIMED_OUT", "too many requests wait for the controller")
        self._waiting += 1
        try:
            # a time-out needs a task, and a handler takes its first step outside of any
            return await asyncio.get_running_loop().create_task(
                self._answered_in_time(request, client, self._timeout_ms if timeout_ms is None else timeout_ms)
            )
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Closes the channel. Requests that wait for another node get no answer."""
        if self._peer is not None:
            self._peer.close()

    async def _answered_in_time(self, request: Any, client: Client | None, timeout_ms: int) -> Any:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._until_answered(request, client)
        except TimeoutError as error:
            raise kafka_error("REQUEST_TIMED_OUT", "no active controller answered in time") from error

    async def _until_answered(self, request: Any, client: Client | None) -> Any:
        while True:
            answer = await self._try(request, client)
            if answer is not None:
                return answer
            await asyncio.sleep(RETRY_BACKOFF_S)

    async def _try(self, request: Any, client: Client | None) -> Any:
        """The answer; None: try again. Raises KafkaError."""
        address = self._quorum.leader_address
        try:
            if address is None:
                return await self._quorum.submit(request)
            return await self._ask(address, request, client)
        except NoAnswerError:
            return None
        except KafkaError as error:
            if error.code == NOT_CONTROLLER:
                return None
            raise

    def _leader_changed(self) -> None:
        """Moves to the new leader, and no longer waits for the old node, which may hang. While no leader is known,
        keeps the connection: the old one may come back."""
        address = self._quorum.leader_address
        if self._peer is not None and address is not None:
            self._peer.move_to(address)
        elif self._peer is not None and self._quorum.is_leader:
            self._peer.rest()
        self._on_lost()

    def _peer_at(self, address: BrokerListener) -> Peer:
        if self._peer is None:
            self._peer = Peer(address, self._network, lambda: self._on_lost())
        self._peer.move_to(address)
        return self._peer

    async def _ask(self, address: BrokerListener, request: Any, client: Client | None) -> Any:
        """The answer of another node's controller. Raises KafkaError, NoAnswerError."""
        peer = self._peer_at(address)
        # the controller meters a request by the client's name, and takes the principal from the envelope
        message = request.request if isinstance(request, MeteredRequest | TokenRequest) else request
        if api_key_of(message) in CONTROLLER_API_VERSIONS:
            answer = await peer.request(message, self._timeout_ms)
            if answer.error_code:
                raise kafka_error(answer.error_code)
            return answer
        if client is None:
            # without an envelope, as in Kafka: the login or certificate tells the controller who this node is
            answer = await peer.request(message, self._timeout_ms)
            if NOT_CONTROLLER in each_error_code(answer):
                raise kafka_error("NOT_CONTROLLER")
            return answer
        client.hand_on()
        enclosed = encode_enclosed(message, client.client_id)
        principal = encode_principal(client.session.principal, is_by_token=client.session.is_token_authenticated)
        envelope = EnvelopeRequest(enclosed, principal, _address(client))
        enveloped = await peer.request(envelope, self._timeout_ms)
        if enveloped.error_code:
            raise kafka_error(enveloped.error_code)
        try:
            return decode_enclosed_answer(message, enveloped.response_data or b"")
        except ProtocolError as error:
            raise kafka_error("UNKNOWN_SERVER_ERROR", f"the controller's answer cannot be read: {error}") from error


def _address(client: Client) -> bytes:
    try:
        return ip_address(client.session.client_address).packed
    except ValueError:
        return _LOOPBACK
