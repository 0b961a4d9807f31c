"""A producer that repeats a batch of an aborted transaction in a later transaction of the same epoch.

A network that delays a request, or a client that has lost count, has the same effect. Between the two sends it rests
while others write to the partition: segments are rolled and cleaned, and the node may die and recover its producers
from the log. With the first protocol the epoch does not change, so the sequences continue: the batch is a repeat and
must not be stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.simulation.checkers.copy_ledger import CopyLedger, Outcome
from moldau.simulation.client import Client, UnansweredError
from moldau.simulation.transaction_events import TransactionEvent
from moldau.simulation.workloads.transactional_client import LIFE_OVER, MAX_TRIES, LifeOverError, TransactionalClient

if TYPE_CHECKING:
    from moldau.simulation.client_world import SimulatedTopic
    from moldau.simulation.world import World

TIMEOUT_MS = 5_000
RESTS_S = (0.5, 2.0, 4.0)


class StaleSender(TransactionalClient):
    """See the module. All its records belong to an aborted transaction."""

    world: World

    def __init__(self, world: World, name: str, topic: SimulatedTopic, ledger: CopyLedger) -> None:
        super().__init__(world, name, topic, name)
        self.ledger = ledger
        self.lives = 0

    def key_of(self, number: int) -> bytes:
        return f"{self.name}/{self.lives}/{number}".encode()

    async def step(self) -> None:
        try:
            if await self.begin_producer(TIMEOUT_MS):
                await self.live()
        except LifeOverError as reason:
            self.world.trace.note("life over", self.name, str(reason))
        await self.pause()

    async def live(self) -> None:
        self.lives += 1
        transaction = f"{self.name}/{self.lives}"
        self.ledger.begun(transaction)
        self.ledger.ended(transaction, Outcome.ABORTED, 0)
        partition = self.random.randrange(self.topic.partitions)
        batch = await self.write(partition, transaction, list(range(self.random.choice((1, 3)))))
        await self.end(is_commit=False)
        self.world.stale_batch = partition, self.end_of_log(partition)
        await self.rest(self.random.choice(RESTS_S))
        self.close()
        await self.reach_broker()
        await self.until_taken(lambda client: self.add_partition(client, partition), "AddPartitionsToTxn")
        self.note_joined(partition)
        self.world.stale_batch = None
        for _ in range(MAX_TRIES):
            error_code = await self.produce(await self.client(), partition, batch)
            if not error_code or error_code in LIFE_OVER:
                break
            await self.wait_out(error_code, "a stale batch")
        self.world.trace.note("stale", self.name, partition, error_code)
        self.world.count(TransactionEvent.BATCH_REPEATED)
        await self.end(is_commit=True)

    def end_of_log(self, partition: int) -> int:
        """The end of the log at the node. The marker of the transaction is below it, or comes next."""
        node = self.world.broker.node
        return 0 if node is None else node.broker.partitions.find(self.topic.name, partition).log.log_end_offset

    async def reach_broker(self) -> None:
        """Waits until a connection is open. No request is in flight, so an unavailable broker ends no life."""
        while True:
            try:
                await self.client()
                return
            except UnansweredError:
                if self.world.is_draining:
                    raise
                await self.pause()

    async def end(self, *, is_commit: bool) -> None:
        async def ask(client: Client) -> int:
            answer = await client.request(self.end_request(is_commit=is_commit))
            if not answer.error_code:
                self.take_end(answer, is_commit=is_commit)
            return answer.error_code

        await self.until_taken(ask, "EndTxn")
