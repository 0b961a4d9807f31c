"""The story of a seed: its topics and clients, its faults and their times, and the required end.

Each seed has only a few kinds of trouble, because a run with all of them would not get far. Then everything is healed,
the clients finish their work, and all promises are checked by reading: once from the running node, and once more after
a last crash or stop, because the state rebuilt from the log must equal the state before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from moldau.simulation.audits import GroupDescriber, OffsetAuditor, TopicAudit
from moldau.simulation.checkers.copy_ledger import CopyLedger
from moldau.simulation.checkers.group_ledger import GroupLedger
from moldau.simulation.checkers.ledger import TopicRules
from moldau.simulation.client import BrokerClient, UnansweredError
from moldau.simulation.client_world import SimulatedTopic
from moldau.simulation.flipped_bits import FlippedBits
from moldau.simulation.kinds import OFFSETS_RETENTION_MINUTES, directory_path, has_kind
from moldau.simulation.links import NetworkWeather
from moldau.simulation.troubles import Troubles
from moldau.simulation.used_up_epochs import use_up_epochs
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.committed_reader import CommittedReader, CopyAuditor
from moldau.simulation.workloads.directory_mover import DirectoryMover
from moldau.simulation.workloads.epoch_asker import EpochAsker
from moldau.simulation.workloads.group_members import GroupMember
from moldau.simulation.workloads.large_batches import large_batch_clients
from moldau.simulation.workloads.long_asker import WIDE, WIDE_PARTITIONS, LongAsker
from moldau.simulation.workloads.pipeliner import PIPELINED, Pipeliner
from moldau.simulation.workloads.producers import IdempotentProducer, LateProducer, PlainProducer
from moldau.simulation.workloads.questioner import Questioner
from moldau.simulation.workloads.quota_admin import LimitedProducer, QuotaAdmin, QuotaAuditor
from moldau.simulation.workloads.readers import Auditor, Consumer
from moldau.simulation.workloads.record_deleter import RecordDeleter
from moldau.simulation.workloads.refuser import Refuser
from moldau.simulation.workloads.session_reader import SessionReader
from moldau.simulation.workloads.settings_admin import SettingsAdmin, SettingsAuditor, SettingsLedger
from moldau.simulation.workloads.simple_positions import ExpiryAuditor, SimplePositions
from moldau.simulation.workloads.stale_sender import StaleSender
from moldau.simulation.workloads.time_searcher import TimeSearcher
from moldau.simulation.workloads.topic_admin import PassingReader, TopicAdmin
from moldau.simulation.workloads.transactional_copier import TransactionalCopier
from moldau.simulation.world import World
from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

DRAIN_PATIENCE_S = 120.0
AUDIT_PATIENCE_S = 120.0
GROUP = "readers"
SIMPLE_GROUP = "positions"
COPIER = "copier"
"""A transactional id, and the group of its committed offsets."""
LATE_BATCHES = 10
SHORTEST_RETENTION_MS = 2_000
"""The shortest retention that the settings administrator gives to the expiring topic."""


class Scenario:
    """One seed's story."""

    def __init__(self, world: World, seconds: float) -> None:
        self.world = world
        self.broker = world.broker
        self.seconds = seconds
        self.is_all_flushed = world.settings.get("log.flush.interval.messages") == "1"
        self.topics: list[SimulatedTopic] = []
        self.group = GroupLedger(GROUP, is_flushed=self.is_all_flushed)
        self.positions = GroupLedger(SIMPLE_GROUP, is_flushed=self.is_all_flushed)
        self.settings_ledger = SettingsLedger()
        self.group_topic: SimulatedTopic
        self.troubles = Troubles(world)
        self.clients: list[asyncio.Task[None]] = []
        self.admins: list[TopicAdmin] = []
        self.quotas: QuotaAdmin | None = None
        self.copies: SimulatedTopic | None = None
        """The target topic of the transactional copiers."""
        self.copy_ledger = CopyLedger(COPIER)
        self.flipped_bits: FlippedBits | None = None
        if has_kind(world.seed, "flipped bits"):
            self.flipped_bits = FlippedBits(world, self.topics)
            world.after_end = self.flipped_bits.process_ended

    async def run(self) -> None:
        world = self.world
        if not await self.broker.boot():
            raise ViolationError("the node starts and stops", "the first start failed")
        await self.create_topics()
        if self.copies is not None and world.random_of("used-up epochs").random() < 0.5:
            await use_up_epochs(world, COPIER)
            self.broker.kill("process")
            await self.troubles.restart(is_trouble_allowed=False)
        self.start_clients()
        await self.troubles.run(self.seconds)
        await self.heal()
        await self.drain()
        await self.let_clean()
        await self.audit("before the last restart")
        await self.last_restart()
        await self.audit("after the last restart")
        await self.check_bound()
        if has_kind(world.seed, "expired positions"):
            await self.expire()
        await self.broker.stop()
        world.check_node()
        if self.flipped_bits is not None:
            await self.flipped_bits.run()

    # -- the start

    async def create_topics(self) -> None:
        """Creates one topic that flushes each batch, one that leaves it to the page cache, one with retention, and one
        compacted."""
        random_of = self.world.random_of
        random = random_of("topics")
        small = {
            "internal.segment.bytes": str(random.choice((40_000, 60_000, 150_000))),
            "index.interval.bytes": str(random.choice((0, 100, 4_096))),
        }
        await self.create_topic("flushed", random.randint(1, 2), {"flush.messages": "1", **small})
        await self.create_topic("cached", random.randint(1, 2), small)
        retention = {"retention.ms": "4000", "segment.ms": "1500", "file.delete.delay.ms": "500"}
        await self.create_topic("expiring", 1, retention | small)
        random = random_of("topic compacted")
        compaction = {
            "cleanup.policy": "compact",
            "flush.messages": "1",
            "min.cleanable.dirty.ratio": random.choice(("0.0", "0.3")),
            "delete.retention.ms": random.choice(("0", "1000", "86400000")),
            "min.compaction.lag.ms": random.choice(("0", "0", "1500")),
            "segment.ms": random.choice(("700", "3000")),
            "file.delete.delay.ms": "500",
        }
        await self.create_topic("compacted", 1, compaction | small)
        if has_kind(self.world.seed, "retention by bytes"):
            await self.create_bounded_topic()
        if has_kind(self.world.seed, "large batches"):
            await self.create_topic("large", 1, {})
        if has_kind(self.world.seed, "pipelines"):
            await self.create_topic(PIPELINED, 1, {"flush.messages": "1", "retention.ms": "3600000"})
        if has_kind(self.world.seed, "long requests"):
            await self.create_topic(WIDE, WIDE_PARTITIONS, {"flush.messages": "1"})
        if has_kind(self.world.seed, "transactions"):
            copies = {"flush.messages": "1", **small}
            if self.world.random_of("transactions").random() < 0.5:
                # every key occurs once, so compaction removes only aborted records and markers
                copies |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.ms": "700"}
                copies |= {"delete.retention.ms": "0", "file.delete.delay.ms": "500"}
            await self.create_topic("copies", 2, copies)
            # a client without transactions cannot read it
            self.copies = self.topics.pop()
        self.group_topic = random_of("group topic").choice(self.topics[:2])
        self.world.groups[GROUP] = self.group
        self.world.groups[SIMPLE_GROUP] = self.positions

    async def create_bounded_topic(self) -> None:
        """Creates a topic whose log has a limited size."""
        random = self.world.random_of("retention by bytes")
        configs = {
            "retention.bytes": str(random.choice((60_000, 150_000))),
            "internal.segment.bytes": str(random.choice((40_000, 60_000))),
            "file.delete.delay.ms": "500",
        }
        await self.create_topic("bounded", 1, configs)
        self.topics[-1].ledger(self.world, 0).bytes_left = lambda start: sum(
            size for base_offset, size in self.broker.segment_sizes("bounded", 0) if base_offset >= start
        )

    async def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        request = CreateTopicsRequest(
            (CreatableTopic(name, partitions, 1, (), tuple(CreatableTopicConfig(*row) for row in configs.items())),)
        )
        random = self.world.random_of(f"creation of {name}")
        client = await BrokerClient.open(self.world.network, "setup", self.broker.host, random)
        answer = await client.request(request)
        if answer.topics[0].error_code:
            raise ViolationError("topics can be created", f"{name}: {answer.topics[0]}")
        topic_id = await self.topic_id(client, name, partitions)
        client.close()
        is_flushed = self.is_all_flushed or "flush.messages" in configs
        retention_ms = int(configs["retention.ms"]) if "retention.ms" in configs else None
        rules = TopicRules(
            is_flushed=is_flushed,
            is_compacted="cleanup.policy" in configs,
            retention_ms=SHORTEST_RETENTION_MS if name == "expiring" else retention_ms,
            retention_bytes=int(configs["retention.bytes"]) if "retention.bytes" in configs else None,
            delete_retention_ms=int(configs.get("delete.retention.ms", 0)),
        )
        topic = self.world.new_topic(name, topic_id, partitions, rules)
        self.topics.append(topic)
        self.settings_ledger.created(name, configs)

    async def topic_id(self, client: BrokerClient, name: str, partitions: int) -> Uuid:
        client.versions[ApiKey.METADATA] = max(10, client.versions[ApiKey.METADATA])
        request = MetadataRequest((MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        answer = await client.request(request)
        found = answer.topics[0]
        if found.error_code or len(found.partitions) != partitions or found.topic_id == ZERO_UUID:
            raise ViolationError("created topics exist", f"{name}: {found}")
        return found.topic_id

    def topic(self, name: str) -> SimulatedTopic:
        return next(topic for topic in self.topics if topic.name == name)

    def start_clients(self) -> None:
        world = self.world
        flushed, cached, expiring, compacted = self.topics[:4]
        self.admins = [TopicAdmin(world, "admin", ("passing-a", "passing-b"))]
        loops: list[ClientLoop] = [
            IdempotentProducer(world, "idem-flushed", flushed),
            IdempotentProducer(world, "idem-cached", cached),
            PlainProducer(world, "plain-any", world.random_of("plain topic").choice((flushed, cached))),
            PlainProducer(world, "plain-expiring", expiring),
            IdempotentProducer(world, "idem-compacted", compacted),
            PlainProducer(world, "plain-compacted", compacted),
            Consumer(world, "read-compacted", compacted),
            SettingsAdmin(world, "settings", self.settings_ledger),
            SimplePositions(world, "positions", flushed, self.positions),
            RecordDeleter(world, "deleter", expiring),
            Consumer(world, "read-flushed", flushed),
            Consumer(world, "read-cached", cached),
            Consumer(world, "read-expiring", expiring),
            GroupMember(world, "member-1", self.group_topic, self.group),
            GroupMember(world, "member-2", self.group_topic, self.group),
            *self.admins,
            PassingReader(world, "read-passing", ("passing-a", "passing-b")),
            *self.loops_of_kinds(),
        ]
        self.clients = [asyncio.ensure_future(loop.run()) for loop in loops]

    def loops_of_kinds(self) -> list[ClientLoop]:
        """Clients that only some seeds have."""
        world, topics = self.world, tuple(self.topics)
        loops: list[ClientLoop] = []
        if has_kind(world.seed, "retention by bytes"):
            bounded = self.topic("bounded")
            loops += [PlainProducer(world, "plain-bounded", bounded), Consumer(world, "read-bounded", bounded)]
        if has_kind(world.seed, "large batches"):
            loops += large_batch_clients(world, self.topic("large"))
        if has_kind(world.seed, "pipelines"):
            loops.append(Pipeliner(world, "pipeliner", self.topic(PIPELINED)))
        if has_kind(world.seed, "long requests"):
            loops.append(LongAsker(world, "long", self.topic(WIDE)))
        if has_kind(world.seed, "sessions"):
            loops.append(SessionReader(world, "session", topics[:3]))
        if has_kind(world.seed, "times"):
            loops.append(TimeSearcher(world, "times", topics))
        if has_kind(world.seed, "epochs"):
            loops.append(EpochAsker(world, "epochs", topics))
        if has_kind(world.seed, "questions"):
            loops.append(Questioner(world, "questions", topics))
        if has_kind(world.seed, "refusals"):
            loops.append(Refuser(world, "refuser"))
        if has_kind(world.seed, "directories"):
            paths = tuple(directory_path(place) for place in range(len(self.broker.disks)))
            loops.append(DirectoryMover(world, "mover", topics, paths))
        if self.copies is not None:
            loops += [
                TransactionalCopier(world, "copier-1", self.copies, self.copy_ledger, last_transactions=8),
                TransactionalCopier(world, "copier-2", self.copies, self.copy_ledger, rest_s=6.0),
                StaleSender(world, "stale", self.copies, self.copy_ledger),
                CommittedReader(world, "read-copies", self.copies, self.copy_ledger),
            ]
        if has_kind(world.seed, "quotas"):
            self.quotas = QuotaAdmin(world, "quotas")
            loops += [self.quotas, LimitedProducer(world, topics[1], self.quotas)]
        return loops

    # -- the end

    async def heal(self) -> None:
        """Ends all trouble and starts the node."""
        world = self.world
        world.trace.tell("heal")
        self.broker.heal_disks()
        self.broker.limit_disks(None)
        self.broker.worker_weather.delay_max = 0.01
        world.network.weather = NetworkWeather()
        world.network.mend()
        for disk in self.broker.process_disks:
            disk.plan = None
        world.transactions.when_decided = None
        if self.broker.is_up and self.troubles.is_restart_needed:
            self.broker.kill("process")
        if not self.broker.is_up:
            await self.troubles.restart(is_trouble_allowed=False)

    async def drain(self) -> None:
        """Waits until the clients have finished their work, which a healthy node must allow."""
        world = self.world
        world.is_draining = True
        try:
            async with asyncio.timeout(DRAIN_PATIENCE_S):
                await asyncio.gather(*self.clients)
        except TimeoutError as error:
            raise ViolationError("a healthy node makes progress", "the clients could not finish") from error
        world.check_node()

    async def let_clean(self) -> None:
        """Has the compacted topic cleaned several times while most keys do not change."""
        if not has_kind(self.world.seed, "late cleaning"):
            return
        late = LateProducer(self.world, "late", self.topics[3])
        for _ in range(LATE_BATCHES):
            try:
                await late.step()
            except UnansweredError as error:
                raise ViolationError("a healthy node answers", str(error)) from error
            await asyncio.sleep(1.0)
        late.close()

    async def last_restart(self) -> None:
        world = self.world
        kind = world.random_of("last restart").choice(("process", "clean", "machine"))
        before = GroupDescriber(world, "describe-before", GROUP)
        await before.run()
        metadata = world.metadata()
        if kind == "clean":
            await self.broker.stop()
        else:
            self.broker.kill(kind)
        await self.troubles.restart(is_trouble_allowed=False)
        after = GroupDescriber(world, "describe-after", GROUP)
        await after.run()
        if world.metadata() != metadata:
            raise ViolationError("folding the log gives the state", f"metadata {metadata} became {world.metadata()}")
        is_kept = kind != "machine" or self.is_all_flushed
        if is_kept and before.is_stable and before.described != after.described:
            raise ViolationError(
                "folding the log gives the state", f"group {before.described} became {after.described}"
            )

    async def audit(self, when: str) -> None:
        """Reads and checks everything."""
        world = self.world
        world.trace.tell(f"audit {when}")
        async with _patience(f"the audit {when}"):
            auditors = [Auditor(world, f"audit-{topic.name}-{when}", topic) for topic in self.topics]
            await asyncio.gather(*(auditor.run() for auditor in auditors))
            offsets = OffsetAuditor(world, f"audit-offsets-{when}", self.group_topic, self.group)
            await offsets.run()
            await self.audit_positions(when, is_expired=False)
            if self.copies is not None:
                await CopyAuditor(world, f"audit-copies-{when}", self.copies, self.copy_ledger).run()
            await SettingsAuditor(world, f"audit-settings-{when}", self.settings_ledger).run()
            if self.quotas is not None:
                await QuotaAuditor(self.quotas, f"audit-quotas-{when}").run()
            for admin in self.admins:
                audit = TopicAudit(admin, f"audit-topics-{when}")
                await audit.run()
        world.check_node()

    async def check_bound(self) -> None:
        """Clients have stopped writing, so the bounded log must soon have no superfluous segment."""
        if not has_kind(self.world.seed, "retention by bytes"):
            return
        await asyncio.sleep(2 * float(self.world.settings["log.retention.check.interval.ms"]) / 1_000 + 2)
        bound = self.topic("bounded").ledger(self.world, 0).rules.retention_bytes or 0
        sizes = [size for _, size in self.broker.segment_sizes("bounded", 0)]
        if sizes and sum(sizes) - bound >= sizes[0]:
            raise ViolationError("retention by bytes keeps its bound", f"segments of {sizes} bytes, allowed {bound}")

    async def audit_positions(self, when: str, *, is_expired: bool) -> None:
        for topic, group in ((self.group_topic, self.group), (self.topics[0], self.positions)):
            await ExpiryAuditor(self.world, f"{when}-{group.group}", topic, group, is_expired=is_expired).run()

    async def expire(self) -> None:
        """Clients have stopped committing: half-way all committed offsets must exist, after the retention none."""
        retention_s = OFFSETS_RETENTION_MINUTES * 60
        self.broker.clock.set_off(0)
        await asyncio.sleep(retention_s / 2 - self.seconds)
        async with _patience("the audit of positions half-way"):
            await self.audit_positions("half-way", is_expired=False)
        # sessions must end first, and a clock that was ahead made the last commits look younger
        await asyncio.sleep(retention_s / 2 + 100)
        async with _patience("the audit of expired positions"):
            await self.audit_positions("expired", is_expired=True)


@asynccontextmanager
async def _patience(what: str) -> AsyncIterator[None]:
    """Raises ViolationError if a healthy node takes longer than AUDIT_PATIENCE_S."""
    try:
        async with asyncio.timeout(AUDIT_PATIENCE_S):
            yield
    except TimeoutError as error:
        raise ViolationError("a healthy node makes progress", f"{what} could not finish") from error
