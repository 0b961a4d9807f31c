"""Copiers of a cluster, in which their transaction coordinator may be replaced."""

from __future__ import annotations

from moldau.simulation.checkers.copy_ledger import Outcome
from moldau.simulation.client import Client, UnansweredError
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.transactional_client import FENCED
from moldau.simulation.workloads.transactional_copier import TransactionalCopier
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.protocol.messages.transactions import EndTxnResponse

FIRST_COMMIT_BY_ID = 10
EMPTY = None
"""The abort of an empty transaction."""
ROWS = (
    (Outcome.COMMITTED, Outcome.COMMITTED),
    (Outcome.COMMITTED, Outcome.ABORTED),
    (Outcome.ABORTED, Outcome.ABORTED),
    (Outcome.COMMITTED, EMPTY),
    (Outcome.ABORTED, EMPTY),
    (EMPTY, EMPTY),
)
"""The outcomes of transactions that directly follow each other."""
LATE_S = 30.0
"""An unanswered InitProducerId may still arrive for this time, and fence its sender."""


class CarefulCopier(TransactionalCopier):
    """Reads its offset from a coordinator that has just replicated a commit, because a replaced coordinator that does
    not know it yet answers from memory, as in Kafka. The commit is for a partition that no rule uses."""

    async def committed_position(self, client: Client) -> int | None:
        await self.until_taken(self.commit_for_nothing, "OffsetCommit")
        return await super().committed_position(client)

    async def commit_for_nothing(self, client: Client) -> int:
        is_by_id = client.version_of(ApiKey.OFFSET_COMMIT) >= FIRST_COMMIT_BY_ID
        name = "" if is_by_id else self.topic.name
        topic = OffsetCommitRequestTopic(name, self.topic.topic_id, (OffsetCommitRequestPartition(1, 0),))
        answer = await client.request(OffsetCommitRequest(self.ledger.name, topics=(topic,)))
        return answer.topics[0].partitions[0].error_code


class SuccessiveCopier(CarefulCopier):
    """Ends a transaction, and the next one as soon as the response is there, while the markers of the first are still
    being written. Its transactional id is not shared, and its transaction timeout is long enough, so it is never
    fenced."""

    timeouts_ms = (300_000,)
    haunted_until_s = 0.0

    async def begin_producer(self, timeout_ms: int, *, may_resume: bool = False) -> bool:
        try:
            return await super().begin_producer(timeout_ms, may_resume=may_resume)
        except UnansweredError:
            self.haunted_until_s = self.world.loop.time() + LATE_S
            raise

    async def copy(self) -> None:
        """Runs some transactions in a row. Raises LifeOverError, and UnansweredError if the outcome of the last one is
        unknown."""
        await self.pause()
        for outcome in self.random.choice(ROWS):
            if outcome is not EMPTY:
                await self.transact(outcome)
            elif self.is_v2:
                await self.end_empty()

    async def transact(self, outcome: Outcome) -> None:
        self.transactions += 1
        self.transaction = transaction = f"{self.name}/{self.transactions}"
        self.ledger.begun(transaction)
        position = self.position + self.random.choice((1, 2))
        numbers = list(range(self.position, position))
        await self.write(self.random.randrange(self.topic.partitions), transaction, numbers)
        if outcome is Outcome.COMMITTED:
            await self.commit_position(position)
        await self.end(transaction, outcome, position)

    async def end_empty(self) -> None:
        request = self.end_request(is_commit=False)

        def note(answer: EndTxnResponse) -> None:
            if not answer.error_code and self.producer_epoch == request.producer_epoch:
                self.take_end(answer, is_commit=False)

        async def ask(client: Client) -> int:
            return (await client.request(request, note=note)).error_code

        await self.until_ended(ask)

    async def wait_out(self, error_code: int, what: str) -> None:
        client = self.connection
        if error_code in FENCED and what == "EndTxn" and self.is_v2 and client is not None:
            is_haunted = self.world.loop.time() < self.haunted_until_s
            if not is_haunted and self.world.coordinates(client, self.transactional_id):
                raise ViolationError(
                    "nobody fences a producer that is alone", f"{self.name}: epoch {self.producer_epoch}"
                )
        await super().wait_out(error_code, what)
