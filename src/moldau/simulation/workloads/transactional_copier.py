"""A copier that reads, writes and commits its position in one transaction, with both protocols of transactions.

Two of them share a transactional id: who begins a life fences the other one. A life begins with InitProducerId, reads
the committed position, and copies from there; whatever the broker refuses, and most of what it does not answer, begins
another life. With the first protocol (EndTxn below version 5) an end that was not answered always does: an EndTxn that
arrives late would end the next transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES, ERROR_NAMES
from moldau.simulation.checkers.copy_ledger import Copied, CopyLedger, Outcome
from moldau.simulation.client import BrokerClient, UnansweredError
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import RETRIABLE, ClientLoop
from moldau.simulation.workloads.committed_reader import STABLE_FROM, stable_position
from moldau.simulation.workloads.group_members import find_coordinator
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.protocol.messages.producer_ids import InitProducerIdRequest
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.records.builder import build_batch

if TYPE_CHECKING:
    from moldau.simulation.world import SimulatedTopic, World

TRANSACTION = 1
"""The type of FindCoordinator's key."""
FIRST_TOPIC_ID_VERSION = 13
KNOWN_EPOCH_FROM = 3
TIMEOUTS_MS = (1_000, 1_000, 5_000, 60_000)
MAX_TRIES = 30
"""A transaction that meets so many errors that may pass is given up for another life."""
V2_FROM = {ApiKey.PRODUCE: 12, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.END_TXN: 5}
"""The versions of the second protocol (KIP-890); those below belong to the first."""
WAIT = tuple(ERROR_CODES[name] for name in ("CONCURRENT_TRANSACTIONS", "NOT_ENOUGH_REPLICAS", "UNSTABLE_OFFSET_COMMIT"))
Ask = Callable[[BrokerClient], Awaitable[int]]
"""Sends one request and gives its error code."""
LIFE_OVER = tuple(
    ERROR_CODES[name]
    for name in (
        "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_ID_MAPPING",
        "TRANSACTION_ABORTABLE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
    )
)
"""Another copier has taken over, or the transaction was aborted for its time."""


class LifeOverError(Exception):
    """The broker refused what only a producer with a newer epoch may do."""


