"""The intact contents of a copy of the disks, and the parts that clients can read from a node started on it.

Three kinds of data are read: each batch of topics that are not compacted, the last record of each key of compacted
topics, and the last committed offset of each partition in each group. Data that is not served is returned as its batch
and the error code that the client got instead.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from moldau.core.groups.records import OffsetRecord, decode_group_record
from moldau.core.log.files.checkpoint import LOG_START_OFFSET_CHECKPOINT, decode_offsets
from moldau.errors import ERROR_CODES, ProtocolError
from moldau.simulation.checkers.group_ledger import NOTHING
from moldau.simulation.client import BrokerClient, UnansweredError
from moldau.simulation.kinds import OFFSETS_RETENTION_MINUTES
from moldau.simulation.violation import ViolationError
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.protocol.messages.offsets import OffsetFetchRequest
from moldau.wire.records.batch import is_crc_valid, iterate_batches, read_header
from moldau.wire.records.record import Record, read_records

if TYPE_CHECKING:
    from moldau.simulation.client_world import SimulatedTopic
    from moldau.simulation.damaged_machine import DamagedMachine

RULE = "a flipped bit hides nothing"
DAMAGED = (ERROR_CODES["CORRUPT_MESSAGE"], ERROR_CODES["KAFKA_STORAGE_ERROR"])
OFFSET_OUT_OF_RANGE = ERROR_CODES["OFFSET_OUT_OF_RANGE"]
FINAL = (0, *DAMAGED, OFFSET_OUT_OF_RANGE, ERROR_CODES["UNKNOWN_TOPIC_OR_PARTITION"])
FETCH_VERSION = 12
"""The last version with topic names."""
OFFSET_FETCH_VERSION = 7
"""The last version for a single group."""
TRIES = 30
TRY_AGAIN_S = 0.1
OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_DIRECTORY = re.compile(rf"{OFFSETS_TOPIC}-(\d+)/")
SWAPPED = re.compile(r"\.(cleaned|swap)$")

Tree = dict[str, bytes]


class Batch(msgspec.Struct, frozen=True):
    """One whole batch of a topic's log, in the file `path`."""

    topic: str
    partition: int
    base_offset: int
    path: str
    position: int
    data: bytes

    @property
    def directory(self) -> str:
        return f"{self.topic}-{self.partition}"

    def is_in_place(self, trees: list[Tree]) -> bool:
        """Whether the batch is still at its place."""
        end = self.position + len(self.data)
        return any(tree.get(self.path, b"")[self.position : end] == self.data for tree in trees)


class LastRecord(msgspec.Struct, frozen=True):
    """The last record of its key in a compacted log. `value` None: a tombstone."""

    batch: Batch
    offset: int
    key: bytes
    value: bytes | None


class Position(msgspec.Struct, frozen=True):
    """The last committed offset of a partition in a group; NOTHING for a tombstone."""

    batch: Batch
    group: str
    topic: str
    partition: int
    offset: int
    committed_ms: int


class Held(msgspec.Struct, frozen=True):
    """The data that a start on a copy serves: from the log start offset up to the part torn off by a crash.
    `compacted`: the batches of the compacted topics."""

    batches: list[Batch]
    compacted: list[Batch]
    keys: list[LastRecord]
    positions: list[Position]

    def without(self, is_hit: Callable[[Batch], bool]) -> Held:
        """The same without the data that a flip may have changed."""
        return Held(
            [batch for batch in self.batches if not is_hit(batch)],
            self.compacted,
            [last for last in self.keys if not is_hit(last.batch)],
            [position for position in self.positions if not is_hit(position.batch)],
        )


def held_by(copy: list[Tree], topics: list[SimulatedTopic]) -> Held:
    """The data of `topics` in the log directories of `copy`, and of the groups that read them."""
    compacted = _batches_in(copy, [topic for topic in topics if topic.is_compacted], may_have_gaps=True)
    keys = {
        (batch.directory, record.key): LastRecord(batch, record.offset, record.key, record.value)
        for batch in compacted
        for record in read_records(batch.data)
        if record.key is not None
    }
    names = [topic.name for topic in topics]
    plain = _batches_in(copy, [topic for topic in topics if not topic.is_compacted])
    return Held(plain, compacted, list(keys.values()), _positions_in(copy, names))


