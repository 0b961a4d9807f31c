"""Requests with hundreds or thousands of items, each followed by a short request in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from moldau.errors import ERROR_CODES
from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.producers import PlainProducer
from moldau.simulation.workloads.readers import (
    LATEST,
    Position,
    fetch_topic,
    list_offsets_request,
    take_partition,
)
from moldau.simulation.workloads.settings_admin import TOPIC
from moldau.simulation.workloads.simple_positions import commit_request
from moldau.wire.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.wire.protocol.messages.group_admin import DeleteGroupsRequest
from moldau.wire.protocol.messages.groups_classic import DescribeGroupsRequest
from moldau.wire.protocol.messages.list_offsets import ListOffsetsResponse
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.messages.offsets import OffsetCommitResponse
from moldau.wire.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from moldau.wire.protocol.messages.topics import CreatableTopic, CreateTopicsRequest

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

WIDE = "wide"
WIDE_PARTITIONS = 4
"""The number of existing partitions. All others in the requests do not exist."""
MANY, VERY_MANY = 250, 2_300
"""More than the fast path of Produce accepts; enough for a Fetch of more than 32 KiB in each version."""
GROUP = "long"
RULE = "each thing that is named is answered once"
UNKNOWN = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
GROUP_ID_NOT_FOUND = ERROR_CODES["GROUP_ID_NOT_FOUND"]


class LongAsker(PlainProducer):
    """Requests partitions of its topic, most of which do not exist, and groups and topics that do not exist."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name, topic)
        self.questions: tuple[Callable[[Client], asyncio.Future[Any]], ...] = (
            self.produce,
            self.produce,
            self.fetch,
            self.list_offsets,
            self.commit,
            self.metadata,
            self.describe_configs,
            self.create_topics,
            self.describe_groups,
            self.delete_groups,
        )
        self.positions = {
            partition: Position(topic.ledger(world, partition), 0) for partition in range(topic.partitions)
        }

    async def step(self) -> None:
        client = await self.client()
        long = self.random.choice(self.questions)(client)
        short = client.send(list_offsets_request(self.topic.name, (0,), LATEST), self.short_answered)
        await client.answer_in_time(long)
        await client.answer_in_time(short)
        await asyncio.sleep(self.random.choice((0.1, 0.5, 1.0)))

    def short_answered(self, answer: ListOffsetsResponse) -> None:
        row = answer.topics[0].partitions[0]
        ledger = self.topic.ledger(self.world, 0)
        if row.error_code:
            self.must_be_retriable(row.error_code, "ListOffsets")
        elif row.offset < ledger.end:
            raise ViolationError(
                "a request sees what those before it did", f"{ledger.name} ends at {row.offset}, known {ledger.end}"
            )

    def named(self, most: int) -> range:
        """The partitions of the topic, and more that it does not have."""
        return range(self.random.choice((60, most)))

    def must_answer(self, answered: list[int], asked: list[int] | range, what: str) -> None:
        """Raises ViolationError unless each of `asked` is answered once."""
        if sorted(answered) != sorted(asked):
            raise ViolationError(RULE, f"{self.name}: {what} of {len(asked)} answers {len(answered)}")

    def check_code(self, partition: int, error_code: int, what: str) -> bool:
        """Whether an existing partition is served. Raises ViolationError if a missing one is."""
        if partition >= self.topic.partitions:
            if error_code != UNKNOWN:
                self.must_be_retriable(error_code, what)
            return False
        if error_code:
            self.must_be_retriable(error_code, what)
        return not error_code

    # -- records

    def produce(self, client: Client) -> asyncio.Future[ProduceResponse]:
        asked = self.named(MANY)
        sent = {partition: self.take_values(client, 2) for partition in range(self.topic.partitions)}
        batches = {partition: self.make_batch(partition, values) for partition, values in sent.items()}
        others = self.make_batch(0, self.take_values(client, 1))
        request = self.make_request(client, {partition: batches.get(partition, others) for partition in asked}, -1)

        def note(answer: ProduceResponse) -> None:
            rows: list[PartitionProduceResponse] = []
            for topic in answer.responses:
                rows += topic.partition_responses
            self.must_answer([row.index for row in rows], asked, "Produce")
            for row in rows:
                if self.check_code(row.index, row.error_code, "Produce"):
                    self.topic.ledger(self.world, row.index).acknowledged(row.base_offset, sent[row.index])

        return client.send(request, note)

    def fetch(self, client: Client) -> asyncio.Future[FetchResponse]:
        asked, asked_s = self.named(VERY_MANY), self.world.loop.time()
        offsets = {partition: position.offset for partition, position in self.positions.items()}
        topic = fetch_topic(client, self.topic, {partition: offsets.get(partition, 0) for partition in asked}, 1_000)
        request = FetchRequest(
            max_wait_ms=self.random.choice((0, 300)), min_bytes=1, max_bytes=1 << 20, topics=(topic,)
        )

        def note(answer: FetchResponse) -> None:
            if answer.error_code:
                self.must_be_retriable(answer.error_code, "Fetch")
                return
            rows = [row for topic in answer.responses for row in topic.partitions]
            self.must_answer([row.partition_index for row in rows], asked, "Fetch")
            for row in rows:
                if self.check_code(row.partition_index, row.error_code, "Fetch"):
                    position = self.positions[row.partition_index]
                    take_partition(position, row, client, offsets[row.partition_index], asked_s)

        return client.send(request, note)

    def list_offsets(self, client: Client) -> asyncio.Future[ListOffsetsResponse]:
        asked = self.named(MANY)
        note = partial(self.check_rows, asked, "ListOffsets")
        return client.send(list_offsets_request(self.topic.name, asked, LATEST), note)

    def commit(self, client: Client) -> asyncio.Future[OffsetCommitResponse]:
        asked = self.named(MANY)
        note = partial(self.check_rows, asked, "OffsetCommit")
        return client.send(commit_request(client, GROUP, self.topic, dict.fromkeys(asked, 1)), note)

    def check_rows(self, asked: range, what: str, answer: ListOffsetsResponse | OffsetCommitResponse) -> None:
        """Each requested partition must be answered once, with a permitted error code."""
        codes = [(row.partition_index, row.error_code) for topic in answer.topics for row in topic.partitions]
        self.must_answer([partition for partition, _ in codes], asked, what)
        for partition, code in codes:
            self.check_code(partition, code, what)

    # -- names

    def names(self) -> list[str]:
        return [f"nobody-{number}" for number in self.named(MANY)]

    def must_say(self, found: dict[str, int], asked: list[str], allowed: int, what: str) -> None:
        """Checks the error code of each name: none, `allowed`, or a transient one."""
        self.must_answer([*map(asked.index, found)], range(len(asked)), what)
        for error_code in found.values():
            if error_code not in (0, allowed):
                self.must_be_retriable(error_code, what)

    def metadata(self, client: Client) -> asyncio.Future[Any]:
        names = self.names()
        request = MetadataRequest(
            tuple(MetadataRequestTopic(name=name) for name in names), allow_auto_topic_creation=False
        )
        return client.send(
            request,
            lambda answer: self.must_say(
                {topic.name or "": topic.error_code for topic in answer.topics}, names, UNKNOWN, "Metadata"
            ),
        )

    def describe_configs(self, client: Client) -> asyncio.Future[Any]:
        names = self.names()
        rows = tuple(DescribeConfigsResource(TOPIC, name, ("retention.ms",)) for name in names)
        return client.send(
            DescribeConfigsRequest(rows),
            lambda answer: self.must_say(
                {row.resource_name: row.error_code for row in answer.results}, names, UNKNOWN, "DescribeConfigs"
            ),
        )

    def create_topics(self, client: Client) -> asyncio.Future[Any]:
        """Only validates the creation of the topics."""
        names = self.names()
        request = CreateTopicsRequest(tuple(CreatableTopic(name, 1, 1) for name in names), validate_only=True)
        return client.send(
            request,
            lambda answer: self.must_say({row.name: row.error_code for row in answer.topics}, names, 0, "CreateTopics"),
        )

    def describe_groups(self, client: Client) -> asyncio.Future[Any]:
        names = self.names()
        return client.send(
            DescribeGroupsRequest(tuple(names)),
            lambda answer: self.must_say(
                {row.group_id: row.error_code for row in answer.groups}, names, GROUP_ID_NOT_FOUND, "DescribeGroups"
            ),
        )

    def delete_groups(self, client: Client) -> asyncio.Future[Any]:
        names = self.names()
        return client.send(
            DeleteGroupsRequest(tuple(names)),
            lambda answer: self.must_say(
                {row.group_id: row.error_code for row in answer.results}, names, GROUP_ID_NOT_FOUND, "DeleteGroups"
            ),
        )
