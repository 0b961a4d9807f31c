"""Sends several different requests in flight on one connection. Each must see the effects of those before it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moldau.errors import ERROR_CODES
from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.group_members import fetched_offsets, offset_fetch_request
from moldau.simulation.workloads.producers import PlainProducer
from moldau.simulation.workloads.readers import (
    EARLIEST,
    LATEST,
    Position,
    fetch_topic,
    list_offsets_request,
    take_partition,
)
from moldau.simulation.workloads.record_deleter import send_deletion
from moldau.simulation.workloads.settings_admin import SET, TOPIC
from moldau.simulation.workloads.simple_positions import commit_request
from moldau.simulation.workloads.topic_admin import deletion_of
from moldau.wire.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.protocol.messages.fetch import FetchRequest, FetchResponse
from moldau.wire.protocol.messages.list_offsets import ListOffsetsResponse
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.protocol.messages.offsets import OffsetCommitResponse, OffsetFetchResponse
from moldau.wire.protocol.messages.produce import ProduceResponse
from moldau.wire.protocol.messages.topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import SimulatedTopic
    from moldau.simulation.world import World

PIPELINED = "pipelined"
"""A topic that no other client writes to."""
RULE = "a request sees what those before it did"
TOPIC_ALREADY_EXISTS = ERROR_CODES["TOPIC_ALREADY_EXISTS"]
UNKNOWN_TOPIC_OR_PARTITION = ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"]
MESSAGE_BYTES = "max.message.bytes"
Answers = Iterator[asyncio.Future[Any]]


class Pipeliner(PlainProducer):
    """Sends a few pairs of requests at once. The first of a pair changes something, the second reads it."""

    world: World

    def __init__(self, world: World, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name, topic)
        self.ledger = topic.ledger(world, 0)
        self.pairs = (
            self.write_and_ask,
            self.write_and_read,
            self.delete_records,
            self.create,
            self.delete,
            self.alter,
            self.commit,
        )
        self.next_offset = 0
        self.asked_values: dict[str, int] = {}
        """The connection that requested each value of the setting."""

    def own_name(self, client: Client) -> str:
        """The name of a topic or group that only this connection uses."""
        return f"{PIPELINED}-{self.life_of(client)}"

    async def step(self) -> None:
        client = await self.client()
        pairs = self.random.choices(self.pairs, k=self.random.randint(2, 5))
        for answer in [answer for pair in pairs for answer in pair(client)]:
            await client.answer_in_time(answer)
        for _ in range(3):
            await self.pause()

    def must_see(self, is_seen: bool, what: str) -> None:
        if not is_seen:
            raise ViolationError(RULE, f"{self.name}: {what}")

    def is_done_now(self, error_code: int, what: str, *, allowed: int = 0) -> bool:
        """Whether the first of a pair made its change. Raises ViolationError for an unexpected error."""
        if error_code not in (0, allowed):
            self.must_be_retriable(error_code, what)
            return False
        return True

    # -- records

    def write(self, client: Client, ends: list[int]) -> asyncio.Future[ProduceResponse]:
        """Writes one batch. Appends the offset after it to `ends` once it is acknowledged."""
        values = self.take_values(client, self.random.choice((1, 2, 10)))
        request = self.make_request(client, {0: self.make_batch(0, values)}, -1)

        def note(answer: ProduceResponse) -> None:
            self.answered({0: values}, answer)
            (row,) = answer.responses[0].partition_responses
            if not row.error_code:
                ends.append(row.base_offset + len(values))

        return client.send(request, note)

    def write_and_ask(self, client: Client) -> Answers:
        ends: list[int] = []
        yield self.write(client, ends)

        def note(answer: ListOffsetsResponse) -> None:
            row = answer.topics[0].partitions[0]
            if self.is_done_now(row.error_code, "ListOffsets") and ends:
                self.must_see(row.offset >= ends[0], f"the log ends at {row.offset}, acknowledged was {ends[0]}")

        yield client.send(list_offsets_request(self.topic.name, (0,), LATEST), note)

    def write_and_read(self, client: Client) -> Answers:
        ends: list[int] = []
        asked, asked_s = self.ledger.end, self.world.loop.time()
        yield self.write(client, ends)

        def note(answer: FetchResponse) -> None:
            if not self.is_done_now(answer.error_code, "Fetch"):
                return
            row = answer.responses[0].partitions[0]
            if self.is_done_now(row.error_code, f"Fetch of {self.ledger.name}"):
                position = Position(self.ledger, asked)
                take_partition(position, row, client, asked, asked_s)
                self.must_see(not ends or position.offset > asked, f"nothing is read at {asked}")

        wanted = fetch_topic(client, self.topic, {0: asked}, 1 << 20)
        yield client.send(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 22, topics=(wanted,)), note)

    def delete_records(self, client: Client) -> Answers:
        deletion = send_deletion(self.world, self, client, self.topic)
        yield deletion

        def note(answer: ListOffsetsResponse) -> None:
            row = answer.topics[0].partitions[0]
            deleted = deletion.result().topics[0].partitions[0]
            if self.is_done_now(row.error_code, "ListOffsets") and not deleted.error_code:
                start = deleted.low_watermark
                self.must_see(row.offset >= start, f"the log starts at {row.offset}, deleted was up to {start}")

        yield client.send(list_offsets_request(self.topic.name, (0,), EARLIEST), note)

    # -- topics and settings

    def create(self, client: Client) -> Answers:
        created: list[int] = []

        def note(answer: CreateTopicsResponse) -> None:
            code = answer.topics[0].error_code
            if self.is_done_now(code, "CreateTopics", allowed=TOPIC_ALREADY_EXISTS):
                created.append(code)

        topic = CreatableTopic(self.own_name(client), 1, 1)
        yield client.send(CreateTopicsRequest((topic,), timeout_ms=5_000), note)
        yield self.ask_for(client, created, is_there=True)

    def delete(self, client: Client) -> Answers:
        deleted: list[int] = []

        def note(answer: DeleteTopicsResponse) -> None:
            code = answer.responses[0].error_code
            if self.is_done_now(code, "DeleteTopics", allowed=UNKNOWN_TOPIC_OR_PARTITION):
                deleted.append(code)

        yield client.send(deletion_of(client, self.own_name(client)), note)
        yield self.ask_for(client, deleted, is_there=False)

    def ask_for(self, client: Client, done: list[int], *, is_there: bool) -> asyncio.Future[MetadataResponse]:
        """Checks that the connection's topic exists, or not, once `done` is not empty."""
        name = self.own_name(client)

        def note(answer: MetadataResponse) -> None:
            code = answer.topics[0].error_code
            if done:
                self.must_see((code != UNKNOWN_TOPIC_OR_PARTITION) == is_there, f"{name}: {code} after {done}")

        request = MetadataRequest((MetadataRequestTopic(name=name),), allow_auto_topic_creation=False)
        return client.send(request, note)

    def alter(self, client: Client) -> Answers:
        self.next_offset += 1
        wanted, life = str(1_000_000 + self.next_offset), self.life_of(client)
        self.asked_values[wanted] = life
        altered: list[str] = []

        def note(answer: IncrementalAlterConfigsResponse) -> None:
            if self.is_done_now(answer.responses[0].error_code, "IncrementalAlterConfigs"):
                altered.append(wanted)

        change = IncrementalAlterableConfig(MESSAGE_BYTES, SET, wanted)
        resource = IncrementalAlterConfigsResource(TOPIC, self.topic.name, (change,))
        yield client.send(IncrementalAlterConfigsRequest((resource,)), note)

        def note_described(answer: DescribeConfigsResponse) -> None:
            result = answer.results[0]
            if self.is_done_now(result.error_code, "DescribeConfigs") and altered:
                found = result.configs[0].value
                is_older = self.asked_values.get(found or "", life) < life
                self.must_see(found == wanted or is_older, f"{MESSAGE_BYTES} is {found}, set was {wanted}")

        described = DescribeConfigsResource(TOPIC, self.topic.name, (MESSAGE_BYTES,))
        yield client.send(DescribeConfigsRequest((described,)), note_described)

    # -- positions

    def commit(self, client: Client) -> Answers:
        self.next_offset += 1
        wanted, group = self.next_offset, self.own_name(client)
        committed: list[int] = []

        def note(answer: OffsetCommitResponse) -> None:
            if self.is_done_now(answer.topics[0].partitions[0].error_code, "OffsetCommit"):
                committed.append(wanted)

        yield client.send(commit_request(client, group, self.topic, {0: wanted}), note)

        def note_fetched(answer: OffsetFetchResponse) -> None:
            codes = [answer.error_code, *[group.error_code for group in answer.groups]]
            for row in fetched_offsets(answer):
                if committed and not any((*codes, row.error_code)):
                    found = row.committed_offset
                    self.must_see(found == wanted, f"the position is {found}, committed was {wanted}")

        yield client.send(offset_fetch_request(client, group, self.topic, (0,)), note_fetched)
