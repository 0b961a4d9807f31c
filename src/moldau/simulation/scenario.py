"""From a seed to a story: which topics and clients there are, what goes wrong and when, and how it must end.

Each seed draws a few kinds of trouble and leaves the others out (a run with every trouble at once reaches no depth).
Then everything is healed, the clients finish what they owe, and all that was promised is read back: once from the
running node, and once more after a last crash or stop, for what was folded from the log must be what was there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.shell.io.twins.memory_disk import Fault, Operation
from moldau.simulation.checkers.group_ledger import GroupLedger
from moldau.simulation.client import BrokerClient, UnansweredError
from moldau.simulation.network import NetworkWeather
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.group_members import GROUP_ID_NOT_FOUND, GroupMember, fetch_offsets, find_coordinator
from moldau.simulation.workloads.producers import IdempotentProducer, PlainProducer
from moldau.simulation.workloads.readers import Auditor, Consumer
from moldau.simulation.workloads.record_deleter import RecordDeleter
from moldau.simulation.workloads.settings_admin import SettingsAdmin, SettingsAuditor, SettingsLedger
from moldau.simulation.workloads.simple_positions import ExpiryAuditor, SimplePositions
from moldau.simulation.workloads.topic_admin import PassingReader, TopicAdmin
from moldau.simulation.world import SimulatedTopic, World
from moldau.types import ZERO_UUID, Uuid
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

DRAIN_PATIENCE_S = 120.0
AUDIT_PATIENCE_S = 120.0
GROUP = "readers"
SIMPLE_GROUP = "positions"
OFFSETS_RETENTION_MINUTES = 5
"""Longer than any story lasts, so that nothing expires before its end."""
EXPIRY_SHARE = 0.2


def settings_of(world_random_below: Callable[[int], int]) -> dict[str, str]:
    """The broker's settings of this seed: small, so that rolls, checkpoints and retention happen within seconds."""

    def choose(*values: int | str) -> str:
        return str(values[world_random_below(len(values))])

    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://broker:9092",
        "offsets.topic.num.partitions": choose(1, 2),
        "group.initial.rebalance.delay.ms": choose(0, 500),
        "log.flush.offset.checkpoint.interval.ms": choose(500, 5_000, 60_000),
        "log.flush.start.offset.checkpoint.interval.ms": choose(500, 5_000),
        "replica.high.watermark.checkpoint.interval.ms": choose(500, 5_000),
        "log.retention.check.interval.ms": choose(1_000, 3_000),
        "log.initial.task.delay.ms": choose(100, 1_000),
        "auto.create.topics.enable": "false",
        "log.cleaner.backoff.ms": choose(200, 1_000),
        "log.cleaner.dedupe.buffer.size": choose(2_000, 1_000_000),
        "offsets.retention.minutes": str(OFFSETS_RETENTION_MINUTES),
        "offsets.retention.check.interval.ms": "20000",
        "moldau.record.validation": choose("header", "header", "full"),
        "moldau.connection.pending.responses": choose(1, 3, 64),
        "moldau.connection.pending.response.bytes": choose(100, 8_388_608),
        "moldau.connection.high.water.bytes": choose(500, 20_000, 1_048_576),
        "moldau.parked.fetches": choose(1, 2, 10_000),
        "moldau.open.files": choose(16, 4_096),
    }
    if world_random_below(2):
        settings["log.flush.interval.messages"] = "1"
    return settings


