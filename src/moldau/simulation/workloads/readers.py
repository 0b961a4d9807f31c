"""Consumers that read partitions in order and compare every batch with the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES, ProtocolError
from moldau.simulation.checkers.ledger import PartitionLedger, Value
from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import ClientLoop
from moldau.types import Buffer
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from moldau.wire.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.records.batch import is_crc_valid, iterate_batches
from moldau.wire.records.record import read_records

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

OFFSET_OUT_OF_RANGE = ERROR_CODES["OFFSET_OUT_OF_RANGE"]
FIRST_TOPIC_ID_VERSION = 13
SEEK_SHARE = 0.05
AUDITS = 3
"""How often an auditor reads a compacted log whose records seem to come back."""
LATEST = -1
EARLIEST = -2


class Position:
    """A reader's position in one partition, and the records that it has seen there."""

    def __init__(self, ledger: PartitionLedger, offset: int) -> None:
        self.ledger = ledger
        self.offset = offset
        self.high_watermark = -1
        self.log_start_offset = -1
        self.answered_by: object = None
        self.legal_losses_seen = ledger.legal_losses
        self.is_out_of_range = False
        self.error_code = 0
        self.seen: dict[int, Value] = {}


def take_partition(
    position: Position,
    answer: PartitionData,
    client: Client,
    asked_offset: int,
    asked_s: float,
) -> None:
    """Checks the fetch response for one partition against the ledger, and advances the position."""
    ledger = position.ledger
    position.error_code = answer.error_code
    if answer.error_code == OFFSET_OUT_OF_RANGE:
        # after an unclean election, a leader that does not know it yet may still serve lost records
        may_be_gone = ledger.rules.may_expire or ledger.is_loss_allowed
        if ledger.legal_losses == position.legal_losses_seen and not may_be_gone:
            raise ViolationError(
                "what was read can be read again", f"{ledger.name}: offset {asked_offset} out of range"
            )
        position.is_out_of_range = True
        return
    if answer.error_code:
        return
    if position.answered_by is not client.answering or ledger.is_loss_allowed:
        position.answered_by = client.answering
        position.high_watermark = -1
    if answer.high_watermark < position.high_watermark:
        raise ViolationError(
            "the high watermark never goes back",
            f"{ledger.name}: {position.high_watermark} to {answer.high_watermark} on one connection",
        )
    position.high_watermark = answer.high_watermark
    if answer.last_stable_offset > answer.high_watermark:
        raise ViolationError("last stable offset <= high watermark", f"{ledger.name}: {answer}")
    if answer.log_start_offset >= 0:
        ledger.log_start_seen(answer.log_start_offset, asked_s=asked_s, seen_s=asyncio.get_running_loop().time())
        position.log_start_offset = answer.log_start_offset
    if answer.records is not None and len(answer.records):
        position.offset = take_records(position, answer.records, asked_offset, answer.high_watermark)


def take_records(position: Position, records: Buffer, asked_offset: int, high_watermark: int) -> int:
    """Checks and learns all whole batches. Returns the offset after the last one."""
    ledger = position.ledger
    next_offset = None
    is_compacted = ledger.rules.is_compacted
    try:
        for at, header in iterate_batches(records):
            batch = bytes(records[at : at + header.size])
            values = ledger.contents.get(batch)
            if values is None:
                if not is_crc_valid(batch, 0, header.size):
                    raise ViolationError("CRCs are valid", f"{ledger.name}: the batch at {header.base_offset}")
                values = ledger.contents[batch] = [(record.offset, Value.of(record)) for record in read_records(batch)]
            if next_offset is None:
                is_behind = is_compacted and header.base_offset > asked_offset
                if not is_behind and not header.base_offset <= asked_offset < header.next_offset:
                    raise ViolationError(
                        "a fetch begins where it was asked",
                        f"{ledger.name}: asked {asked_offset}, got {header.base_offset} to {header.last_offset}",
                    )
                next_offset = header.base_offset if header.base_offset < asked_offset else asked_offset
            if header.next_offset > high_watermark:
                raise ViolationError(
                    "reads stay below the high watermark", f"{ledger.name}: {header.last_offset}, {high_watermark}"
                )
            if not ledger.is_loss_allowed:
                ledger.epochs.read(header.base_offset, header.next_offset, header.partition_leader_epoch)
            for offset, value in values:
                if offset != next_offset:
                    took_over(ledger, next_offset, offset, asked_offset)
                ledger.read(offset, value)
                position.seen[offset] = value
                next_offset = offset + 1
            if next_offset != header.next_offset:
                took_over(ledger, next_offset, header.next_offset, asked_offset)
                next_offset = header.next_offset
    except ProtocolError as error:
        raise ViolationError("batches are well-formed", f"{ledger.name}: {error}") from error
    return asked_offset if next_offset is None else next_offset


def took_over(ledger: PartitionLedger, begin: int, end: int, asked_offset: int) -> None:
    """Offsets [begin, end) had no records. The reader had requested those from `asked_offset` on."""
    if not ledger.rules.is_compacted or end < begin:
        raise ViolationError("offsets are contiguous", f"{ledger.name}: {end} follows {begin - 1}")
    ledger.skipped(max(begin, asked_offset), end)


