"""Readers of committed records. They see all committed records up to the last stable offset, and no aborted ones."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.simulation.checkers.copy_ledger import Copied, CopyLedger
from moldau.simulation.transaction_events import TransactionEvent
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.simulation.workloads.group_members import fetched_offsets, offset_fetch_request
from moldau.simulation.workloads.readers import fetch_topic
from moldau.types import Buffer
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import AbortedTransaction, FetchRequest, FetchResponse, PartitionData
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.control import ControlType, decode_control_key
from moldau.wire.records.record import read_records

if TYPE_CHECKING:
    from moldau.simulation.client import Client
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

READ_COMMITTED = 1
UNSTABLE_OFFSET_COMMIT = ERROR_CODES["UNSTABLE_OFFSET_COMMIT"]
STABLE_FROM = 7
"""The first version of OffsetFetch that can wait for open transactions."""


class CommittedReader(ClientLoop):
    """Reads the target of a copier from its beginning, again and again. `asks_position`: not if the coordinator may be
    replaced, because a replaced one that does not know it yet answers from its memory."""

    def __init__(
        self,
        world: ClientWorld,
        name: str,
        topic: SimulatedTopic,
        ledger: CopyLedger,
        *,
        asks_position: bool = True,
    ) -> None:
        super().__init__(world, name)
        self.asks_position = asks_position
        self.topic = topic
        self.ledger = ledger
        self.begin_anew()

    def begin_anew(self) -> None:
        partitions = range(self.topic.partitions)
        self.offsets = dict.fromkeys(partitions, 0)
        self.seen: dict[int, list[tuple[int, Copied]]] = {partition: [] for partition in partitions}
        self.stable_offsets = dict.fromkeys(partitions, -1)
        self.high_watermarks = dict.fromkeys(partitions, -1)

    async def client(self) -> Client:
        client = await super().client()
        client.versions[ApiKey.OFFSET_FETCH] = max(STABLE_FROM, client.versions[ApiKey.OFFSET_FETCH])
        return client

    async def step(self) -> None:
        client = await self.client()
        if self.random.random() < 0.02:
            self.begin_anew()
        await self.fetch(client, max_wait_ms=self.random.choice((0, 10, 200)))
        if self.asks_position and self.random.random() < 0.1:
            known = self.ledger.position
            position = await stable_position(self, client, self.ledger.name, self.topic, (UNSTABLE_OFFSET_COMMIT,))
            if position is not None:
                self.ledger.position_read(position, known)
        await self.pause()

    async def fetch(self, client: Client, *, max_wait_ms: int) -> None:
        """Fetches all partitions once, and advances the offsets."""
        max_bytes = self.random.choice((1, 300, 4_000, 1 << 20))
        topic = fetch_topic(client, self.topic, self.offsets, max_bytes)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self.random.choice((0, 1)),
            max_bytes=1 << 20,
            isolation_level=READ_COMMITTED,
            topics=(topic,),
        )
        errors: list[int] = []

        def note(answer: FetchResponse) -> None:
            errors.append(answer.error_code)
            for topic_answer in answer.responses:
                for row in topic_answer.partitions:
                    errors.append(row.error_code)
                    if not row.error_code:
                        self.take(row)

        await client.request(request, note=note)
        for error_code in errors:
            if error_code:
                self.must_be_retriable(error_code, f"Fetch of {self.topic.name}")
                await asyncio.sleep(0.1)

    def take(self, row: PartitionData) -> None:
        """Handles the response for one partition."""
        index = row.partition_index
        if row.last_stable_offset > row.high_watermark:
            raise ViolationError("last stable offset <= high watermark", f"{self.topic.name}-{index}: {row}")
        self.stable_offsets[index], self.high_watermarks[index] = row.last_stable_offset, row.high_watermark
        if row.records is not None and len(row.records):
            self.take_records(index, row.records, row.aborted_transactions or (), row.last_stable_offset)

    def take_records(
        self, partition: int, records: Buffer, aborted: tuple[AbortedTransaction, ...], stable_offset: int
    ) -> None:
        """Filters aborted records as every read_committed consumer does (KIP-98)."""
        waiting = deque(sorted(aborted, key=lambda entry: entry.first_offset))
        skipped: dict[int, None] = {}
        asked = self.offsets[partition]
        for at, header in iterate_batches(records):
            if header.next_offset > stable_offset:
                raise ViolationError(
                    "committed reads stay below the last stable offset",
                    f"{self.topic.name}-{partition}: {header.last_offset}, {stable_offset}",
                )
            while waiting and waiting[0].first_offset <= header.last_offset:
                skipped[waiting.popleft().producer_id] = None
            batch = read_records(bytes(records[at : at + header.size]))
            if header.is_control:
                self.world.count(TransactionEvent.MARKER_READ)
                # compaction may have left the batch without its record
                if not batch or decode_control_key(batch[0].key) is ControlType.ABORT:
                    skipped.pop(header.producer_id, None)
            elif header.producer_id in skipped:
                self.world.count(TransactionEvent.ABORTED_SKIPPED)
            else:
                for record in batch:
                    if record.offset >= asked:
                        copied = Copied.decode(record.value)
                        self.ledger.record_read(partition, record.offset, copied)
                        self.seen[partition].append((record.offset, copied))
            self.offsets[partition] = max(asked, header.next_offset)


class CopyAuditor(CommittedReader):
    """Reads the target to its end and the committed offset, once, and checks that the copy is complete."""

    is_finished = False

    def is_done(self) -> bool:
        return self.is_finished

    async def step(self) -> None:
        client = await self.client()
        await self.fetch(client, max_wait_ms=100)
        for partition, offset in self.offsets.items():
            # every copier has ended its transactions, so a last stable offset below the end means a hanging one
            if self.high_watermarks[partition] < 0 or offset < self.high_watermarks[partition]:
                return
        position = await stable_position(self, client, self.ledger.name, self.topic)
        if position is not None:
            self.ledger.check_whole(self.seen, position)
            self.is_finished = True


async def stable_position(
    loop: ClientLoop, client: Client, group: str, topic: SimulatedTopic, retriable: tuple[int, ...] = ()
) -> int | None:
    """The copier's committed offset once it has no open transaction; None for a transient error."""
    request = offset_fetch_request(client, group, topic, (0,), require_stable=True)
    answer = await client.request(request)
    rows = fetched_offsets(answer)
    codes = [answer.error_code, *[one.error_code for one in answer.groups], *[row.error_code for row in rows]]
    for error_code in codes:
        if error_code:
            if error_code == UNSTABLE_OFFSET_COMMIT:
                loop.world.count(TransactionEvent.OFFSETS_UNSTABLE)
            if error_code not in retriable:
                loop.must_be_retriable(error_code, "OffsetFetch")
            await asyncio.sleep(0.1)
            return None
    return max(0, rows[0].committed_offset)
