"""Sends ListOffsets for times, and checks the responses against the time when each record was sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.simulation.checkers.ledger import PartitionLedger
from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.readers import EARLIEST, list_offset
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

MAX_TIMESTAMP = -3
FIRST_MAX_TIMESTAMP_VERSION = 7
MAX_DISTANCE_MS = 400
RULE = "a time leads to its first record"


class TimeSearcher(ClientLoop):
    """Searches for times at which records were sent, and for the latest of all."""

    def __init__(self, world: ClientWorld, name: str, topics: tuple[SimulatedTopic, ...]) -> None:
        super().__init__(world, name)
        self.topics = topics

    async def step(self) -> None:
        await self.search(await self.client())
        await asyncio.sleep(self.random.choice((0.05, 0.2, 0.5)))

    async def search(self, client: Client) -> None:
        """Sends one request about one partition."""
        topic = self.random.choice(self.topics)
        ledger = topic.ledger(self.world, self.random.randrange(topic.partitions))
        if not ledger.values:
            return
        timestamps = ledger.sent.timestamps
        known = dict(ledger.values)
        legal_losses = ledger.legal_losses
        is_maximum = (
            client.version_of(ApiKey.LIST_OFFSETS) >= FIRST_MAX_TIMESTAMP_VERSION and self.random.random() < 0.2
        )
        survivors = sorted(ledger.last_of_key.values()) if ledger.rules.is_compacted else list(known)
        near_ms = timestamps[known[self.random.choice(survivors)]]
        wanted_ms = near_ms + self.random.choice((0, self.random.randint(-MAX_DISTANCE_MS, MAX_DISTANCE_MS)))
        asked_ms = MAX_TIMESTAMP if is_maximum else wanted_ms
        searched = ListOffsetsPartition(partition_index=ledger.partition, timestamp=asked_ms)
        request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(topic.name, (searched,)),))
        answer = await client.request(request)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self.must_be_retriable(found.error_code, f"ListOffsets of {ledger.name}")
            return
        # records removed by retention or a client in the meantime could not be found
        asked_s = self.world.loop.time()
        start = await list_offset(self, client, topic.name, ledger.partition, EARLIEST)
        if start < 0 or ledger.legal_losses != legal_losses:
            return
        ledger.log_start_seen(start, asked_s=asked_s, seen_s=self.world.loop.time())
        candidates = {offset: timestamps[value] for offset, value in known.items() if offset >= start}
        check_found(ledger, found, candidates, None if is_maximum else wanted_ms)


def check_found(
    ledger: PartitionLedger, found: ListOffsetsPartitionResponse, candidates: dict[int, int], wanted_ms: int | None
) -> None:
    """`candidates`: the timestamp of each known offset that still exists. `wanted_ms` None: the latest."""
    asked = f"{ledger.name}: asked {wanted_ms}, got {found.offset} at {found.timestamp}"
    value = ledger.values.get(found.offset)
    if value is not None and ledger.sent.timestamps[value] != found.timestamp:
        raise ViolationError(RULE, f"{asked}, which was sent at {ledger.sent.timestamps[value]}")
    if wanted_ms is not None and 0 <= found.timestamp < wanted_ms:
        raise ViolationError(RULE, f"{asked}, which is too early")
    if wanted_ms is None and found.offset < 0 and ledger.rules.is_flushed:
        return  # as in Apache Kafka, none is found while the latest is not below the high watermark
    for offset, timestamp in candidates.items():
        if wanted_ms is None:
            is_missed = timestamp > found.timestamp
        else:
            is_missed = timestamp >= wanted_ms and (offset < found.offset or found.offset < 0)
        if is_missed and ledger.rules.is_compacted:
            ledger.skipped(offset, offset + 1)
        elif is_missed:
            raise ViolationError(RULE, f"{asked}, and offset {offset} was sent at {timestamp}")
