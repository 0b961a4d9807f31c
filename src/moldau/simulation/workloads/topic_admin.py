"""Creates and deletes topics, writes a few records into them, and checks that the broker remembers them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from moldau.errors import ERROR_CODES
from moldau.simulation.checkers.ledger import TopicRules
from moldau.simulation.client import Client, UnansweredError
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.producers import FIRST_TOPIC_ID_VERSION, PlainProducer
from moldau.simulation.workloads.settings_admin import TOPIC, TOPIC_SOURCE
from moldau.types import ZERO_UUID, Uuid, uuid_to_text
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld

UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
INVALID_PARTITIONS = ERROR_CODES["INVALID_PARTITIONS"]
UNKNOWN_TOPIC_ID = ERROR_CODES["UNKNOWN_TOPIC_ID"]
TOPIC_ALREADY_EXISTS = ERROR_CODES["TOPIC_ALREADY_EXISTS"]
SETTLE_S = 5.0
DOUBT_S = 15.0
MAX_PARTITIONS = 5


class PassingReader(ClientLoop):
    """Reads and searches topics while they are created and deleted. Any response is accepted, but no handler may
    fail."""

    def __init__(self, world: ClientWorld, name: str, topics: tuple[str, ...]) -> None:
        super().__init__(world, name)
        self.topics = topics

    async def step(self) -> None:
        client = await self.client()
        client.versions[ApiKey.FETCH] = min(FIRST_TOPIC_ID_VERSION - 1, client.versions[ApiKey.FETCH])
        topic = self.random.choice(self.topics)
        if self.random.random() < 0.5:
            wanted = FetchPartition(partition=0, fetch_offset=self.random.randrange(5), partition_max_bytes=10_000)
            fetch = FetchRequest(
                max_wait_ms=self.random.choice((0, 500)),
                min_bytes=self.random.choice((1, 10_000)),
                topics=(FetchTopic(topic=topic, partitions=(wanted,)),),
            )
            await client.request(fetch)
        else:
            timestamp = self.random.choice((-1, -2, self.world.clock.now_ms() - self.random.randrange(5_000)))
            searched = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            search = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(topic, (searched,)),))
            await client.request(search)
        await self.pause()


def deletion_of(client: Client, name: str) -> DeleteTopicsRequest:
    """The request in the form of the connection's version."""
    if client.version_of(ApiKey.DELETE_TOPICS) >= 6:
        return DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=5_000)
    return DeleteTopicsRequest(topic_names=(name,), timeout_ms=5_000)


class KnownTopic(msgspec.Struct):
    """The administrator's knowledge about a name. `may_exist` and `may_be_absent` are both true after an unanswered
    request, which may still be executed until `doubt_until` (seconds of the loop)."""

    name: str
    partitions: int
    topic_id: Uuid = ZERO_UUID
    may_exist: bool = False
    may_be_absent: bool = True
    doubt_until: float = 0.0
    configs: dict[str, str] | None = None
    """The settings at its creation; None: unknown."""
    may_have: tuple[int, ...] = ()
    """Partition counts that may result from unanswered requests."""


