"""A client of several brokers, which sends requests to leaders of partitions and coordinators of groups.

It has at most one connection to each broker, opened for the first request, and one more for metadata. After a response
from a wrong broker it fetches metadata again, but only when no request is in flight, because requests of one connection
keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from moldau.errors import ERROR_CODES
from moldau.simulation.client import REQUEST_TIMEOUT_S, BrokerClient, Response, UnansweredError, Versions
from moldau.simulation.network import SimulatedNetwork
from moldau.simulation.workloads.client_loop import errors_of
from moldau.types import Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.coordinators import FindCoordinatorRequest
from moldau.wire.protocol.messages.delete_records import DeleteRecordsRequest
from moldau.wire.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.wire.protocol.messages.list_offsets import ListOffsetsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.messages.offsets import OffsetFetchRequest
from moldau.wire.protocol.messages.produce import ProduceRequest
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
)
from moldau.wire.protocol.schema import Request

GROUP, TRANSACTION = 0, 1
"""FindCoordinator's key types."""
ASKED_ELSEWHERE = tuple(
    ERROR_CODES[name]
    for name in (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "KAFKA_STORAGE_ERROR",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",  # from a replaced leader that does not know it yet
    )
)
OFFSET_NOT_AVAILABLE = ERROR_CODES["OFFSET_NOT_AVAILABLE"]
OFFSET_OUT_OF_RANGE = ERROR_CODES["OFFSET_OUT_OF_RANGE"]
NOBODY = ""
"""The host if none is known."""
OWN_PATIENCE_S = 2.0
"""The time limit of a broker for this client's own requests."""
LED = {
    ProduceRequest: ("topic_data", "partition_data", "index"),
    FetchRequest: ("topics", "partitions", "partition"),
    ListOffsetsRequest: ("topics", "partitions", "partition_index"),
    DeleteRecordsRequest: ("topics", "partitions", "partition_index"),
}
"""Requests to leaders: the fields of their topics, partitions and partition numbers."""