class Consumer(ClientLoop):
    """Reads all partitions of a topic from the beginning, again and again."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name)
        self.topic = topic
        self.seeks = world.random_of(f"client/{name}/seeks")
        self.positions = self.from_the_start()

    def from_the_start(self) -> dict[int, Position]:
        ledgers = [self.topic.ledger(self.world, partition) for partition in range(self.topic.partitions)]
        return {ledger.partition: Position(ledger, ledger.log_start_offset) for ledger in ledgers}

    async def step(self) -> None:
        client = await self.client()
        if self.random.random() < 0.02:
            self.positions = self.from_the_start()
        elif self.seeks.random() < SEEK_SHARE:
            self.seek()
        await self.fetch(client, max_wait_ms=self.random.choice((0, 10, 100, 500)))
        await self.pause()

    def seek(self) -> None:
        """Continues one partition at a random offset. In a compacted topic, often at one whose record must still
        exist."""
        position = self.positions[self.seeks.choice(list(self.positions))]
        ledger = position.ledger
        offset = self.seeks.randint(ledger.log_start_offset, max(ledger.end, ledger.log_start_offset))
        if ledger.rules.is_compacted and ledger.last_of_key and self.seeks.random() < 0.7:
            offset = self.seeks.choice(sorted(ledger.last_of_key.values()))
        self.positions[ledger.partition] = Position(ledger, offset)

    def draw_max_bytes(self) -> int:
        return self.random.choice((1, 500, 4_000, 1 << 20))

    async def fetch(self, client: Client, *, max_wait_ms: int) -> None:
        """Fetches all positions once, and advances them."""
        positions = self.positions
        asked = {partition: position.offset for partition, position in positions.items()}
        asked_s = self.world.loop.time()
        max_bytes = self.draw_max_bytes()
        topic = fetch_topic(client, self.topic, asked, max_bytes)
        request = FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=self.random.choice((0, 1, 1, 1_000)), max_bytes=1 << 22, topics=(topic,)
        )

        def note(answer: FetchResponse) -> None:
            if answer.error_code:
                self.must_be_retriable(answer.error_code, "Fetch")
            for topic_answer in answer.responses:
                for partition in topic_answer.partitions:
                    index = partition.partition_index
                    take_partition(positions[index], partition, client, asked[index], asked_s)

        await client.request(request, note=note)
        await self.handle_errors(client)

    async def handle_errors(self, client: Client) -> None:
        is_refused = False
        for partition, position in self.positions.items():
            if position.is_out_of_range:
                position.is_out_of_range = False
                position.error_code = 0
                await self.reset_position(client, partition, position)
            elif position.error_code:
                self.must_be_retriable(position.error_code, f"Fetch of {position.ledger.name}")
                is_refused = True
        if is_refused:
            await asyncio.sleep(self.random.uniform(0.02, 0.3))

    async def reset_position(self, client: Client, partition: int, position: Position) -> None:
        """After a legal loss or an expiry, continues at the start of the log."""
        asked_s = self.world.loop.time()
        start = await list_offset(self, client, self.topic.name, partition, EARLIEST)
        if start >= 0:
            position.ledger.log_start_seen(start, asked_s=asked_s, seen_s=self.world.loop.time())
            self.positions[partition] = Position(position.ledger, start)


def fetch_topic(client: Client, topic: SimulatedTopic, asked: dict[int, int], max_bytes: int) -> FetchTopic:
    """The fetch of partitions of one topic. `asked`: the start offset of each partition."""
    wanted = tuple(
        FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        for partition, offset in asked.items()
    )
    if client.version_of(ApiKey.FETCH) >= FIRST_TOPIC_ID_VERSION:
        return FetchTopic(topic_id=topic.topic_id, partitions=wanted)
    return FetchTopic(topic=topic.name, partitions=wanted)


async def list_offset(reader: ClientLoop, client: Client, topic: str, partition: int, timestamp: int) -> int:
    """ListOffsets of one partition; -1 for a transient error."""
    answer = await client.request(list_offsets_request(topic, (partition,), timestamp))
    for topic_answer in answer.topics:
        for partition_answer in topic_answer.partitions:
            if partition_answer.error_code == 0:
                return partition_answer.offset
            reader.must_be_retriable(partition_answer.error_code, f"ListOffsets of {topic}-{partition}")
    await asyncio.sleep(0.1)
    return -1


def list_offsets_request(topic: str, partitions: Iterable[int], timestamp: int) -> ListOffsetsRequest:
    rows = tuple(ListOffsetsPartition(partition_index=partition, timestamp=timestamp) for partition in partitions)
    return ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(topic, rows),))


class Auditor(Consumer):
    """Reads every partition of a topic once from start to end, and checks with the ledger that it is complete."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name, topic)
        self.ends: dict[int, int] = {}
        self.audits = 0
        self.is_finished = False

    def is_done(self) -> bool:
        return self.is_finished

    def draw_max_bytes(self) -> int:
        return 1 << 20

    async def step(self) -> None:
        client = await self.client()
        for partition in self.positions:
            if partition not in self.ends:
                end = await list_offset(self, client, self.topic.name, partition, LATEST)
                if end < 0:
                    return
                # after a loss of power the log may start before the start that the ledger knows
                await self.reset_position(client, partition, self.positions[partition])
                self.ends[partition] = end
        if any(position.offset < self.ends[partition] for partition, position in self.positions.items()):
            await self.fetch(client, max_wait_ms=10)
            return
        for partition, position in self.positions.items():
            if position.ledger.rules.may_expire:
                asked_s = self.world.loop.time()
                start = await list_offset(self, client, self.topic.name, partition, EARLIEST)
                if start < 0:
                    return
                position.ledger.log_start_seen(start, asked_s=asked_s, seen_s=self.world.loop.time())
            returned = position.ledger.check_whole(position.seen, self.ends[partition])
            if returned and self.audits < AUDITS:
                self.audits += 1
                self.ends.clear()
                return
            if returned:
                raise ViolationError("what was deleted stays deleted", f"{position.ledger.name}: {returned}")
        self.is_finished = True