class TopicAdmin(ClientLoop):
    """Owns some topic names, which no other client creates or deletes."""

    def __init__(self, world: ClientWorld, name: str, names: tuple[str, ...]) -> None:
        super().__init__(world, name)
        self.topics = {topic: KnownTopic(topic, 1) for topic in names}
        self.more = world.random_of(f"client/{name}/partitions")

    async def step(self) -> None:
        client = await self.client()
        topic = self.topics[self.random.choice(list(self.topics))]
        choice = self.random.random()
        is_known = topic.may_exist and not topic.may_be_absent
        more = self.more.random()
        if more < 0.15 and is_known and topic.partitions < MAX_PARTITIONS:
            await self.add_partitions(client, topic)
        elif more < 0.3 and is_known and topic.configs is not None:
            await self.describe(client, topic)
        elif choice < 0.3:
            await self.verify(client)
        elif topic.may_exist and not topic.may_be_absent and choice < 0.6:
            await self.write(topic)
        elif topic.may_exist:
            await self.delete(client, topic)
        else:
            await self.create(client, topic)
        await asyncio.sleep(self.random.uniform(0.05, 1.5))

    async def create(self, client: Client, topic: KnownTopic) -> None:
        partitions = self.random.choice((1, 1, 3))
        configs = (CreatableTopicConfig("flush.messages", "1"),) if self.random.random() < 0.5 else ()
        if self.more.random() < 0.5:
            configs = (*configs, CreatableTopicConfig("retention.ms", str(self.more.randrange(1, 9) * 100_000)))
        request = CreateTopicsRequest(
            (CreatableTopic(topic.name, partitions, 1, (), configs),), validate_only=self.random.random() < 0.1
        )
        if not request.validate_only:
            topic.may_exist = True
            topic.configs = None  # those of an older topic with this name no longer apply, nor does its partition count
        doubt_before, topic.doubt_until = topic.doubt_until, self.world.loop.time() + DOUBT_S
        answer = await client.request(request)
        topic.doubt_until = doubt_before
        result = answer.topics[0]
        self.world.trace.note("create", topic.name, partitions, result.error_code)
        if request.validate_only:
            return
        if result.error_code == TOPIC_ALREADY_EXISTS:
            if not topic.may_be_absent:
                return
            # either an earlier unanswered creation was executed, or an unanswered deletion was not
            topic.may_be_absent = self.is_in_doubt(topic)
            topic.topic_id = ZERO_UUID
            topic.configs = None
        elif result.error_code:
            self.must_be_retriable(result.error_code, f"CreateTopics of {topic.name}")
            topic.may_exist, topic.may_be_absent = True, True
            topic.doubt_until = self.world.loop.time() + DOUBT_S
        else:
            topic.may_be_absent = False
            topic.doubt_until = 0.0
            topic.partitions = partitions
            topic.may_have = ()
            topic.configs = {config.name: config.value or "" for config in configs}
            topic.topic_id = result.topic_id
            self.world.trace.tell(f"topic {topic.name} created with {partitions} partitions")

    async def add_partitions(self, client: Client, topic: KnownTopic) -> None:
        """Adds partitions to the topic. The records of existing partitions stay."""
        count = self.more.randint(topic.partitions + 1, MAX_PARTITIONS)
        request = CreatePartitionsRequest(
            (CreatePartitionsTopic(topic.name, count, None),), 5_000, validate_only=self.more.random() < 0.1
        )
        are_any_in_doubt = bool(topic.may_have)
        if not request.validate_only:
            topic.may_have = (*topic.may_have, count)

        def note(answer: CreatePartitionsResponse) -> None:
            error_code = answer.results[0].error_code
            self.world.trace.note("partitions", topic.name, count, error_code)
            if error_code == INVALID_PARTITIONS and are_any_in_doubt:
                return  # an earlier unanswered request was executed
            if error_code:
                self.must_be_retriable(error_code, f"CreatePartitions of {topic.name}")
            elif not request.validate_only:
                topic.partitions = count
                topic.may_have = ()

        await client.request(request, note=note)

    async def describe(self, client: Client, topic: KnownTopic) -> None:
        """The settings must be those of this topic, not of an older one with the name."""
        request = DescribeConfigsRequest((DescribeConfigsResource(TOPIC, topic.name, None),))

        def note(answer: DescribeConfigsResponse) -> None:
            result = answer.results[0]
            if result.error_code:
                self.must_be_retriable(result.error_code, f"DescribeConfigs of {topic.name}")
                return
            found = {config.name: config.value for config in result.configs if config.config_source == TOPIC_SOURCE}
            if found != topic.configs:
                raise ViolationError(
                    "settings are what was acknowledged", f"{topic.name}: {found}, created with {topic.configs}"
                )

        await client.request(request, note=note)

    async def delete(self, client: Client, topic: KnownTopic) -> None:
        is_flexible = client.version_of(ApiKey.DELETE_TOPICS) >= 6
        if is_flexible and topic.topic_id != ZERO_UUID and self.random.random() < 0.5:
            request = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic.topic_id),), timeout_ms=5_000)
        else:
            request = deletion_of(client, topic.name)
        was_known = not topic.may_be_absent
        topic.may_be_absent = True
        self.world.ledger.remove_topic(topic.topic_id)
        doubt_before, topic.doubt_until = topic.doubt_until, self.world.loop.time() + DOUBT_S
        answer = await client.request(request)
        topic.doubt_until = doubt_before
        error_code = answer.responses[0].error_code
        self.world.trace.note("delete", topic.name, error_code)
        if error_code in (UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID):
            if was_known:
                raise ViolationError("created topics exist", f"deleting {topic.name} got {error_code}")
            topic.may_exist = error_code == UNKNOWN_TOPIC_ID or self.is_in_doubt(topic)
            topic.topic_id = ZERO_UUID
        elif error_code:
            self.must_be_retriable(error_code, f"DeleteTopics of {topic.name}")
            topic.doubt_until = self.world.loop.time() + DOUBT_S
        else:
            topic.may_exist = self.is_in_doubt(topic)
            topic.topic_id = ZERO_UUID
            self.world.trace.tell(f"topic {topic.name} deleted")

    async def write(self, topic: KnownTopic) -> None:
        """Writes a few records, with a separate producer that knows the topic by id."""
        if topic.topic_id == ZERO_UUID:
            return
        target = self.world.new_topic(topic.name, topic.topic_id, topic.partitions, TopicRules())
        producer = PlainProducer(self.world, f"{self.name}-{self.random.randrange(1 << 30)}", target)
        try:
            for _ in range(self.random.randrange(1, 5)):
                await producer.step()
        finally:
            producer.close()

    async def verify(self, client: Client) -> None:
        """Metadata of the names must soon agree with the acknowledged state."""
        began = self.world.loop.time()
        while True:
            wanted = tuple(MetadataRequestTopic(name=name) for name in self.topics)
            request = MetadataRequest(wanted, allow_auto_topic_creation=False)
            answer = await client.request(request)
            wrong = [problem for found in answer.topics if (problem := self.disagreement(found.name or "", found))]
            if not wrong and len(answer.topics) == len(self.topics):
                return
            if self.world.loop.time() - began > SETTLE_S:
                raise ViolationError("topics are what was acknowledged", "; ".join(wrong) or "a name is missing")
            await asyncio.sleep(0.5)
            if not client.is_open:
                raise UnansweredError("closed while waiting")

    def is_in_doubt(self, topic: KnownTopic) -> bool:
        """Whether an unanswered request may still change the metadata."""
        return self.world.loop.time() < topic.doubt_until

    def disagreement(self, name: str, found: msgspec.Struct) -> str:
        """The error in the metadata of one name, or "". Resolves doubts about the topic."""
        topic = self.topics[name]
        error_code = getattr(found, "error_code", 0)
        if error_code == UNKNOWN_TOPIC_OR_PARTITION:
            if not topic.may_be_absent:
                return f"{name} was created, and is absent"
            topic.may_exist = self.is_in_doubt(topic)
            return ""
        if error_code:
            return f"{name}: error {error_code}"
        if not topic.may_exist:
            return f"{name} was deleted, and is there"
        topic_id = getattr(found, "topic_id", ZERO_UUID)
        if not topic.may_be_absent and ZERO_UUID not in (topic.topic_id, topic_id) and topic_id != topic.topic_id:
            return f"{name} has id {uuid_to_text(topic_id)}, created was {uuid_to_text(topic.topic_id)}"
        if topic.may_be_absent:
            topic.may_be_absent = self.is_in_doubt(topic)
        if topic_id != ZERO_UUID:
            topic.topic_id = topic_id
        partitions = len(getattr(found, "partitions", ()))
        is_sure = not topic.may_be_absent and topic.configs is not None
        if is_sure and partitions != topic.partitions and partitions not in topic.may_have:
            return f"{name} has {partitions} partitions, acknowledged were {topic.partitions}"
        topic.partitions = partitions
        return ""
