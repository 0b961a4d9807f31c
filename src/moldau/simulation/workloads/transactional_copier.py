"""A copier that reads, writes and commits its offset in one transaction, with both transaction protocols.

Two copiers share a transactional id, and each new life fences the other copier. A life begins with InitProducerId,
reads the committed offset, and copies from there. Any rejected request, and most unanswered ones, begin another life.
With the first protocol (EndTxn below version 5) an unanswered end always does, because an EndTxn that arrives late
would end the next transaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.simulation.checkers.copy_ledger import CopyLedger, Outcome
from moldau.simulation.client import Client, UnansweredError
from moldau.simulation.transaction_events import TransactionEvent
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.committed_reader import STABLE_FROM, stable_position
from moldau.simulation.workloads.group_members import find_coordinator
from moldau.simulation.workloads.transactional_client import (
    LIFE_OVER,
    MAX_TRIES,
    WAIT,
    Ask,
    LifeOverError,
    TransactionalClient,
)
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

TIMEOUTS_MS = (1_000, 1_000, 5_000, 60_000)
REFUSED_ASTRAY = tuple(ERROR_CODES[name] for name in ("INVALID_TXN_STATE", "TRANSACTION_ABORTABLE"))


class TransactionalCopier(TransactionalClient):
    """See the module. `timeouts_ms`: the choice of transaction timeouts, one for each life."""

    timeouts_ms: tuple[int, ...] = TIMEOUTS_MS

    def __init__(
        self,
        world: ClientWorld,
        name: str,
        topic: SimulatedTopic,
        ledger: CopyLedger,
        *,
        rest_s: float = 0.0,
        last_transactions: int = 0,
        writes_astray: bool = True,
    ) -> None:
        """`rest_s`: the longest sleep before a life, so that another copier can work. `writes_astray`: not if markers
        take a while, because until the marker is in a partition, stray records count as part of the transaction."""
        super().__init__(world, name, topic, ledger.name)
        self.ledger = ledger
        self.rest_s = rest_s
        self.writes_astray = writes_astray
        self.is_alive = False
        self.position = 0
        self.transactions = 0
        self.transaction = ""
        """The transaction that may be open. InitProducerId ends it."""
        self.left_to_copy = last_transactions
        """The number of transactions to end on the healthy node, when all other clients finish."""

    def is_done(self) -> bool:
        return self.world.is_draining and not self.transaction and self.left_to_copy <= 0

    def adapt_versions(self, client: Client) -> None:
        super().adapt_versions(client)
        client.versions[ApiKey.OFFSET_FETCH] = max(STABLE_FROM, client.versions[ApiKey.OFFSET_FETCH])

    async def step(self) -> None:
        try:
            if not self.is_alive:
                await self.rest(self.random.uniform(0, self.rest_s))
                await self.begin_life()
            else:
                await self.copy()
                self.left_to_copy -= self.world.is_draining
                if self.writes_astray and not self.is_v2 and self.random.random() < 0.2:
                    await self.write_astray()
        except LifeOverError as reason:
            self.world.trace.note("life over", self.name, str(reason))
            self.is_alive = False
        except UnansweredError:
            self.is_alive = False
            raise

    # -- a life

    async def begin_life(self) -> None:
        self.is_v2 = self.random.random() < 0.6
        timeout_ms = self.random.choice(self.timeouts_ms)
        if not await self.begin_producer(timeout_ms, may_resume=self.random.random() < 0.3):
            return
        client = await self.client()
        known = self.ledger.position
        if not await find_coordinator(self, client, self.ledger.name):
            return
        position = await self.committed_position(client)
        if position is None:
            return
        self.ledger.position_read(position, known)
        self.position = position
        self.transaction = ""
        self.is_alive = True

    async def committed_position(self, client: Client) -> int | None:
        """None: unknown for now."""
        return await stable_position(self, client, self.ledger.name, self.topic, WAIT)

    # -- a transaction

    async def copy(self) -> None:
        """Runs one transaction. Raises LifeOverError, and UnansweredError if its outcome is unknown."""
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
            # longer than some timeouts: the broker ends the transaction
            await asyncio.sleep(self.random.uniform(0.5, 3))
        if self.random.random() < 0.9:
            await self.commit_position(self.position + count)
        else:
            # without its offset a copy must not count
            await self.end(transaction, Outcome.ABORTED, self.position)
            return
        is_commit = self.random.random() < 0.85
        await self.end(transaction, Outcome.COMMITTED if is_commit else Outcome.ABORTED, self.position + count)

    async def write_astray(self) -> None:
        """Sends records outside of any transaction, like a stray task. If they were accepted, they would stay open for
        ever."""
        transaction = f"{self.name}/{self.transactions}/astray"
        self.ledger.begun(transaction)
        self.ledger.ended(transaction, Outcome.ABORTED, 0)
        partition = self.random.randrange(self.topic.partitions)
        batch = self.make_batch(transaction, partition, [0])
        for _ in range(MAX_TRIES):
            error_code = await self.produce(await self.client(), partition, batch)
            if error_code not in WAIT:
                break
            await self.wait_out(error_code, "Produce outside of a transaction")
        self.world.trace.note("astray", self.name, partition, error_code)
        if not error_code:
            raise ViolationError("nothing is written outside of a transaction", f"{self.name}: partition {partition}")
        if error_code in REFUSED_ASTRAY:
            self.world.count(TransactionEvent.VERIFICATION_REFUSED)
        elif error_code not in (*LIFE_OVER, *WAIT):
            self.must_be_retriable(error_code, "Produce outside of a transaction")

    async def commit_position(self, position: int) -> None:
        if not self.is_v2:
            await self.until_taken(self.add_offsets, "AddOffsetsToTxn")
            self.world.count(TransactionEvent.OFFSETS_JOINED_BY_ADD_OFFSETS)
        await self.until_taken(lambda client: self.send_position(client, position), "TxnOffsetCommit")
        if self.is_v2:
            self.world.count(TransactionEvent.OFFSETS_JOINED_BY_COMMIT)

    async def add_offsets(self, client: Client) -> int:
        ids = self.ledger.name, self.producer_id, self.producer_epoch
        return (await client.request(AddOffsetsToTxnRequest(*ids, group_id=self.ledger.name))).error_code

    async def send_position(self, client: Client, position: int) -> int:
        row = TxnOffsetCommitRequestPartition(0, position)
        request = TxnOffsetCommitRequest(
            self.ledger.name,
            self.ledger.name,
            self.producer_id,
            self.producer_epoch,
            topics=(TxnOffsetCommitRequestTopic(self.topic.name, partitions=(row,)),),
        )
        return (await client.request(request)).topics[0].partitions[0].error_code

    async def end(self, transaction: str, outcome: Outcome, position: int) -> None:
        is_commit = outcome is Outcome.COMMITTED
        request = self.end_request(is_commit=is_commit)
        if is_commit:
            self.ledger.commit_begun(transaction)

        def note(answer: EndTxnResponse) -> None:
            if answer.error_code:
                return
            if self.ledger.outcomes[transaction] is Outcome.OPEN:
                self.ledger.ended(transaction, outcome, position)
                self.world.trace.note("ended", self.name, transaction, outcome.value, position)
                self.take_end(answer, is_commit=is_commit)
            elif (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.producer_epoch):
                raise ViolationError(
                    "a repeated EndTxn gets the same answer", f"{self.name}: {answer}, was {self.producer_epoch}"
                )

        async def ask(client: Client) -> int:
            return (await client.request(request, note=note)).error_code

        await self.until_ended(ask)
        self.transaction = ""
        if self.is_v2 and self.random.random() < 0.05:
            self.world.count(TransactionEvent.END_REPEATED)
            await self.until_taken(ask, "EndTxn")
        if is_commit:
            self.position = position

    async def until_ended(self, ask: Ask) -> None:
        """Sends an EndTxn. Raises UnansweredError if its outcome is unknown."""
        try:
            await self.until_taken(ask, "EndTxn")
        except UnansweredError:
            if not self.is_v2 or self.random.random() < 0.1:
                raise
            # the second protocol recognizes a repeat by its epoch
            await asyncio.sleep(self.random.uniform(0.01, 0.3))
            self.world.count(TransactionEvent.END_REPEATED)
            await self.until_taken(ask, "EndTxn")

    async def end_late(self, producer_epoch: int) -> None:
        """Repeats the end of the previous transaction, which must not affect the open one. A replaced coordinator that
        does not know the open one yet may repeat its answer; a new decision would raise the epoch."""
        if producer_epoch < 0:
            return
        client = await self.client()
        ids = self.ledger.name, self.producer_id, producer_epoch
        answer = await client.request(EndTxnRequest(*ids, committed=self.random.random() < 0.5))
        self.world.trace.note("late end", self.name, producer_epoch, answer.error_code)
        if not answer.error_code:
            is_repeat = (answer.producer_id, answer.producer_epoch) == (self.producer_id, self.producer_epoch)
            if is_repeat and not self.world.coordinates(client, self.ledger.name):
                return
            raise ViolationError(
                "a late EndTxn is refused", f"{self.name}: epoch {producer_epoch}, open is {self.producer_epoch}"
            )
        if answer.error_code not in (*LIFE_OVER, *WAIT):
            self.must_be_retriable(answer.error_code, "a late EndTxn")
        else:
            self.world.count(TransactionEvent.LATE_END_REFUSED)