def _batches_in(copy: list[Tree], topics: list[SimulatedTopic], *, may_have_gaps: bool = False) -> list[Batch]:
    found: dict[tuple[str, int], Batch] = {}
    for tree in copy:
        starts = decode_offsets(tree.get(LOG_START_OFFSET_CHECKPOINT, b""))
        log_starts = {f"{key.topic}-{key.partition}": offset for key, offset in starts.items()}
        for topic in topics:
            for partition in range(topic.partitions):
                for batch in _batches_of(tree, topic.name, partition, may_have_gaps=may_have_gaps):
                    if batch.base_offset >= log_starts.get(batch.directory, 0):
                        found[batch.directory, batch.base_offset] = batch
    return sorted(found.values(), key=lambda batch: (batch.directory, batch.base_offset))


def _positions_in(copy: list[Tree], topics: list[str]) -> list[Position]:
    found: dict[tuple[str, str, int], Position] = {}
    for tree in copy:
        for partition in sorted({int(match[1]) for path in tree if (match := OFFSETS_DIRECTORY.match(path))}):
            for batch in _batches_of(tree, OFFSETS_TOPIC, partition, may_have_gaps=True):
                for position in _positions_of(batch):
                    if position.topic in topics:
                        found[position.group, position.topic, position.partition] = position
    return list(found.values())


def _positions_of(batch: Batch) -> Iterator[Position]:
    """Without transactional commits, because no client commits offsets of these topics in a transaction."""
    if read_header(batch.data).is_transactional:
        return
    for record in read_records(batch.data):
        read = decode_group_record(record.key, record.value)
        if isinstance(read, OffsetRecord):
            key, value = read.key, read.value
            offset, committed_ms = (NOTHING, 0) if value is None else (value.offset, value.commit_timestamp)
            yield Position(batch, key.group, key.topic, key.partition, offset, committed_ms)


def _batches_of(tree: Tree, topic: str, partition: int, *, may_have_gaps: bool) -> list[Batch]:
    """Empty while cleaned segments are being swapped in."""
    directory = f"{topic}-{partition}/"
    paths = sorted(path for path in tree if path.startswith(directory))
    if any(SWAPPED.search(path) for path in paths):
        return []
    batches: list[Batch] = []
    expected = None
    for path in paths:
        if not re.fullmatch(r"\d{20}\.log", path.removeprefix(directory)):
            continue
        data = tree[path]
        try:
            for at, header in iterate_batches(data):
                is_next = expected is None or header.base_offset == expected
                is_next = is_next or (may_have_gaps and header.base_offset > (expected or 0))
                if not is_next or not is_crc_valid(data, at, header.size):
                    return batches
                batches.append(Batch(topic, partition, header.base_offset, path, at, data[at : at + header.size]))
                expected = header.next_offset
        except ProtocolError:
            return batches
    return batches