class TransactionalCopier(ClientLoop):
    """See the module."""

    def __init__(
        self,
        world: World,
        name: str,
        topic: SimulatedTopic,
        ledger: CopyLedger,
        *,
        rest_s: float = 0.0,
        last_transactions: int = 0,
    ) -> None:
        """`rest_s`: how long it sleeps at most before a life, so that another copier can work."""
        super().__init__(world, name)
        self.topic = topic
        self.ledger = ledger
        self.rest_s = rest_s
        self.producer_id = self.producer_epoch = -1
        self.is_alive = False
        self.is_v2 = False
        self.position = 0
        self.transactions = 0
        self.transaction = ""
        """The one that may be open; InitProducerId ends it."""
        self.sequences: dict[int, int] = {}
        self.left_to_copy = last_transactions
        """Transactions that it ends on the healthy node, when all others finish."""

    def is_done(self) -> bool:
        return self.world.is_draining and not self.transaction and self.left_to_copy <= 0

    async def client(self) -> BrokerClient:
        """A connection that speaks the protocol of this life."""
        client = await super().client()
        client.versions[ApiKey.OFFSET_FETCH] = max(STABLE_FROM, client.versions[ApiKey.OFFSET_FETCH])
        client.versions[ApiKey.FIND_COORDINATOR] = max(1, client.versions[ApiKey.FIND_COORDINATOR])
        client.versions[ApiKey.ADD_PARTITIONS_TO_TXN] = min(3, client.versions[ApiKey.ADD_PARTITIONS_TO_TXN])
        for key, first in V2_FROM.items():
            drawn = client.versions[key]
            client.versions[key] = max(first, drawn) if self.is_v2 else min(first - 1, drawn)
        return client

    async def step(self) -> None:
        try:
            if not self.is_alive:
                await self.rest()
                await self.begin_life()
            else:
                await self.copy()
                self.left_to_copy -= self.world.is_draining
                if not self.is_v2 and self.random.random() < 0.1:
                    await self.write_astray()
        except LifeOverError as reason:
            self.world.trace.note("life over", self.name, str(reason))
            self.is_alive = False
        except UnansweredError:
            self.is_alive = False
            raise

    # -- a life

    async def rest(self) -> None:
        end_s = self.world.loop.time() + self.random.uniform(0, self.rest_s)
        while self.world.loop.time() < end_s and not self.world.is_draining:
            await self.pause()

    async def begin_life(self) -> None:
        self.is_v2 = self.random.random() < 0.6
        client = await self.client()
        if not await find_coordinator(self, client, self.ledger.name, TRANSACTION):
            return
        known_id = -1, -1
        if client.version_of(ApiKey.INIT_PRODUCER_ID) >= KNOWN_EPOCH_FROM and self.random.random() < 0.3:
            # as a client that recovers from an error, and is fenced where another one has taken over (KIP-360)
            known_id = self.producer_id, self.producer_epoch
        request = InitProducerIdRequest(self.ledger.name, self.random.choice(TIMEOUTS_MS), *known_id)
        answer = await client.request(request)
        if answer.error_code in LIFE_OVER:
            self.producer_id = self.producer_epoch = -1
            raise LifeOverError(f"InitProducerId got {ERROR_NAMES[answer.error_code]}")
        if answer.error_code:
            await self.wait_out(answer.error_code, "InitProducerId")
            return
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.world.trace.note("life", self.name, self.producer_id, self.producer_epoch, self.is_v2)
        self.sequences = {}
        known = self.ledger.position
        position = await stable_position(self, client, self.ledger.name, self.topic, WAIT)
        if position is None:
            return
        self.ledger.position_read(position, known)
        self.position = position
        self.transaction = ""
        self.is_alive = True

    async def wait_out(self, error_code: int, what: str) -> None:
        """For an error that may pass. Raises LifeOverError, and ViolationError for what nothing explains."""
        if error_code in LIFE_OVER:
            raise LifeOverError(f"{what} got {ERROR_NAMES[error_code]}")
        if error_code not in WAIT:
            self.must_be_retriable(error_code, what)
        await asyncio.sleep(self.random.uniform(0.02, 0.2))

    # -- a transaction

    async def copy(self) -> None:
        """One transaction. Raises LifeOverError, UnansweredError: nobody knows how it ended."""
        self.transactions += 1
        self.transaction = transaction = f"{self.name}/{self.transactions}"
        self.ledger.begun(transaction)
        before = self.producer_epoch
        count = self.random.choice((1, 2, 5, 12))
        left = list(range(self.position, self.position + count))
        while left:
            taken = self.random.randint(1, len(left))
            await self.write(self.random.randrange(self.topic.partitions), transaction, left[:taken])
            del left[:taken]
            if self.is_v2 and self.random.random() < 0.1:
                await self.end_late(before - 1)
        if self.random.random() < 0.06:
            # longer than some time-outs: the broker ends the transaction
            await asyncio.sleep(self.random.uniform(0.5, 3))
        if self.random.random() < 0.9:
            await self.commit_position(self.position + count)
        else:
            # without its position a copy must not count
            await self.end(transaction, Outcome.ABORTED, self.position)
            return
        is_commit = self.random.random() < 0.85
        await self.end(transaction, Outcome.COMMITTED if is_commit else Outcome.ABORTED, self.position + count)

    async def write(self, partition: int, transaction: str, numbers: list[int]) -> None:
        if not self.is_v2:
            await self.until_taken(lambda client: self.add_partition(client, partition), "AddPartitionsToTxn")
        batch = self.make_batch(transaction, partition, numbers)
        await self.until_taken(lambda client: self.produce(client, partition, batch), "Produce")
        self.sequences[partition] = self.sequences.get(partition, 0) + len(numbers)

    async def write_astray(self) -> None:
        """Records that no transaction has room for, as a stray task sends them: taken, they would never end."""
        transaction = f"{self.name}/{self.transactions}/astray"
        self.ledger.begun(transaction)
        self.ledger.ended(transaction, Outcome.ABORTED, 0)
        partition = self.random.randrange(self.topic.partitions)
        error_code = await self.produce(await self.client(), partition, self.make_batch(transaction, partition, [0]))
        self.world.trace.note("astray", self.name, partition, error_code)
        if not error_code:
            raise ViolationError("nothing is written outside of a transaction", f"{self.name}: partition {partition}")
        if error_code not in (*LIFE_OVER, *WAIT):
            self.must_be_retriable(error_code, "Produce outside of a transaction")

    def make_batch(self, transaction: str, partition: int, numbers: list[int]) -> bytes:
        now_ms = self.world.broker.clock.now_ms()
        return build_batch(
            [(b"%d" % number, Copied(transaction, number).encode(), now_ms, ()) for number in numbers],
            compression=self.random.choice(("none", "none", "gzip")),
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequences.get(partition, 0),
            is_transactional=True,
        )

    async def until_taken(self, ask: Ask, what: str) -> None:
        """Asks again while an error may pass, on the same connection: what was sent on a lost one may come late."""
        client = await self.client()
        for _ in range(MAX_TRIES):
            error_code = await ask(client)
            if not error_code:
                return
            await self.wait_out(error_code, what)
        raise LifeOverError(f"{what} was refused {MAX_TRIES} times")

    async def add_partition(self, client: BrokerClient, partition: int) -> int:
        topic = AddPartitionsToTxnTopic(self.topic.name, (partition,))
        answer = await client.request(
            AddPartitionsToTxnRequest((), self.ledger.name, self.producer_id, self.producer_epoch, (topic,))
        )
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    async def produce(self, client: BrokerClient, partition: int, batch: bytes) -> int:
        data = (PartitionProduceData(partition, batch),)
        if client.version_of(ApiKey.PRODUCE) >= FIRST_TOPIC_ID_VERSION:
            topic = TopicProduceData(topic_id=self.topic.topic_id, partition_data=data)
        else:
            topic = TopicProduceData(name=self.topic.name, partition_data=data)
        request = ProduceRequest(self.ledger.name, acks=-1, timeout_ms=5_000, topic_data=(topic,))
        answer = await client.request(request)
        return answer.responses[0].partition_responses[0].error_code

    async def commit_position(self, position: int) -> None:
        if not self.is_v2:
            await self.until_taken(self.add_offsets, "AddOffsetsToTxn")
        await self.until_taken(lambda client: self.send_position(client, position), "TxnOffsetCommit")

    async def add_offsets(self, client: BrokerClient) -> int:
        ids = self.ledger.name, self.producer_id, self.producer_epoch
        return (await client.request(AddOffsetsToTxnRequest(*ids, group_id=self.ledger.name))).error_code

    async def send_position(self, client: BrokerClient, position: int) -> int:
        row = TxnOffsetCommitRequestPartition(0, position)
        request = TxnOffsetCommitRequest(
            self.ledger.name,
            self.ledger.name,
            self.producer_id,
            self.producer_epoch,
            topics=(TxnOffsetCommitRequestTopic(self.topic.name, (row,)),),
        )
        return (await client.request(request)).topics[0].partitions[0].error_code

    async def end(self, transaction: str, outcome: Outcome, position: int) -> None:
        ids = self.ledger.name, self.producer_id, self.producer_epoch
        request = EndTxnRequest(*ids, committed=outcome is Outcome.COMMITTED)

        def note(answer: EndTxnResponse) -> None:
            if not answer.error_code:
                self.ledger.ended(transaction, outcome, position)
                self.world.trace.note("ended", self.name, transaction, outcome.value, position)
                if self.is_v2:
                    self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
                    self.sequences = {}

        async def ask(client: BrokerClient) -> int:
            return (await client.request(request, note=note)).error_code

        try:
            await self.until_taken(ask, "EndTxn")
        except UnansweredError:
            if not self.is_v2 or self.random.random() < 0.3:
                raise
            # the second protocol knows a repeat by its epoch
            await asyncio.sleep(self.random.uniform(0.01, 0.3))
            await self.until_taken(ask, "EndTxn")
        self.transaction = ""
        if outcome is Outcome.COMMITTED:
            self.position = position

    async def end_late(self, producer_epoch: int) -> None:
        """An end of the transaction before this one, sent again: it must not touch what is open now."""
        if producer_epoch < 0:
            return
        client = await self.client()
        ids = self.ledger.name, self.producer_id, producer_epoch
        answer = await client.request(EndTxnRequest(*ids, committed=self.random.random() < 0.5))
        self.world.trace.note("late end", self.name, producer_epoch, answer.error_code)
        if not answer.error_code:
            raise ViolationError(
                "a late EndTxn is refused", f"{self.name}: epoch {producer_epoch}, open is {self.producer_epoch}"
            )
        if answer.error_code not in (*LIFE_OVER, *WAIT, *RETRIABLE):
            self.must_be_retriable(answer.error_code, "a late EndTxn")
