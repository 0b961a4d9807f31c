"""The story of a seed: clients write, read and copy while nodes fail; then everything is healed and must be whole.

The clients are producers with idempotence and acks=all, two members of a group, two copiers with the same transactional
id that fence each other, and one copier that ends its transactions directly one after the other. One topic expires, and
a client deletes its oldest records. One topic is compacted. One topic also gets records with acks 0 and 1, and a reader
reads it from the replica in its rack. In some stories a client creates and ends delegation tokens.

Acknowledged records have at least two in-sync replicas, so every promise is kept during all trouble that `faults`
allows. After the trouble the clients finish their work, the group reads all records, every replica is in sync again,
and all promises are checked by reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress

from moldau.errors import ERROR_CODES
from moldau.simulation.audits import OffsetAuditor
from moldau.simulation.checkers.copy_ledger import CopyLedger, Outcome
from moldau.simulation.checkers.group_ledger import GroupLedger
from moldau.simulation.checkers.ledger import TopicRules
from moldau.simulation.client import UnansweredError
from moldau.simulation.client_world import SimulatedTopic
from moldau.simulation.cluster.administrator import Administrator
from moldau.simulation.cluster.careless import CarelessProducer
from moldau.simulation.cluster.changers import QuotasChanger, SettingsChanger
from moldau.simulation.cluster.copiers import CarefulCopier, SuccessiveCopier
from moldau.simulation.cluster.faults import Act, Faults
from moldau.simulation.cluster.machine import ClusterMachine
from moldau.simulation.cluster.settings import (
    REPLICAS,
    Voters,
    brokers_of,
    fewest_replicas_of,
    has_tokens,
    rack_of,
    voters_of,
)
from moldau.simulation.cluster.token_changer import TokenChanger
from moldau.simulation.cluster.watch import UNCLEAN_ELECTIONS, image_of, partitions_of
from moldau.simulation.cluster.world import ClusterWorld
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.committed_reader import CommittedReader, CopyAuditor
from moldau.simulation.workloads.group_members import GroupMember
from moldau.simulation.workloads.producers import Batch, IdempotentProducer, Lane
from moldau.simulation.workloads.readers import Auditor, Consumer
from moldau.simulation.workloads.record_deleter import RecordDeleter
from moldau.types import METADATA_PARTITION, ZERO_UUID, TopicPartition
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.produce import PartitionProduceResponse
from moldau.wire.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

GROUP = "readers"
COPIER = "copier"
SUCCESSIVE = "successive"
"""Transactional ids, and the groups of their committed offsets."""
OPERATIONS = 200
"""The number of acknowledged operations before clients end. If trouble prevented them, the clients continue after
it."""
OPERATIONS_OF_A_MAJORITY = 20
"""The number of acknowledged operations while one node is away."""
PATIENCE_S = 60.0
"""The virtual time within which a healed cluster must finish its work."""
LOOK_EVERY_S = 0.05
OUT_OF_ORDER_SEQUENCE_NUMBER = ERROR_CODES["OUT_OF_ORDER_SEQUENCE_NUMBER"]
MOST_TIMES_SENT = 100
"""A batch rejected as out of order this often would be rejected by every leader."""
UNCLEAN_SHARE = 0.4
"""The share of seeds in which a topic allows unclean elections."""
RETENTION_MS = 20_000
CLOCKS_APART_MS = 12_000
"""No wall clock is further ahead: see the steps and drifts in `faults`."""
FLUSHED = TopicRules(is_flushed=True)
EXPIRING = TopicRules(is_flushed=True, retention_ms=RETENTION_MS - CLOCKS_APART_MS, is_replicated=True)
COMPACTED_SETTINGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "segment.ms": "1500",
    "file.delete.delay.ms": "500",
}
COMPACTED = TopicRules(is_flushed=True, is_compacted=True, delete_retention_ms=86_400_000)
"""Tombstones stay longer than any replica is away. A replica that missed a tombstone would bring back the deleted
records, as in Kafka."""
EXPIRING_SETTINGS = {"retention.ms": str(RETENTION_MS), "segment.ms": "3000", "file.delete.delay.ms": "500"}


class Story:
    """One seed. `chosen`: only these acts of its trouble happen; None: all."""

    def __init__(self, world: ClusterWorld, chosen: Collection[Act] | None) -> None:
        self.world = world
        self.group = GroupLedger(GROUP, is_flushed=True)
        self.copies = CopyLedger(COPIER)
        self.successive_copies = CopyLedger(SUCCESSIVE)
        self.clients: list[asyncio.Task[None]] = []
        self.events: SimulatedTopic
        self.copied: SimulatedTopic
        self.successive: SimulatedTopic
        self.expiring: SimulatedTopic
        self.careless: SimulatedTopic
        self.compacted: SimulatedTopic
        self.administrator: Administrator
        self.settings = SettingsChanger(world, "settings")
        self.quotas = QuotasChanger(world, "quotas")
        self.tokens = [TokenChanger(world, "tokens")] if has_tokens(world.seed) else []
        self.faults = Faults(world, world.machines, world.lacks_nothing, chosen)

    @property
    def operations(self) -> int:
        """The number of acknowledged records and transactions of copiers so far."""
        committed = sum(outcome is Outcome.COMMITTED for outcome in self.copies.outcomes.values())
        return committed + sum(each.acknowledged_count for each in self.world.ledger.partitions.values())

    async def run(self, seconds: float) -> None:
        """Runs the story. Raises ViolationError."""
        world = self.world
        await asyncio.gather(*(machine.boot() for machine in world.machines))
        self.events = await self.created("events", world.random_of("events").choice((1, 2, 3)))
        self.copied = await self.created("copied", 2)
        self.successive = await self.created("successive", 2)
        self.expiring = await self.created("expiring", 1, EXPIRING, EXPIRING_SETTINGS)
        unclean = str(world.random_of("unclean elections").random() < UNCLEAN_SHARE).lower()
        world.watch.compacted["compacted"] = None
        self.compacted = await self.created("compacted", 1, COMPACTED, COMPACTED_SETTINGS)
        fewest = fewest_replicas_of(world.seed)
        replicas = world.random_of("replicas of careless").randint(fewest, REPLICAS)
        self.careless = await self.created("careless", 1, FLUSHED, {UNCLEAN_ELECTIONS: unclean}, replicas)
        if fewest < REPLICAS:
            # with two replicas, the other one may be lost by a disk fault before this one is back and reported as
            # unclean
            self.faults.losing = self.lose_careless
        if fewest == 1:
            # a replica whose directory is lost waits for it: without another replica the partition stays offline
            self.faults.may_lose_disk = lambda machine: not self.has_careless(machine)
        loops = self.new_clients()
        self.faults.begin([loop.name for loop in loops])
        self.clients = [asyncio.ensure_future(loop.run()) for loop in loops]
        await asyncio.sleep(seconds)
        world.trace.tell("the trouble ends")
        self.faults.end()
        await self.recover()
        await self.audit()
        world.check_nodes()

    # -- the start

    async def created(
        self,
        name: str,
        partitions: int,
        rules: TopicRules = FLUSHED,
        settings: dict[str, str] | None = None,
        replicas: int = REPLICAS,
    ) -> SimulatedTopic:
        world = self.world
        random = world.random_of(f"creation of {name}")
        drawn = {"internal.segment.bytes": str(random.choice((40_000, 150_000, 1 << 20))), **(settings or {})}
        configs = tuple(CreatableTopicConfig(*row) for row in drawn.items())
        topic = CreatableTopic(name, partitions, replicas, configs=configs)
        client = await world.connect("setup", random)
        client.versions[ApiKey.CREATE_TOPICS] = max(4, client.versions[ApiKey.CREATE_TOPICS])
        topic_id = ZERO_UUID
        while topic_id == ZERO_UUID:
            with suppress(UnansweredError):
                await client.request(CreateTopicsRequest((topic,)))
                answer = await client.request(MetadataRequest((MetadataRequestTopic(name=name),), False))
                topic_id = answer.topics[0].topic_id
            await asyncio.sleep(LOOK_EVERY_S)
        client.close()
        return world.new_topic(name, topic_id, partitions, rules)

    def has_careless(self, machine: ClusterMachine) -> bool:
        """Whether the machine has a replica of the topic that may have a single replica."""
        topic = self.world.watch.newest.topics_by_id.get(self.careless.topic_id)
        return topic is not None and machine.node_id in topic.partitions[0].replicas

    def lose_careless(self, machine: ClusterMachine) -> None:
        """The machine loses power, and perhaps records that no other replica has."""
        if self.has_careless(machine):
            self.world.watch.allow_loss((self.careless.topic_id, 0))

    def new_clients(self) -> list[ClientLoop]:
        world = self.world
        world.groups[GROUP] = self.group
        topics = self.events, self.copied, self.successive, self.expiring, self.careless, self.compacted
        self.administrator = Administrator(world, "administrator", topics, self.careless)
        world.racks["reader"] = rack_of(world.random_of("rack of the reader").choice(brokers_of(world.seed)))
        return [
            ClusterProducer(world, "producer-1", self.events),
            ClusterProducer(world, "producer-2", self.events),
            LoneBatchProducer(world, "producer-expiring", self.expiring),
            RecordDeleter(world, "deleter", self.expiring),
            CarelessProducer(world, "careless", self.careless),
            LoneBatchProducer(world, "producer-compacted", self.compacted),
            Consumer(world, "reader-compacted", self.compacted),
            Consumer(world, "reader", self.careless),
            LastingMember(world, "member-1", self.events, self.group),
            LastingMember(world, "member-2", self.events, self.group),
            CarefulCopier(world, "copier-1", self.copied, self.copies, last_transactions=3, writes_astray=False),
            CarefulCopier(world, "copier-2", self.copied, self.copies, rest_s=20.0, writes_astray=False),
            SuccessiveCopier(world, "copier-successive", self.successive, self.successive_copies, writes_astray=False),
            CommittedReader(world, "read-copied", self.copied, self.copies, asks_position=False),
            self.administrator,
            self.settings,
            self.quotas,
            *self.tokens,
        ]

    # -- the end

    async def recover(self) -> None:
        world = self.world
        await self.in_time("clients go on", self.until(lambda: self.operations >= OPERATIONS))
        if voters_of(world.seed) is not Voters.CHANGED:  # there only two voters may be left, which need each other
            await self.go_on_without(world.random_of("away").choice(world.machines))
        world.is_draining = True
        await self.in_time("clients finish", asyncio.gather(*self.clients))
        await self.in_time("every replica is in sync again", self.until(world.is_whole))
        await self.in_time("every replica knows what is committed", self.until(self.is_quiet))
        world.look()
        world.watch.check_whole()
        self.settings.check(world.watch.newest)
        self.quotas.check(world.watch.newest)
        for tokens in self.tokens:
            tokens.check(world.watch.newest)
            await self.in_time("tokens are tried out", tokens.audit())

    async def go_on_without(self, machine: ClusterMachine) -> None:
        """Checks that a healed majority makes progress."""
        await self.in_time("everything is whole again", self.until(self.world.lacks_nothing))
        machine.leave()
        wanted = self.operations + OPERATIONS_OF_A_MAJORITY
        await self.in_time("a majority makes progress", self.until(lambda: self.operations >= wanted))
        machine.come_back()

    async def audit(self) -> None:
        world = self.world
        audits: Sequence[ClientLoop] = [
            Auditor(world, "audit-events", self.events),
            Auditor(world, "audit-expiring", self.expiring),
            Auditor(world, "audit-careless", self.careless),
            Auditor(world, "audit-compacted", self.compacted),
            OffsetAuditor(world, "audit-offsets", self.events, self.group),
            CopyAuditor(world, "audit-copied", self.copied, self.copies),
            CopyAuditor(world, "audit-successive", self.successive, self.successive_copies),
        ]
        await self.in_time("everything can be read", asyncio.gather(*(audit.run() for audit in audits)))

    async def until(self, is_done: Callable[[], bool]) -> None:
        while True:
            if is_done():
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def in_time(self, rule: str, work: Awaitable[object]) -> None:
        """Checks that a healed cluster makes progress."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await work
        except TimeoutError as error:
            raise ViolationError(rule, f"not within {PATIENCE_S} s: {self.standing()}") from error

    def is_quiet(self) -> bool:
        """Whether no client writes, and every replica has all records and knows that they are committed."""
        ends: dict[TopicPartition, int] = {}
        for machine in self.world.machines:
            node = machine.node
            if node is None:
                return False
            log_end = node.quorum.log.log_end_offset
            if not image_of(node).end_offset == log_end == ends.setdefault(METADATA_PARTITION, log_end):
                return False
            for partition in partitions_of(node):
                position = partition.position
                end = ends.setdefault(partition.topic_partition, position.log_end_offset)
                if not position.high_watermark == position.log_end_offset == end:
                    return False
        return True

    def standing(self) -> str:
        """The state of the nodes for people: what each one lacks."""
        image = self.world.watch.newest
        lines = [
            f"{topic.name}-{index}: leader {one.leader}, isr {one.isr}, elr {one.eligible_leader_replicas}"
            for topic in image.topics_by_id.values()
            for index, one in topic.partitions.items()
        ]
        lines += [f"{machine.host}: {'up' if machine.is_up else 'down'}" for machine in self.world.machines]
        lines += [f"waits: {task.get_name()}" for task in self.clients if not task.done()]
        return "; ".join(lines)