class CopyReader:
    """A client that reads the data of a copy."""

    def __init__(self, machine: DamagedMachine) -> None:
        self.machine = machine
        self.random = machine.around.random_of("flipped bits/reader")
        self.log_starts: dict[str, int] = {}
        self.covered: dict[str, int] = {}
        """The offset up to which each directory has been read."""
        self.served: dict[tuple[str, int], bytes] = {}
        self.codes: dict[Batch, int] = {}

    async def read(self, held: Held) -> list[tuple[Batch, int]]:
        """The data that is not served, with error codes."""
        client = await self.connect()
        for batch in held.batches:
            if (batch.directory, batch.base_offset) not in self.served:
                self.codes[batch] = await self.fetch(client, batch)
        for batch in held.compacted:
            if batch.base_offset >= self.covered.get(batch.directory, 0):
                self.codes[batch] = await self.fetch(client, batch)
        served = self.served
        hidden = [batch for batch in held.batches if served.get((batch.directory, batch.base_offset)) != batch.data]
        records = self.records_of({last.batch.directory for last in held.keys})
        hidden += [last.batch for last in held.keys if not is_last(last, records[last.batch.directory])]
        positions = await self.lost_positions(client, held.positions)
        client.close()
        return [(batch, self.codes.get(batch, 0)) for batch in hidden] + positions

    def is_below_start(self, batch: Batch, code: int) -> bool:
        """Whether retention removed the batch."""
        return code == OFFSET_OUT_OF_RANGE or batch.base_offset < self.log_starts.get(batch.directory, 0)

    def records_of(self, directories: set[str]) -> dict[str, dict[int, Record]]:
        """The served records by directory and offset."""
        found: dict[str, dict[int, Record]] = {directory: {} for directory in sorted(directories)}
        for (directory, _), data in self.served.items():
            if directory in found:
                found[directory].update((record.offset, record) for record in read_records(data))
        return found

    async def connect(self) -> BrokerClient:
        try:
            client = await BrokerClient.open(self.machine.around.network, "flips", self.machine.host, self.random)
        except UnansweredError as error:
            raise ViolationError(RULE, f"a node that started does not listen: {error}") from error
        client.versions[ApiKey.FETCH] = FETCH_VERSION
        client.versions[ApiKey.OFFSET_FETCH] = OFFSET_FETCH_VERSION
        return client

    async def fetch(self, client: BrokerClient, batch: Batch) -> int:
        """Reads from the batch on, and returns the error code."""
        wanted = FetchPartition(partition=batch.partition, fetch_offset=batch.base_offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 22, topics=(FetchTopic(topic=batch.topic, partitions=(wanted,)),)
        )
        for _ in range(TRIES):
            try:
                response = await client.request(request)
            except UnansweredError as error:
                raise ViolationError(RULE, f"Fetch of {batch.directory} {batch.base_offset}: {error}") from error
            answer = response.responses[0].partitions[0]
            if answer.error_code in FINAL:
                break
            await asyncio.sleep(TRY_AGAIN_S)
        self.log_starts[batch.directory] = max(answer.log_start_offset, self.log_starts.get(batch.directory, 0))
        data = bytes(answer.records or b"")
        try:
            for at, header in iterate_batches(data):
                self.covered[batch.directory] = header.next_offset
                if is_crc_valid(data, at, header.size):
                    self.served[batch.directory, header.base_offset] = data[at : at + header.size]
        except ProtocolError:
            """The damaged batch is sent on; its reader sees that."""
        return answer.error_code

    async def lost_positions(self, client: BrokerClient, positions: list[Position]) -> list[tuple[Batch, int]]:
        """The committed offsets that differ from the last commit, without those that may have expired."""
        lost: list[tuple[Batch, int]] = []
        retention_ms = OFFSETS_RETENTION_MINUTES * 60_000
        for group in dict.fromkeys(position.group for position in positions):
            code, offsets = await self.offsets_of(client, group)
            for position in positions:
                if (
                    position.group != group
                    or offsets.get((position.topic, position.partition), NOTHING) == position.offset
                ):
                    continue
                if self.machine.clock.latest_ms() - position.committed_ms < retention_ms:
                    lost.append((position.batch, code))
        return lost

    async def offsets_of(self, client: BrokerClient, group: str) -> tuple[int, dict[tuple[str, int], int]]:
        """All committed offsets of `group`, or its lasting error code."""
        for _ in range(TRIES):
            try:
                answer = await client.request(OffsetFetchRequest(group_id=group, topics=None))
            except UnansweredError as error:
                raise ViolationError(RULE, f"OffsetFetch of {group}: {error}") from error
            if not answer.error_code:
                break
            await asyncio.sleep(TRY_AGAIN_S)
        return answer.error_code, {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in answer.topics
            for partition in topic.partitions
        }


def is_last(last: LastRecord, records: dict[int, Record]) -> bool:
    """Whether a reader of `records` ends with that record for its key. A tombstone may be gone; then the records that
    it deleted are gone too."""
    record = records.get(last.offset)
    if record is not None:
        return (record.key, record.value) == (last.key, last.value)
    is_back = any(record.key == last.key and offset < last.offset for offset, record in records.items())
    return last.value is None and not is_back
