"""`python -m moldau.simulation.late_end_txn --seeds 1..10000 --jobs 2` tests an EndTxn that arrives late, without other
faults.

A producer repeats an EndTxn because the response to the first one was lost. The network delivers the first one later:
before the next transaction begins, while it is open, or after it has ended. Sometimes the broker restarts in between.

v2     the late request ends nothing: every transaction is whole, committed or aborted as its producer asked.
v1     nothing in the request says which transaction it belongs to, so it may end the open one, and the producer meets
       an error, or what it writes afterwards is another transaction (docs/reference/compatibility.md, "A late
       EndTxn"). Every other transaction is whole, and nothing stays open.

The exit code is 0 if no rule was broken, else 1.
"""

from __future__ import annotations

import asyncio
import enum
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence

from moldau.simulation.checkers.copy_ledger import CopyLedger, Outcome
from moldau.simulation.client import BrokerClient, Client, UnansweredError
from moldau.simulation.client_world import SimulatedTopic
from moldau.simulation.kinds import random_of
from moldau.simulation.loop import virtual_loop
from moldau.simulation.run import violation_of, without_collections
from moldau.simulation.seeds import SeedOutcome, how_it_ended, run_seeds, seed_parser
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.committed_reader import CommittedReader
from moldau.simulation.workloads.transactional_client import LifeOverError, TransactionalClient
from moldau.simulation.world import World
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.protocol.messages.transactions import EndTxnRequest, EndTxnResponse

TOPIC = "target"
TRANSACTIONAL_ID = "late"
TIMEOUT_MS = 60_000
TRANSACTIONS = 3
LONGEST_DELAY_S = 0.06
"""The longest delay of the late request: about as long as two transactions."""
PATIENCE_S = 30.0
COLLECTED_EVERY = 50
"""The number of seeds between runs of Python's cycle collector, which takes longer than a seed."""


class Way(enum.Enum):
    """The effect of a late EndTxn, with its name in the command's output."""

    REFUSED_V2 = "v2: refused"
    REPEAT_V2 = "v2: no transaction was open, so it repeats the last end"
    REFUSED_V1 = "v1: refused"
    REPEAT_V1 = "v1: no transaction was open, so it repeats the last end"
    ENDED_OPEN_V1 = "v1: it ended the open transaction"
    TORN_V1 = "v1: it ended the open transaction, of which another part has another outcome"
    UNANSWERED = "no answer: the broker was killed"


class LateOutcome(SeedOutcome, frozen=True, kw_only=True):
    """The outcome of one seed."""

    way: Way


class LateProducer(TransactionalClient):
    """Runs three transactions. The end of one of the first two is sent again, late."""

    world: World

    def __init__(self, world: World, topic: SimulatedTopic) -> None:
        super().__init__(world, "producer", topic, TRANSACTIONAL_ID)
        self.is_v2 = self.random.random() < 0.5
        self.is_alive = False
        self.transactions = 0
        self.numbers = 0
        self.outcomes: dict[str, Outcome] = {}
        """The outcome that the producer requested for each transaction, and that was acknowledged."""
        self.records: dict[int, str] = {}
        """The transaction of each number."""
        self.current = ""
        """The present transaction, from its first request to the response to its end."""
        self.disturbed: dict[str, None] = {}
        """With the first protocol: transactions during which the late request was in flight."""
        self.late_after = self.random.choice((1, 2))
        self.late: asyncio.Task[None] | None = None
        self.is_late_under_way = False
        self.late_error = -1
        """The error code of the late request; -1 without a response."""
        self.late_is_commit = False

    def is_done(self) -> bool:
        return self.transactions == TRANSACTIONS

    async def step(self) -> None:
        if not self.is_alive:
            self.is_alive = await self.begin_producer(TIMEOUT_MS)
            return
        self.transactions += 1
        self.current = transaction = f"t{self.transactions}"
        self.note_disturbed()
        try:
            await self.one_transaction(transaction)
        except LifeOverError as reason:
            self.world.trace.tell(f"{transaction}: {reason}")
            if self.is_v2 or transaction not in self.disturbed:
                raise ViolationError("a late EndTxn is refused", f"{transaction}: {reason}") from reason
            self.is_alive = False
        self.current = ""
        if self.transactions == self.late_after and self.random.random() < 0.1:
            self.world.broker.kill("process")
            await self.world.broker.boot()

    async def one_transaction(self, transaction: str) -> None:
        for _ in range(self.random.randint(1, 4)):
            await asyncio.sleep(self.random.uniform(0, 0.01))
            partition = self.random.randrange(self.topic.partitions)
            self.records[self.numbers] = transaction
            self.numbers += 1
            await self.write(partition, transaction, [self.numbers - 1])
        is_commit = self.random.random() < 0.5
        request = self.end_request(is_commit=is_commit)

        def note(answer: EndTxnResponse) -> None:
            if not answer.error_code:
                self.outcomes[transaction] = Outcome.COMMITTED if is_commit else Outcome.ABORTED
                self.world.trace.tell(f"{transaction} is {self.outcomes[transaction].value}")
                self.take_end(answer, is_commit=is_commit)

        async def ask(client: Client) -> int:
            return (await client.request(request, note=note)).error_code

        await self.until_taken(ask, "EndTxn")
        if self.transactions == self.late_after:
            self.late_is_commit = is_commit
            self.late = asyncio.ensure_future(self.arrive_late(request))

    def note_disturbed(self) -> None:
        if self.is_late_under_way and self.current:
            self.disturbed[self.current] = None

    async def arrive_late(self, request: EndTxnRequest) -> None:
        """Sends the request again later, as if the network had delayed it."""
        random = self.world.random_of("late")
        await asyncio.sleep(random.uniform(0, LONGEST_DELAY_S))
        self.is_late_under_way = not self.is_v2
        self.note_disturbed()
        try:
            client = await BrokerClient.open(self.world.network, "late", self.world.broker.host, random)
            self.adapt_versions(client)
            self.world.trace.tell(f"the late EndTxn ({'commit' if request.committed else 'abort'}) arrives")
            self.late_error = (await client.request(request)).error_code
        except UnansweredError:
            return
        finally:
            self.is_late_under_way = False
        self.world.trace.tell(f"the late EndTxn gets {self.late_error}")