class ClusterProducer(IdempotentProducer):
    """A producer for changing leaders. It sends a single batch until one is accepted, because a log without state of
    the producer accepts any batch first. It sends no new batch after repeated ones, because a log remembers only the
    last five."""

    async def step(self) -> None:
        try:
            await super().step()
        except UnansweredError:
            # one leader may have appended a batch that the next one rejects, or treats as a repeat
            for lane in self.lanes.values():
                for batch in lane.unacknowledged:
                    batch.is_in_doubt = True
            raise

    def partition_answered(self, lane: Lane, batch: Batch, response: PartitionProduceResponse) -> None:
        """A replaced leader that does not know it yet lacks batches that the next leader has accepted."""
        if response.error_code == OUT_OF_ORDER_SEQUENCE_NUMBER and batch.times_sent < MOST_TIMES_SENT:
            lane.is_refused = True
        else:
            super().partition_answered(lane, batch, response)

    def most_in_flight(self, lane: Lane) -> int:
        if lane.unacknowledged:
            return 0
        is_known = self.producer_id in lane.ledger.last_sequences
        return super().most_in_flight(lane) if is_known else 1


class LoneBatchProducer(ClusterProducer):
    """Sends one batch at a time. If all its records were deleted, a new leader without its state accepts any batch
    first."""

    def most_in_flight(self, lane: Lane) -> int:
        return min(1, super().most_in_flight(lane))


class LastingMember(GroupMember):
    """Ends when the group has committed the ends of all partitions."""

    def is_done(self) -> bool:
        return super().is_done() and all(
            self.group.offset(self.topic.name, partition).known >= self.topic.ledger(self.world, partition).end
            for partition in range(self.topic.partitions)
        )
