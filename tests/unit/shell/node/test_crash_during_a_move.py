"""A partition moves between log directories during writes, and the node dies at every operation of the disks, as a
process and as a machine. Acknowledged records survive, in the directory that the metadata names."""

from __future__ import annotations

import asyncio
import copy
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from moldau.errors import KafkaError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.wire.records.builder import build_batch
from tests.support.logs import records_in
from tests.support.moves import NAME_OF_RATE, PARTITION
from tests.support.node import produce_bytes, result_of

NOW_MS = 1_800_000_000_000
BEFORE, MEANWHILE = 12, 16
RATE = {NAME_OF_RATE: "100"}
"""One batch, and one piece, in a second."""


class Promises(msgspec.Struct):
    """The acknowledgements: values by offset, and the offset below which records are deleted."""

    values: dict[int, bytes]
    start_offset: int = 0


class Moment(msgspec.Struct):
    """The disks just before one of their operations."""

    roots: tuple[Any, Any]
    promises: Promises
    operation: str


class Witness:
    """Records every moment while `is_looking`, or one of `every`."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.seen = 0
        self.disks = tuple(WatchedDisk(self) for _ in range(2))
        self.promises = Promises({})
        self.moments: list[Moment] = []
        self.is_looking = False

    def note(self, operation: str) -> None:
        if not self.is_looking or operation.startswith("read"):
            return
        self.seen += 1
        if self.seen % self.every == 0:
            roots = copy.deepcopy((self.disks[0]._root, self.disks[1]._root))
            self.moments.append(Moment(roots, copy.deepcopy(self.promises), operation))


class WatchedDisk(MemoryDisk):
    """Reports each operation to the witness before it happens."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self.witness = witness
        self.faults.append(Fault("open", path_contains="no such file"))

    def raise_fault(self, operation: Any, path: str) -> None:
        self.witness.note(f"{operation} {path}")
        super().raise_fault(operation, path)

    def make_directory(self, path: str) -> None:
        self.witness.note(f"make {path}")
        super().make_directory(path)


async def append(client: Any, promises: Promises, value: bytes) -> None:
    records = build_batch([(value, value, NOW_MS, ())])
    partition = result_of(await client.ask(ApiKey.PRODUCE, 9, produce_bytes(records)))
    assert partition.error_code == 0
    promises.values[partition.base_offset] = value


async def delete_before(client: Any, promises: Promises, offset: int) -> None:
    topics = (DeleteRecordsTopic("t", (DeleteRecordsPartition(0, offset),)),)
    answer = await client.ask(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=topics, timeout_ms=1_000))
    assert answer.topics[0].partitions[0].error_code == 0
    promises.start_offset = offset


async def recorded_move(
    start_node: Any, policy: str, deletes_at: int, every: int, *, away_from_second: bool = False
) -> Witness:
    """Moves t-0, batch by batch, while records come; a client deletes records before and in between."""
    witness = Witness(every)
    promises = witness.promises
    node = await start_node(RATE, disk=witness.disks[0], further_disks=witness.disks[1:])
    if away_from_second:
        await node.create_topic("first")  # the next one goes to the other directory
    await node.create_topic("t", cleanup_policy=policy, flush_messages="1")
    client = node.connect()
    partition = node.node.broker.partitions.find("t", 0)
    partition.log.update_settings(msgspec.structs.replace(partition.log.settings, segment_bytes=300))
    for number in range(BEFORE):
        await append(client, promises, b"before %d" % number)
    await delete_before(client, promises, 4)
    await node.turns(50)
    here = node.node.broker.partitions.logs.directory_of(PARTITION)
    assert (here.path == "/disk1") is away_from_second
    (there,) = [directory for directory in node.node.broker.partitions.logs if directory is not here]
    witness.is_looking = True
    topics = (AlterReplicaLogDirTopic("t", (0,)),)
    request = AlterReplicaLogDirsRequest((AlterReplicaLogDir(there.path, topics),))
    assert (await client.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, request)).results[0].partitions[0].error_code == 0
    for number in range(MEANWHILE):
        await append(client, promises, b"meanwhile %d" % number)
        if number == deletes_at:
            await delete_before(client, promises, 9)
        await asyncio.sleep(0.5)
    await asyncio.sleep(30)
    witness.is_looking = False
    assert node.node.broker.partitions.logs.directory_of(PARTITION) is there
    assert not here.disk.exists("t-0")
    if every == 1:
        assert any(moment.operation.startswith("rename t-0.") for moment in witness.moments)
        assert any(moment.operation == "rename t-0" for moment in witness.moments)
    node.node.abort()
    await node.turns(1)
    return witness


