"""Requests the ends of leader epochs, and sends past and future epochs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.readers import EARLIEST, list_offset
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.leader_epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

FENCED_LEADER_EPOCH = ERROR_CODES["FENCED_LEADER_EPOCH"]
UNKNOWN_LEADER_EPOCH = ERROR_CODES["UNKNOWN_LEADER_EPOCH"]
FIRST_EPOCH_VERSION = 7
"""The first version of Metadata with the epoch of each leader."""
RULE = "only the current leader epoch is served"


class EpochAsker(ClientLoop):
    """Reads the current epochs from Metadata, and requests the ends of all epochs so far."""

    def __init__(self, world: ClientWorld, name: str, topics: tuple[SimulatedTopic, ...]) -> None:
        super().__init__(world, name)
        self.topics = topics

    async def step(self) -> None:
        client = await self.client()
        topic = self.random.choice(self.topics)
        if self.random.random() < 0.3:
            await self.learn(client, topic)
        else:
            await self.ask(client, topic, self.random.randrange(topic.partitions))
        await asyncio.sleep(self.random.choice((0.05, 0.2, 0.5)))

    async def learn(self, client: Client, topic: SimulatedTopic) -> None:
        client.versions[ApiKey.METADATA] = max(FIRST_EPOCH_VERSION, client.versions[ApiKey.METADATA])
        request = MetadataRequest((MetadataRequestTopic(name=topic.name),), allow_auto_topic_creation=False)

        def note(answer: MetadataResponse) -> None:
            for partition in answer.topics[0].partitions:
                if partition.error_code == 0:
                    topic.ledger(self.world, partition.partition_index).epochs.named(partition.leader_epoch)

        await client.request(request, note=note)

    async def ask(self, client: Client, topic: SimulatedTopic, partition: int) -> None:
        ledger = topic.ledger(self.world, partition)
        epochs = ledger.epochs
        asked = self.random.randint(0, max(epochs.current, *epochs.bounds, 0) + 1)
        claimed = max(-1, self.random.choice((-1, -1, epochs.current, epochs.current - 1, epochs.current + 1_000)))
        least_end, legal_losses, current = epochs.least_end(asked), ledger.legal_losses, epochs.current
        wanted = OffsetForLeaderPartition(partition, claimed, asked)
        request = OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic.name, (wanted,)),))

        ends: list[tuple[int, int]] = []

        def note(answer: OffsetForLeaderEpochResponse) -> None:
            found = answer.topics[0].partitions[0]
            self.world.trace.note("epoch", ledger.name, asked, claimed, found.error_code, found.end_offset)
            if found.error_code == FENCED_LEADER_EPOCH and claimed >= 0:
                return
            if found.error_code == UNKNOWN_LEADER_EPOCH and claimed > current:
                return
            if found.error_code:
                self.must_be_retriable(found.error_code, f"OffsetForLeaderEpoch of {ledger.name}")
            elif 0 <= claimed < current or claimed > current + 500:
                raise ViolationError(RULE, f"{ledger.name}: epoch {claimed} was served, {current} was known")
            else:
                ends.append((found.leader_epoch, found.end_offset))

        await client.request(request, note=note)
        start = await list_offset(self, client, topic.name, partition, EARLIEST) if ledger.rules.may_expire else 0
        if start >= 0 and ledger.legal_losses == legal_losses:
            for epoch, end_offset in ends:
                epochs.ended(asked, epoch, end_offset, least_end, start)
