"""Moves the log start offset forward by request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.simulation.client import Client
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

OFFSET_OUT_OF_RANGE = ERROR_CODES["OFFSET_OUT_OF_RANGE"]


class RecordDeleter(ClientLoop):
    """From time to time deletes a few of the oldest records of a topic that expires anyway."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name)
        self.topic = topic

    async def step(self) -> None:
        client = await self.client()
        await client.answer_in_time(send_deletion(self.world, self, client, self.topic))
        for _ in range(5):
            await self.pause()


def send_deletion(
    world: ClientWorld, loop: ClientLoop, client: Client, topic: SimulatedTopic
) -> asyncio.Future[DeleteRecordsResponse]:
    """Requests the deletion of up to ten records of partition 0."""
    ledger = topic.ledger(world, 0)
    wanted = min(ledger.log_start_offset + loop.random.randrange(10), ledger.end)
    ledger.asked_start_offset = max(ledger.asked_start_offset, wanted)
    asked_s, was_limited = world.loop.time(), world.is_disk_limited
    item = DeleteRecordsPartition(partition_index=0, offset=wanted)
    request = DeleteRecordsRequest((DeleteRecordsTopic(topic.name, (item,)),), timeout_ms=5_000)

    def note(answer: DeleteRecordsResponse) -> None:
        result = answer.topics[0].partitions[0]
        world.trace.note("deleted", loop.name, wanted, result.error_code, result.low_watermark)
        if result.error_code == 0:
            if not (was_limited or world.is_disk_limited):
                # a disk that was full, even if it has space again by now, could not record it: a crash may undo the
                # deletion
                ledger.durable_start_offset = max(ledger.durable_start_offset, result.low_watermark)
            ledger.log_start_seen(result.low_watermark, asked_s=asked_s, seen_s=world.loop.time())
        elif result.error_code != OFFSET_OUT_OF_RANGE or not (ledger.legal_losses or ledger.rules.is_replicated):
            loop.must_be_retriable(result.error_code, "DeleteRecords")

    return client.send(request, note)