def content(log: Any) -> dict[int, bytes]:
    return {record.offset: record.value for record in records_in(log)}


async def check_start(start_node: Any, disks: tuple[MemoryDisk, ...], promises: Promises) -> None:
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.turns(20)
    broker = node.node.broker
    log = broker.partitions.find("t", 0).log
    assert log.log_start_offset >= promises.start_offset
    found = content(log)
    lost = [key for key, value in promises.values.items() if key >= log.log_start_offset and found.get(key) != value]
    assert lost == []
    directory = broker.partitions.logs.directory_of(PARTITION)
    assert broker.image.directory_of(1, PARTITION) == directory.directory_id
    names = [name for disk in disks for name in disk.list_directory("") if name.startswith("t-0")]
    assert [name for name in names if not name.endswith("-delete")] == ["t-0"]
    node.node.abort()
    await asyncio.sleep(0)


async def check_start_without_second(
    start_node: Any, disks: tuple[MemoryDisk, ...], promises: Promises
) -> tuple[bool, list[int]]:
    """Whether the partition is served, and its lost records then."""
    disks[1].faults.append(Fault("read", path_contains="meta.properties"))
    node = await start_node(disk=disks[0], further_disks=disks[1:])
    await node.turns(20)
    is_served, lost = False, []
    with suppress(KafkaError):  # offline
        log = node.node.broker.partitions.find("t", 0).log
        is_served, found = True, content(log)
        start_offset = max(log.log_start_offset, promises.start_offset)
        lost = [key for key, value in promises.values.items() if key >= start_offset and found.get(key) != value]
    node.node.abort()
    await asyncio.sleep(0)
    return is_served, lost


@pytest.mark.slow
def test_a_copy_is_served_only_with_all_that_the_log_had_on_its_disk(in_virtual_time: Any) -> None:
    """The machine loses its power while a partition moves away from a directory that cannot be read then: acknowledged
    records were flushed there."""

    async def story(start_node: Any) -> None:
        witness = await recorded_move(start_node, "delete", 1, every=1, away_from_second=True)
        seen = {False: 0, True: 0}
        for place, moment in enumerate(witness.moments):
            disks = MemoryDisk(), MemoryDisk()
            for disk, root in zip(disks, moment.roots, strict=True):
                disk._root = root
                disk.crash_machine(SeededRandom(place))
            is_served, lost = await check_start_without_second(start_node, disks, moment.promises)
            assert lost == [], f"crash before operation {place}, {moment.operation}"
            seen[is_served] += 1
        assert all(seen.values()), seen

    in_virtual_time(story)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
@pytest.mark.parametrize("deletes_at", [1, 12])
@pytest.mark.parametrize("what_dies", ["process", "machine"])
def test_a_crash_at_any_operation_of_a_move_loses_nothing(
    in_virtual_time: Any, policy: str, deletes_at: int, what_dies: str
) -> None:
    async def story(start_node: Any) -> None:
        # a dead process leaves more than a dead machine, so one moment of three is enough
        witness = await recorded_move(start_node, policy, deletes_at, every=1 if what_dies == "machine" else 3)
        for place, moment in enumerate(witness.moments):
            disks = MemoryDisk(), MemoryDisk()
            for disk, root in zip(disks, moment.roots, strict=True):
                disk._root = root
                if what_dies == "machine":
                    disk.crash_machine(SeededRandom(place))
            try:
                await check_start(start_node, disks, moment.promises)
            except Exception as error:
                raise AssertionError(f"crash before operation {place}, {moment.operation}: {error!r}") from error

    in_virtual_time(story)