class RoutedClient:
    """A Client. A request to several leaders is sent in parts, and `note` is called with each response. `epochs`: the
    newest leader epoch of each partition that this client has seen; it follows no earlier one (KIP-320).

    With a `rack` it reads from the replica in that rack that leaders name, until that replica returns an error
    (KIP-392). `read_near` is called for each response of such a replica. `is_leader` shows whether a host leads a
    partition now. A replaced leader that does not know it yet may lack records that were read elsewhere, which a client
    cannot notice.
    """

    def __init__(
        self,
        network: SimulatedNetwork,
        hosts: Sequence[str],
        name: str,
        random: Random,
        epochs: dict[tuple[Uuid, int], int],
        *,
        rack: str = "",
        read_near: Callable[[], None] = lambda: None,
        is_leader: Callable[[str, str | Uuid, int], bool],
    ) -> None:
        self.versions = Versions(random)
        self.versions[ApiKey.METADATA] = max(10, self.versions[ApiKey.METADATA])
        self.versions[ApiKey.FIND_COORDINATOR] = max(1, self.versions[ApiKey.FIND_COORDINATOR])
        self.answering: BrokerClient | None = None
        self.is_open = True
        self._network = network
        self._hosts = hosts
        self._name = name
        self._random = random
        self._epochs = epochs
        self._connections: dict[str, BrokerClient] = {}
        self._informant: BrokerClient | None = None
        self._leaders: dict[tuple[str | Uuid, int], tuple[str, int]] = {}
        """The leader's host and epoch of each partition, whose topic is given by name or id."""
        self._coordinators: dict[tuple[int, str], str] = {}
        self._rack = rack
        self._read_near = read_near
        self._is_leader = is_leader
        self._near: dict[tuple[str | Uuid, int], str] = {}
        """The host of the replica that the leader of each partition named."""
        self._hosts_by_id: dict[int, str] = {}
        self._is_outdated = True
        self._under_way = 0
        """The number of requests in flight."""
        self._sending = asyncio.Lock()
        """Keeps requests in the order of the calls."""

    def version_of(self, key: ApiKey) -> int:
        return self.versions[key]

    def send(
        self, message: Request[Response], note: Callable[[Response], None] | None = None
    ) -> asyncio.Future[Response]:
        """Sends the request as soon as its broker is known."""
        return self._asking(message, note, REQUEST_TIMEOUT_S)

    async def request(
        self,
        message: Request[Response],
        *,
        note: Callable[[Response], None] | None = None,
        timeout_s: float | None = None,
    ) -> Response:
        """Sends the request and waits. Of several responses, returns one."""
        return await self._asking(message, note, REQUEST_TIMEOUT_S if timeout_s is None else timeout_s)

    async def tell(self, message: Request[Any]) -> None:
        """Sends a request without a response, or whose loss does not matter (acks=0). Raises UnansweredError."""
        async with self._sending:
            for _, connection, part in await self._reached(message):
                connection.send_unanswered(part)

    async def answer_in_time(self, answer: asyncio.Future[Response]) -> Response:
        return await answer

    def close(self) -> None:
        self.is_open = False
        for connection in [*self._connections.values(), *([self._informant] if self._informant else [])]:
            connection.close()

    # -- one request

    def _asking(
        self, message: Request[Response], note: Callable[[Response], None] | None, timeout_s: float
    ) -> asyncio.Future[Response]:
        asking = asyncio.ensure_future(self._ask(message, note, timeout_s))
        asking.add_done_callback(_look)
        return asking

    async def _ask(
        self, message: Request[Response], note: Callable[[Response], None] | None, timeout_s: float
    ) -> Response:
        """Raises UnansweredError if a part of the request has no response. Then closes this client, so earlier requests
        are not answered either."""
        try:
            async with self._sending:
                reached = await self._reached(message)
                sent = [(each, each.send(part, partial(self._take, host, each, note))) for host, each, part in reached]
                self._under_way += 1
            waiting = [connection.answer_in_time(answer, timeout_s) for connection, answer in sent]
            answers = await asyncio.gather(*waiting)
        except UnansweredError:
            self.close()
            raise
        self._under_way -= 1
        return answers[0]

    def _take(
        self, host: str, connection: BrokerClient, note: Callable[[Response], None] | None, answer: Response
    ) -> None:
        if isinstance(answer, FetchResponse):
            answer = self._take_fetched(host, answer)
        if any(code in ASKED_ELSEWHERE for code in errors_of(answer)):
            self._is_outdated = True
        self.answering = connection
        if note is not None:
            note(answer)

    def _take_fetched(self, host: str, answer: Any) -> Any:
        """Stores the replica to read from. Marks errors of a near replica, or of a replaced leader, for another try."""
        topics = []
        for topic in answer.responses:
            rows = []
            for row in topic.partitions:
                key = topic.topic or topic.topic_id, row.partition_index
                near = self._near.get(key)
                if near == host and row.error_code:
                    del self._near[key]
                    row = replace(row, error_code=OFFSET_NOT_AVAILABLE)
                elif row.error_code == OFFSET_OUT_OF_RANGE and not self._is_leader(host, *key):
                    self._is_outdated = True
                    row = replace(row, error_code=OFFSET_NOT_AVAILABLE)
                elif near == host:
                    self._read_near()
                elif self._rack and row.preferred_read_replica in self._hosts_by_id:
                    self._near[key] = self._hosts_by_id[row.preferred_read_replica]
                rows.append(row)
            topics.append(replace(topic, partitions=tuple(rows)))
        return replace(answer, responses=tuple(topics))

    # -- who is asked

    async def _reached(self, message: Request[Response]) -> list[tuple[str, BrokerClient, Request[Response]]]:
        """The part of the request for each broker. Raises UnansweredError if a broker stays unknown or unreachable for
        long."""
        end_s = self._network.loop.time() + REQUEST_TIMEOUT_S
        while True:
            if self._is_outdated and not self._under_way:
                await self._learn()
            parts = await self._known_parts(message)
            try:
                return [(host, await self._connected(host), part) for host, part in parts.items()]
            except UnansweredError:
                if not self.is_open or self._network.loop.time() > end_s:
                    raise
            self._doubt()
            await asyncio.sleep(self._random.uniform(0.05, 0.3))

    async def _connected(self, host: str) -> BrokerClient:
        """Raises UnansweredError."""
        if host == NOBODY or not self.is_open:
            raise UnansweredError("nobody is known to lead or to coordinate")
        connection = self._connections.get(host)
        if connection is None or not connection.is_open:
            connection = await BrokerClient.open(self._network, self._name, host, self._random, self.versions)
            self._connections[host] = connection
        return connection

    async def _known_parts(self, message: Request[Any]) -> dict[str, Request[Any]]:
        if type(message) in LED:
            return self._parts_of_leaders(message)
        key = coordinated_by(message)
        if key is None:
            return {self._random.choice(self._hosts): message}
        return {self._coordinators.get(key) or await self._find(key): message}

    def _parts_of_leaders(self, message: Request[Any]) -> dict[str, Request[Any]]:
        topics_field, rows_field, index_field = LED[type(message)]
        is_near = isinstance(message, FetchRequest) and bool(self._rack)
        if is_near:
            message = replace(message, rack_id=self._rack)
        parts: dict[str, list[msgspec.Struct]] = {}
        for topic in getattr(message, topics_field):
            rows: dict[str, list[msgspec.Struct]] = {}
            name = getattr(topic, "name", "") or getattr(topic, "topic", "") or topic.topic_id
            for row in getattr(topic, rows_field):
                host, epoch = self._leaders.get((name, getattr(row, index_field)), (NOBODY, -1))
                if hasattr(row, "current_leader_epoch"):
                    # otherwise a replica that is a follower by now would answer instead of the leader
                    row = replace(row, current_leader_epoch=epoch)
                if is_near:
                    host = self._near.get((name, getattr(row, index_field)), host)
                rows.setdefault(host, []).append(row)
            for host, its_rows in rows.items():
                parts.setdefault(host, []).append(replace(topic, **{rows_field: tuple(its_rows)}))
        return {host: replace(message, **{topics_field: tuple(topics)}) for host, topics in parts.items()}

    # -- its own questions

    def _doubt(self) -> None:
        """The source of the metadata may be cut off: another broker is asked next."""
        self._is_outdated = True
        if self._informant is not None:
            self._informant.close()

    async def _learn(self) -> None:
        """Fetches all leaders from a broker."""
        answer = await self._own_answer(MetadataRequest(None))
        if answer is None:
            return
        hosts = self._hosts_by_id = {broker.node_id: broker.host for broker in answer.brokers}
        self._near.clear()
        self._leaders.clear()
        self._coordinators.clear()
        for topic in answer.topics:
            for row in topic.partitions:
                key = topic.topic_id, row.partition_index
                epoch = self._epochs[key] = max(row.leader_epoch, self._epochs.get(key, -1))
                if row.leader_id in hosts and row.leader_epoch == epoch:
                    for name in (topic.name or "", topic.topic_id):
                        self._leaders[name, row.partition_index] = hosts[row.leader_id], row.leader_epoch
        self._is_outdated = False

    async def _find(self, key: tuple[int, str]) -> str:
        key_type, name = key
        if self.version_of(ApiKey.FIND_COORDINATOR) >= 4:
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(name,))
        else:
            request = FindCoordinatorRequest(name, key_type)
        answer = await self._own_answer(request)
        if answer is None:
            return NOBODY
        found = answer.coordinators[0] if answer.coordinators else answer
        if found.error_code:
            return NOBODY
        self._coordinators[key] = found.host
        return found.host

    async def _own_answer(self, request: Request[Response]) -> Response | None:
        informant = self._informant
        try:
            if informant is None or not informant.is_open:
                host = self._random.choice(self._hosts)
                informant = await BrokerClient.open(self._network, self._name, host, self._random, self.versions)
                self._informant = informant
            return await informant.request(request, timeout_s=OWN_PATIENCE_S)
        except UnansweredError:
            return None


def coordinated_by(message: Request[Any]) -> tuple[int, str] | None:
    """The key type and key for the coordinator of this request; None: any broker may answer."""
    match message:
        case InitProducerIdRequest():
            return (TRANSACTION, message.transactional_id) if message.transactional_id else None
        case AddPartitionsToTxnRequest():
            return TRANSACTION, message.v3_and_below_transactional_id
        case AddOffsetsToTxnRequest() | EndTxnRequest():
            return TRANSACTION, message.transactional_id
        case OffsetFetchRequest():
            return GROUP, message.groups[0].group_id if message.groups else message.group_id
    group = getattr(message, "group_id", None)
    return None if group is None else (GROUP, group)


def _look(asking: asyncio.Future[Any]) -> None:
    """Retrieves the error of a request that no caller awaits any more, so that asyncio does not warn."""
    if not asking.cancelled():
        asking.exception()