class Scenario:
    """One seed's story."""

    def __init__(self, world: World, seconds: float) -> None:
        self.world = world
        self.random = world.random
        self.seconds = seconds
        self.is_all_flushed = world.settings.get("log.flush.interval.messages") == "1"
        self.topics: list[SimulatedTopic] = []
        self.group = GroupLedger(GROUP, is_flushed=self.is_all_flushed)
        self.positions = GroupLedger(SIMPLE_GROUP, is_flushed=self.is_all_flushed)
        self.settings_ledger = SettingsLedger()
        self.group_topic: SimulatedTopic
        self.is_restart_needed = False
        self.is_power_safe = True
        """False once a failed fsync lost pages of files that a later process trusts: no power may be lost then."""
        self.troubles: list[Callable[[], Awaitable[None]]] = []
        self.clients: list[asyncio.Task[None]] = []
        self.admins: list[TopicAdmin] = []

    async def run(self) -> None:
        world = self.world
        self.draw_troubles()
        if not await world.boot():
            raise ViolationError("the node starts and stops", "the first start failed")
        await self.create_topics()
        self.start_clients()
        while world.loop.time() < self.seconds:
            await asyncio.sleep(self.random.choice((0.1, 0.5, 1.0, 2.0)))
            world.check_node()
            if not world.is_up:
                await self.restart(is_trouble_allowed=True)
            elif self.troubles:
                await self.random.choice(self.troubles)()
        await self.heal()
        await self.drain()
        await self.audit("before the last restart")
        await self.last_restart()
        await self.audit("after the last restart")
        if self.random.random() < EXPIRY_SHARE:
            await self.expire()
        await world.stop()
        world.check_node()

    # -- the start

    def draw_troubles(self) -> None:
        everything = (
            self.crash_process,
            self.crash_machine,
            self.crash_process_inside,
            self.crash_machine_inside,
            self.restart_cleanly,
            self.abort,
            self.fill_disk,
            self.break_disk,
            self.slow_disk,
            self.cold_reads,
            self.reset_connections,
            self.stormy_network,
            self.silence_connection,
            self.slow_reader,
            self.set_clock,
        )
        count = self.random.randint(1, 5)
        self.troubles = list(self.random.sample(everything, count))
        if self.crash_process not in self.troubles and self.crash_machine not in self.troubles:
            self.troubles.append(self.random.choice(everything[:4]))
        self.world.trace.tell("troubles: " + ", ".join(trouble.__name__ for trouble in self.troubles))

    async def create_topics(self) -> None:
        """One that flushes each batch, one that leaves it to the page cache, one with retention, one compacted."""
        random = self.random
        small = ("internal.segment.bytes", str(random.choice((40_000, 60_000, 150_000))))
        index = ("index.interval.bytes", str(random.choice((0, 100, 4_096))))
        await self.create_topic("flushed", random.randint(1, 2), {"flush.messages": "1", **dict((small, index))})
        await self.create_topic("cached", random.randint(1, 2), dict((small, index)))
        retention = {
            "retention.ms": "4000",
            "segment.ms": "1500",
            "file.delete.delay.ms": "500",
            **dict((small, index)),
        }
        await self.create_topic("expiring", 1, retention)
        compaction = {
            "cleanup.policy": "compact",
            "flush.messages": "1",
            "min.cleanable.dirty.ratio": random.choice(("0.0", "0.3")),
            "delete.retention.ms": random.choice(("0", "1000", "86400000")),
            "min.compaction.lag.ms": random.choice(("0", "0", "1500")),
            "segment.ms": random.choice(("700", "3000")),
            "file.delete.delay.ms": "500",
            **dict((small, index)),
        }
        await self.create_topic("compacted", 1, compaction)
        self.group_topic = random.choice(self.topics[:2])
        self.world.groups[GROUP] = self.group
        self.world.groups[SIMPLE_GROUP] = self.positions

    async def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        request = CreateTopicsRequest(
            (CreatableTopic(name, partitions, 1, (), tuple(CreatableTopicConfig(*row) for row in configs.items())),)
        )
        client = await BrokerClient.open(self.world.network, "setup", self.world.port, self.random)
        answer = await client.request(ApiKey.CREATE_TOPICS, request, CreateTopicsResponse)
        if answer.topics[0].error_code:
            raise ViolationError("topics can be created", f"{name}: {answer.topics[0]}")
        topic_id = await self.topic_id(client, name, partitions)
        client.close()
        is_flushed = self.is_all_flushed or "flush.messages" in configs
        topic = self.world.new_topic(
            name,
            topic_id,
            partitions,
            is_flushed=is_flushed,
            may_expire="retention.ms" in configs,
            is_compacted="cleanup.policy" in configs,
        )
        self.topics.append(topic)
        self.settings_ledger.created(name, configs)

    async def topic_id(self, client: BrokerClient, name: str, partitions: int) -> Uuid:
        client.versions[ApiKey.METADATA] = max(10, client.versions[ApiKey.METADATA])
        request = MetadataRequest((MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        answer = await client.request(ApiKey.METADATA, request, MetadataResponse)
        found = answer.topics[0]
        if found.error_code or len(found.partitions) != partitions or found.topic_id == ZERO_UUID:
            raise ViolationError("created topics exist", f"{name}: {found}")
        return found.topic_id

    def start_clients(self) -> None:
        world, random = self.world, self.random
        flushed, cached, expiring, compacted = self.topics
        self.admins = [TopicAdmin(world, "admin", ("passing-a", "passing-b"))]
        loops: list[ClientLoop] = [
            IdempotentProducer(world, "idem-flushed", flushed),
            IdempotentProducer(world, "idem-cached", cached),
            PlainProducer(world, "plain-any", random.choice((flushed, cached))),
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
        ]
        self.clients = [asyncio.ensure_future(loop.run()) for loop in loops]

    # -- troubles

    async def restart(self, *, is_trouble_allowed: bool) -> None:
        """Boots after a crash; where trouble is allowed, now and then with the next crash or fault on its way."""
        world, random = self.world, self.random
        await asyncio.sleep(random.choice((0.0, 0.1, 1.0)))
        self.is_restart_needed = False
        plan = None
        if is_trouble_allowed and random.random() < 0.2:
            plan = ("machine" if self.is_power_safe and random.random() < 0.5 else "process", random.randint(1, 40))
        if is_trouble_allowed and random.random() < 0.1:
            operation: Operation = random.choice(("read", "append", "write", "flush", "open"))
            world.disk.fail(Fault(operation, random.choice(("io", "full")), times=1))
            world.trace.tell(f"the first {operation} of the start fails")
            world.is_disk_troubled = True
            self.is_power_safe &= operation != "flush"
            self.is_restart_needed = True
        is_booted = await world.boot(plan=plan)
        world.disk.heal()
        world.is_disk_troubled = False
        if not is_booted and not is_trouble_allowed:
            raise ViolationError("the node starts and stops", "a start failed on a healthy machine")

    async def crash_process(self) -> None:
        self.world.kill("process")

    async def crash_machine(self) -> None:
        self.world.kill("machine" if self.is_power_safe else "process")

    async def crash_process_inside(self) -> None:
        self.world.plan_crash("process", self.random.randint(1, 60))

    async def crash_machine_inside(self) -> None:
        self.world.plan_crash("machine" if self.is_power_safe else "process", self.random.randint(1, 60))

    async def restart_cleanly(self) -> None:
        await self.world.stop()

    async def abort(self) -> None:
        await self.world.abort()

    async def fill_disk(self) -> None:
        disk = self.world.disk
        disk.capacity_bytes = disk.used_bytes() + self.random.choice((0, 100, 1_000, 20_000))
        self.world.trace.tell(f"disk full at {disk.capacity_bytes} bytes")
        await asyncio.sleep(self.random.choice((0.2, 1.0, 3.0)))
        disk.capacity_bytes = None
        self.world.trace.tell("disk has room again")

    async def break_disk(self) -> None:
        """One operation fails; the log directory is offline until the restart that follows."""
        if self.is_restart_needed:
            self.world.kill("process")
            return
        operation: Operation = self.random.choice(("append", "flush", "write", "read"))
        path = self.random.choice(("", ".log", "flushed", "cached"))
        self.world.disk.fail(Fault(operation, "io", path, times=1))
        self.world.trace.tell(f"the next {operation} of *{path}* fails")
        self.is_restart_needed = True
        await asyncio.sleep(self.random.choice((0.5, 2.0)))
        self.world.disk.heal()
        if operation == "flush":
            self.is_power_safe = False

    async def slow_disk(self) -> None:
        self.world.trace.tell("the disk is slow")
        self.world.worker_weather.delay_max = self.random.choice((0.1, 1.0))
        await asyncio.sleep(self.random.choice((0.5, 2.0)))
        self.world.worker_weather.delay_max = 0.01

    async def cold_reads(self) -> None:
        self.world.disk.fail(Fault("read_cached", "cold", times=self.random.choice((1, 10, 100))))

    async def reset_connections(self) -> None:
        connections = list(self.world.network.connections.values())
        for connection in self.random.sample(connections, self.random.randint(0, len(connections))):
            self.world.network.reset(connection)

    async def stormy_network(self) -> None:
        """Resets at any byte, small windows, long delays."""
        self.world.trace.tell("storm")
        self.world.network.weather = NetworkWeather(
            delay_max=self.random.choice((0.002, 0.05)),
            spike_share=0.05,
            cut_share=0.8,
            reset_share=self.random.choice((0.0, 0.01, 0.05)),
            window_bytes=self.random.choice((512, 4_096, 65_536)),
        )
        await asyncio.sleep(self.random.choice((0.5, 2.0)))
        self.world.network.weather = NetworkWeather()

    async def silence_connection(self) -> None:
        connections = list(self.world.network.connections.values())
        if connections:
            self.world.network.silence(self.random.choice(connections))

    async def slow_reader(self) -> None:
        """A client that asks and does not read."""
        connections = list(self.world.network.connections.values())
        if not connections:
            return
        end = self.random.choice(connections).client
        end.pause_reading()
        await asyncio.sleep(self.random.choice((0.5, 3.0)))
        end.resume_reading()

    async def set_clock(self) -> None:
        self.world.clock.skew_ms = self.random.choice((-5_000, -100, 0, 100, 5_000))
        self.world.trace.tell(f"the wall clock is set off by {self.world.clock.skew_ms} ms")

    # -- the end

    async def heal(self) -> None:
        """All troubles end; the node runs."""
        world = self.world
        world.trace.tell("heal")
        world.disk.heal()
        world.disk.capacity_bytes = None
        world.worker_weather.delay_max = 0.01
        world.network.weather = NetworkWeather()
        if world.process_disk is not None:
            world.process_disk.plan = None
        if world.is_up and self.is_restart_needed:
            world.kill("process")
        if not world.is_up:
            await self.restart(is_trouble_allowed=False)

    async def drain(self) -> None:
        """The clients finish what they owe: on a healthy node they can."""
        world = self.world
        world.is_draining = True
        try:
            async with asyncio.timeout(DRAIN_PATIENCE_S):
                await asyncio.gather(*self.clients)
        except TimeoutError as error:
            raise ViolationError("a healthy node makes progress", "the clients could not finish") from error
        world.check_node()

    async def last_restart(self) -> None:
        world = self.world
        kinds = ("process", "clean", "machine") if self.is_power_safe else ("process", "clean")
        kind = self.random.choice(kinds)
        before = GroupDescriber(world, "describe-before", GROUP)
        await before.run()
        metadata = world.metadata()
        if kind == "clean":
            await world.stop()
        else:
            world.kill(kind)
        await self.restart(is_trouble_allowed=False)
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
        """Reads everything back."""
        world = self.world
        world.trace.tell(f"audit {when}")
        try:
            async with asyncio.timeout(AUDIT_PATIENCE_S):
                auditors = [Auditor(world, f"audit-{topic.name}-{when}", topic) for topic in self.topics]
                await asyncio.gather(*(auditor.run() for auditor in auditors))
                offsets = OffsetAuditor(world, f"audit-offsets-{when}", self.group_topic, self.group)
                await offsets.run()
                await self.audit_positions(when, is_expired=False)
                await SettingsAuditor(world, f"audit-settings-{when}", self.settings_ledger).run()
                for admin in self.admins:
                    audit = TopicAudit(admin, f"audit-topics-{when}")
                    await audit.run()
        except TimeoutError as error:
            raise ViolationError("a healthy node makes progress", f"the audit {when} could not finish") from error
        world.check_node()

    async def audit_positions(self, when: str, *, is_expired: bool) -> None:
        for topic, group in ((self.group_topic, self.group), (self.topics[0], self.positions)):
            await ExpiryAuditor(self.world, f"{when}-{group.group}", topic, group, is_expired=is_expired).run()

    async def expire(self) -> None:
        """Nobody commits any more: half-way everything is there, after the retention nothing is."""
        retention_s = OFFSETS_RETENTION_MINUTES * 60
        self.world.clock.skew_ms = 0
        await asyncio.sleep(retention_s / 2 - self.seconds)
        await self.audit_positions("half-way", is_expired=False)
        # sessions end first, and a clock that was ahead made the last commits look younger
        await asyncio.sleep(retention_s / 2 + 100)
        await self.audit_positions("expired", is_expired=True)


class OffsetAuditor(ClientLoop):
    """Reads the committed offsets of a group once."""

    def __init__(self, world: World, name: str, topic: SimulatedTopic, group: GroupLedger) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.group = group
        self.is_finished = False

    def is_done(self) -> bool:
        return self.is_finished

    async def step(self) -> None:
        client = await self.client()
        if await find_coordinator(self, client, self.group.group):
            await fetch_offsets(self, client, self.group, self.topic, tuple(range(self.topic.partitions)))
            self.is_finished = True


class GroupDescriber(ClientLoop):
    """Describes a group once: its state, and its members with their assignments."""

    def __init__(self, world: World, name: str, group: str) -> None:
        super().__init__(world, name)
        self.group = group
        self.described: tuple[str, str, tuple[tuple[str, bytes], ...]] | None = None

    @property
    def is_stable(self) -> bool:
        return self.described is not None and self.described[0] == "Stable"

    def is_done(self) -> bool:
        return self.described is not None

    async def step(self) -> None:
        client = await self.client()
        answer = await client.request(
            ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest((self.group,)), DescribeGroupsResponse
        )
        group = answer.groups[0]
        if group.error_code not in (0, GROUP_ID_NOT_FOUND):
            self.must_be_retriable(group.error_code, "DescribeGroups")
            await asyncio.sleep(0.1)
            return
        members = tuple(sorted((member.member_id, member.member_assignment) for member in group.members))
        self.described = (group.group_state, group.protocol_data, members)
        self.world.trace.note("described", self.described)


class TopicAudit(ClientLoop):
    """Looks once more whether the admin's topics are what they should be."""

    def __init__(self, admin: TopicAdmin, name: str) -> None:
        super().__init__(admin.world, name)
        self.admin = admin
        self.is_finished = False

    def is_done(self) -> bool:
        return self.is_finished

    async def step(self) -> None:
        await self.admin.verify(await self.client())
        self.is_finished = True


async def run_until_failed(world: World, scenario: Scenario) -> ViolationError | None:
    """Runs the story to its end or to its first violation, and gives that."""
    story = asyncio.ensure_future(scenario.run())
    await asyncio.wait((story, world.failed), return_when=asyncio.FIRST_COMPLETED)
    if world.failed.done():
        story.cancel()
        return world.failed.result()
    error = story.exception()
    if error is None:
        return None
    if isinstance(error, ViolationError):
        return error
    if isinstance(error, UnansweredError):
        return ViolationError("a healthy node answers", str(error))
    raise error