class WholeReader(CommittedReader):
    """Reads the topic once, to its end."""

    def is_done(self) -> bool:
        ends = self.high_watermarks
        return all(0 <= ends[partition] <= offset for partition, offset in self.offsets.items())


class LateScenario:
    """One seed's story."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.way = Way.UNANSWERED

    async def run(self) -> None:
        world = self.world
        await world.broker.boot()
        topic = await self.create_topic()
        producer = LateProducer(world, topic)
        ledger = CopyLedger(TRANSACTIONAL_ID)
        reader = WholeReader(world, "reader", topic, ledger)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await producer.run()
                if producer.late is not None:
                    await producer.late
                if producer.joined:
                    # its open transaction is for the next producer to end
                    while not await producer.begin_producer(TIMEOUT_MS):
                        pass
                for transaction in producer.records.values():
                    # `check` decides which of them may be visible: the late request may commit another transaction
                    ledger.commit_begun(transaction)
                await reader.run()
        except TimeoutError as error:
            raise ViolationError("nothing stays open", f"{reader.offsets} of {reader.high_watermarks}") from error
        visible = {copied.number for records in reader.seen.values() for _, copied in records}
        self.way = self.check(producer, visible)

    async def create_topic(self) -> SimulatedTopic:
        random = self.world.random_of("setup")
        client = await BrokerClient.open(self.world.network, "setup", self.world.broker.host, random)
        partitions = random.randint(1, 3)
        await client.request(CreateTopicsRequest((CreatableTopic(TOPIC, partitions, 1),)))
        client.versions[ApiKey.METADATA] = max(10, client.versions[ApiKey.METADATA])
        answer = await client.request(MetadataRequest((MetadataRequestTopic(name=TOPIC),)))
        client.close()
        return SimulatedTopic(TOPIC, answer.topics[0].topic_id, partitions)

    def check(self, producer: LateProducer, visible: set[int]) -> Way:
        """Compares the records `visible` to a read_committed reader with the requested outcomes."""
        torn = ended = False
        late = Outcome.COMMITTED if producer.late_is_commit else Outcome.ABORTED
        for transaction in dict.fromkeys(producer.records.values()):
            numbers = [number for number, of in producer.records.items() if of == transaction]
            seen = [number for number in numbers if number in visible]
            asked = producer.outcomes.get(transaction)
            if transaction not in producer.disturbed:
                wanted = numbers if asked is Outcome.COMMITTED else []
                if seen != wanted:
                    story = f"{transaction} was {asked}, of {numbers} {seen} are committed"
                    raise ViolationError("a transaction is all or nothing", story)
                continue
            if seen and Outcome.COMMITTED not in (asked, late):
                raise ViolationError("aborted records are not read", f"{transaction}: {seen}, asked {asked}")
            is_torn = 0 < len(seen) < len(numbers)
            torn = torn or is_torn
            ended = ended or is_torn or asked is None or bool(seen) != (asked is Outcome.COMMITTED)
        if producer.late_error < 0:
            return Way.UNANSWERED
        if producer.is_v2:
            return Way.REFUSED_V2 if producer.late_error else Way.REPEAT_V2
        if producer.late_error:
            return Way.REFUSED_V1
        return Way.TORN_V1 if torn else Way.ENDED_OPEN_V1 if ended else Way.REPEAT_V1


def run_seed(seed: int, *, write_line: Callable[[str], None] | None = None) -> LateOutcome:
    """Runs one seed. Deterministic: the same code and seed give the same digest."""
    began = time.perf_counter()
    with without_collections(is_collected_after=seed % COLLECTED_EVERY == 0), virtual_loop() as loop:
        world = World(seed, loop, _settings(seed), write_line)
        scenario = LateScenario(world)
        try:
            violation = violation_of(world, scenario.run())
        finally:
            world.end_work()
    return LateOutcome(
        seed=seed,
        **how_it_ended(world.trace, violation),
        acknowledged=0,
        elapsed_s=time.perf_counter() - began,
        way=scenario.way,
    )


def _settings(seed: int) -> dict[str, str]:
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://broker:9092",
        "transaction.state.log.num.partitions": "1",
        "log.flush.interval.messages": random_of(seed, "flush").choice(("1", str((1 << 63) - 1))),
    }


def main(arguments: list[str] | None = None) -> int:
    """Runs the seeds on the command line. Returns the exit code."""
    command = "moldau.simulation.late_end_txn"
    options = seed_parser(command, __doc__).parse_args(arguments)
    gc.freeze()
    exit_code = run_seeds(command, options, run_seed, lambda outcome: outcome.way.value, _totals)
    gc.unfreeze()
    return exit_code


def _totals(seen: Sequence[LateOutcome]) -> str:
    ways = Counter(outcome.way for outcome in seen if not outcome.rule)
    return "\n".join(["by what the late request led to", *(f"{ways[way]:9,}  {way.value}" for way in Way), "in all"])


if __name__ == "__main__":
    sys.exit(main())
