"""Base of the transactional clients: a producer with a transactional id, its requests, and the permitted responses.

A life begins with InitProducerId. An error ends it, and so do most unanswered requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES, ERROR_NAMES
from moldau.simulation.checkers.copy_ledger import Copied
from moldau.simulation.client import Client
from moldau.simulation.transaction_events import TransactionEvent
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.group_members import find_coordinator
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
)
from moldau.wire.records.builder import build_batch

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

TRANSACTION = 1
"""FindCoordinator's key type for transactional ids."""
FIRST_TOPIC_ID_VERSION = 13
KNOWN_EPOCH_FROM = 3
MAX_TRIES = 30
"""After this many transient errors, the client gives up the transaction and begins another life."""
V2_FROM = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
"""The first versions of the second protocol (KIP-890). Lower ones belong to the first."""
CONCURRENT_TRANSACTIONS = ERROR_CODES["CONCURRENT_TRANSACTIONS"]
FENCED = tuple(ERROR_CODES[name] for name in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"))
WAIT = (
    CONCURRENT_TRANSACTIONS,
    *[ERROR_CODES[name] for name in ("NOT_ENOUGH_REPLICAS", "UNSTABLE_OFFSET_COMMIT")],
)
Ask = Callable[[Client], Awaitable[int]]
"""Sends one request and returns its error code."""
LIFE_OVER = (
    *FENCED,
    *[
        ERROR_CODES[name]
        for name in (
            "INVALID_TXN_STATE",
            "INVALID_PRODUCER_ID_MAPPING",
            "TRANSACTION_ABORTABLE",
            "OUT_OF_ORDER_SEQUENCE_NUMBER",
        )
    ],
)
"""Another producer has taken over, or the transaction was aborted by its timeout."""


class LifeOverError(Exception):
    """The broker rejected a request that only a producer with a newer epoch may send."""


class TransactionalClient(ClientLoop):
    """One producer of `transactional_id`. `is_v2`: the protocol of this life."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic, transactional_id: str) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.transactional_id = transactional_id
        self.producer_id = self.producer_epoch = -1
        self.is_v2 = False
        self.sequences: dict[int, int] = {}
        self.joined: dict[int, None] = {}
        """The partitions of the open transaction."""

    async def client(self) -> Client:
        """A connection that uses the protocol of this life."""
        client = await super().client()
        self.adapt_versions(client)
        return client

    def adapt_versions(self, client: Client) -> None:
        client.versions[ApiKey.FIND_COORDINATOR] = max(1, client.versions[ApiKey.FIND_COORDINATOR])
        client.versions[ApiKey.ADD_PARTITIONS_TO_TXN] = min(3, client.versions[ApiKey.ADD_PARTITIONS_TO_TXN])
        for key, first in V2_FROM.items():
            drawn = client.versions[key]
            client.versions[key] = max(first, drawn) if self.is_v2 else min(first - 1, drawn)

    async def rest(self, rest_s: float) -> None:
        """Pauses for a while, so that others can work."""
        end_s = self.world.loop.time() + rest_s
        while self.world.loop.time() < end_s and not self.world.is_draining:
            await self.pause()

    # -- a life

    async def begin_producer(self, timeout_ms: int, *, may_resume: bool = False) -> bool:
        """Sends InitProducerId; False for a transient error. `may_resume`: sometimes like a client that recovers from
        an error, which is fenced if another producer has taken over (KIP-360). Raises LifeOverError."""
        client = await self.client()
        if not await find_coordinator(self, client, self.transactional_id, TRANSACTION):
            return False
        known = -1, -1
        if may_resume and client.version_of(ApiKey.INIT_PRODUCER_ID) >= KNOWN_EPOCH_FROM:
            known = self.producer_id, self.producer_epoch
        answer = await client.request(InitProducerIdRequest(self.transactional_id, timeout_ms, *known))
        if answer.error_code:
            if answer.error_code == CONCURRENT_TRANSACTIONS:
                self.world.count(TransactionEvent.ABORTED_BY_SUCCESSOR)
            if answer.error_code in LIFE_OVER:
                self.producer_id = self.producer_epoch = -1
            await self.wait_out(answer.error_code, "InitProducerId")
            return False
        if known[0] >= 0:
            self.world.count(TransactionEvent.RESUMED)
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.world.trace.note("life", self.name, self.producer_id, self.producer_epoch, self.is_v2)
        self.sequences = {}
        self.joined = {}
        return True

    async def wait_out(self, error_code: int, what: str) -> None:
        """Waits after a transient error. Raises LifeOverError, and ViolationError for an unexplained error."""
        if error_code in LIFE_OVER:
            if error_code in FENCED:
                self.world.count(TransactionEvent.FENCED)
            raise LifeOverError(f"{what} got {ERROR_NAMES[error_code]}")
        if error_code not in WAIT:
            self.must_be_retriable(error_code, what)
        await asyncio.sleep(self.random.uniform(0.02, 0.2))

    async def until_taken(self, ask: Ask, what: str) -> None:
        """Repeats the request after transient errors, on the same connection, because requests on a lost one may arrive
        late."""
        client = await self.client()
        for _ in range(MAX_TRIES):
            error_code = await ask(client)
            if not error_code:
                return
            if error_code == CONCURRENT_TRANSACTIONS:
                self.world.count(TransactionEvent.END_WAITED)
            await self.wait_out(error_code, what)
        raise LifeOverError(f"{what} was refused {MAX_TRIES} times")

    # -- a transaction

    async def write(self, partition: int, transaction: str, numbers: list[int]) -> bytes:
        """Writes copies of `numbers` as one batch, and returns the batch."""
        batch = self.make_batch(transaction, partition, numbers)
        await self.write_batch(partition, batch)
        self.sequences[partition] = self.sequences.get(partition, 0) + len(numbers)
        return batch

    async def write_batch(self, partition: int, batch: bytes) -> None:
        if not self.is_v2:
            await self.until_taken(lambda client: self.add_partition(client, partition), "AddPartitionsToTxn")
        await self.until_taken(lambda client: self.produce(client, partition, batch), "Produce")
        self.note_joined(partition)

    def note_joined(self, partition: int) -> None:
        if partition not in self.joined:
            if not self.joined:
                self.world.count(TransactionEvent.BEGUN)
            joined = TransactionEvent.JOINED_BY_PRODUCE if self.is_v2 else TransactionEvent.JOINED_BY_ADD_PARTITIONS
            self.world.count(joined)
            self.joined[partition] = None

    def make_batch(self, transaction: str, partition: int, numbers: list[int]) -> bytes:
        now_ms = self.world.clock.now_ms()
        return build_batch(
            [(self.key_of(number), Copied(transaction, number).encode(), now_ms, ()) for number in numbers],
            compression=self.random.choice(("none", "none", "gzip")),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequences.get(partition, 0),
            is_transactional=True,
        )

    def key_of(self, number: int) -> bytes:
        return b"%d" % number

    async def add_partition(self, client: Client, partition: int) -> int:
        topic = AddPartitionsToTxnTopic(self.topic.name, (partition,))
        answer = await client.request(
            AddPartitionsToTxnRequest((), self.transactional_id, self.producer_id, self.producer_epoch, (topic,))
        )
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    async def produce(self, client: Client, partition: int, batch: bytes) -> int:
        data = (PartitionProduceData(partition, batch),)
        if client.version_of(ApiKey.PRODUCE) >= FIRST_TOPIC_ID_VERSION:
            topic = TopicProduceData(topic_id=self.topic.topic_id, partition_data=data)
        else:
            topic = TopicProduceData(name=self.topic.name, partition_data=data)
        request = ProduceRequest(self.transactional_id, acks=-1, timeout_ms=5_000, topic_data=(topic,))
        answer = await client.request(request)
        return answer.responses[0].partition_responses[0].error_code

    def end_request(self, *, is_commit: bool) -> EndTxnRequest:
        return EndTxnRequest(self.transactional_id, self.producer_id, self.producer_epoch, committed=is_commit)

    def take_end(self, answer: EndTxnResponse, *, is_commit: bool) -> None:
        """The transaction has ended. With the second protocol the next one has another epoch."""
        if is_commit:
            event = TransactionEvent.COMMITTED_V2 if self.is_v2 else TransactionEvent.COMMITTED_V1
        else:
            event = TransactionEvent.ABORTED_V2 if self.is_v2 else TransactionEvent.ABORTED_V1
        self.world.count(event)
        self.joined = {}
        if self.is_v2:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences = {}
