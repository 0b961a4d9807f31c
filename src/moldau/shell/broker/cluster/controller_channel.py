"""The active controller as this broker reaches it: in its own process, or at the node that leads the quorum.

What brokers ask for themselves goes as it is, by their own login; what they ask for clients goes in an envelope, with
who asks (KIP-590).
While no node is known to lead, or the one that is asked does not any more, a request waits and is tried again, as
Kafka's channel to the controller does: where an answer was lost, the request may be done twice.
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
"""Requests that wait for another node's controller; one more is refused with REQUEST_TIMED_OUT."""

RETRY_BACKOFF_S = 0.05
NOT_CONTROLLER = ERROR_CODES["NOT_CONTROLLER"]
_DESCRIBE_QUORUM = DescribeQuorumRequest(
    (DescribeQuorumTopic(METADATA_PARTITION.topic, (DescribeQuorumPartition(METADATA_PARTITION.partition),)),)
)
_LOOPBACK = bytes((127, 0, 0, 1))
"""The address of a client that has none (a test's)."""


class Client(Protocol):
    """The client for whom a request is made."""

    @property
    def session(self) -> Session:
        """Who asks, and from where."""
        ...

    @property
    def client_id(self) -> str:
        """The client id of the request's header; "" for none."""
        ...

    def hand_on(self) -> None:
        """Another node's controller answers, and writes its audit log."""
        ...


class OwnQuorum(Protocol):
    """What this node knows of the quorum."""

    @property
    def is_alone(self) -> bool:
        """This node is the only voter: no other ever leads."""

    @property
    def is_leader(self) -> bool:
        """Whether this node's controller is the active one."""

    @property
    def leader_address(self) -> BrokerListener | None:
        """Where the leader listens for brokers; None: it is this node, or none is known."""

    @property
    def kraft_version(self) -> int:
        """1: its voters stand in the log, 0: they are configured."""

    def when_leader_changes(self, watcher: Callable[[], None]) -> None:
        """Calls `watcher` whenever another node leads than before, this one or none."""

    async def submit(self, request: Any) -> Any:
        """The answer of this node's controller. Raises KafkaError, NOT_CONTROLLER while it is not active."""

    def describe(self) -> QuorumDescription:
        """What DescribeQuorum answers."""


class ControllerChannel:
    """One way to the controller. What takes long there holds back what comes behind it on the same way."""

    def __init__(self, quorum: OwnQuorum, network: Network, timeout_ms: int) -> None:
        self._quorum = quorum
        self._network = network
        self._timeout_ms = timeout_ms
        self._peer: Peer | None = None
        self._waiting = 0
        self._on_lost: Callable[[], None] = lambda: None
        quorum.when_leader_changes(self._leader_changed)

    def when_lost(self, call: Callable[[], None]) -> None:
        """Calls `call`, from now on, when the connection to the controller has ended, and when another node leads."""
        self._on_lost = call

    @property
    def kraft_version(self) -> int:
        """The `kraft.version` of the quorum, as far as this node knows."""
        return self._quorum.kraft_version

    async def describe_quorum(self) -> DescribeQuorumResponse:
        """As the leader describes it, in the highest version; where it is not reached, what this node knows."""
        address = self._quorum.leader_address
        if address is not None:
            with suppress(NoAnswerError):
                return await self._peer_at(address).request(_DESCRIBE_QUORUM, self._timeout_ms)
        return quorum_response(self._quorum.describe())

    async def submit(self, request: Any, client: Client | None = None, *, timeout_ms: int | None = None) -> Any:
        """The active controller's answer, once its records are committed; `client`: for whom, where it is not this
        broker itself. `timeout_ms`: in place of the channel's own.

        Raises KafkaError: what the controller refuses as a whole; REQUEST_TIMED_OUT where none was reached in time, or
        too many wait.
        """
        if self._quorum.is_alone:
            return await self._quorum.submit(request)
        if self._waiting >= MAX_WAITING:
            raise kafka_error("REQUEST_TIMED_OUT", "too many requests wait for the controller")
        self._waiting += 1
        try:
            # a task of its own: the first step of a handler is taken outside of any, and a time-out needs one
            return await asyncio.get_running_loop().create_task(
                self._answered_in_time(request, client, self._timeout_ms if timeout_ms is None else timeout_ms)
            )
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Ends the channel: whoever waits for another node gets no answer."""
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
        """None: to be tried again. Raises KafkaError."""
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
        """Nobody waits any more for a node that may stand still once another one is known to lead; as long as none is
        known, the last one may come back."""
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
        # the controller meters a request, by the client's name, and has the principal from the envelope
        message = request.request if isinstance(request, MeteredRequest | TokenRequest) else request
        if api_key_of(message) in CONTROLLER_API_VERSIONS:
            answer = await peer.request(message, self._timeout_ms)
            if answer.error_code:
                raise kafka_error(answer.error_code)
            return answer
        if client is None:
            # without an envelope, as in Kafka: the controller then sees who this node is by its login or certificate
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
