"""Every kind of a node's files, damaged in every way, after a clean stop and after a crash.

The rule: a start serves, or it fails with one sentence that names a file, and changes nothing. Readable data on the
disk is never lost, hidden or deleted: each whole record batch is served, or a log line names its file and the bytes
stay on the disk, also after the next stop and start and after `file.delete.delay.ms`. Nothing hangs: the disk counts
its operations, the loop its turns.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from moldau.core.log.log import AppendOrigin
from moldau.core.replication.partition import Partition
from moldau.errors import KafkaError, MoldauError
from moldau.shell.io.simulated.memory_disk import MemoryDisk, MemoryFile
from moldau.simulation.flipped_bits import tree_of
from moldau.simulation.flipped_reading import Tree
from moldau.types import TopicPartition
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.support.logs import flush
from tests.unit.shell.conftest import turns

NOW_MS = 1_800_000_000_000
MAX_READS = 200_000
"""For one start with all later reads: it stops an endless walk."""
MAX_TURNS = 20_000
DERIVED = (
    *(".index", ".timeindex", ".snapshot", ".txnindex", ".part", ".cleaned"),
    *("quorum-state", "leader-epoch-checkpoint", "flushed-offset"),
)
"""Files that a start rebuilds from the log."""
COMPACTED = ("table", "__consumer_offsets")
SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "1000", "file.delete.delay.ms": "1000"}
BASE = "00000000000000000000"


class CountingDisk(MemoryDisk):
    """Raises if it was read too often."""

    reads = 0

    def count(self) -> None:
        self.reads += 1
        if self.reads > MAX_READS:
            raise AssertionError("the disk is read again and again")

    def open(self, path: str, *, create: bool = True) -> MemoryFile:
        file = super().open(path, create=create)
        return CountedFile(self, file)  # type: ignore[return-value]

    def read_file(self, path: str) -> bytes:
        self.count()
        return super().read_file(path)


class CountedFile:
    """A file of a CountingDisk."""

    def __init__(self, disk: CountingDisk, file: MemoryFile) -> None:
        self._disk, self._file = disk, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, position: int, length: int) -> bytes:
        self._disk.count()
        return self._file.read(position, length)

    def read_cached(self, position: int, length: int) -> bytes | None:
        self._disk.count()
        return self._file.read_cached(position, length)


def disk_of(tree: Tree) -> CountingDisk:
    disk = CountingDisk()
    for path, data in tree.items():
        parent = path.rpartition("/")[0]
        if parent:
            disk.make_directory(parent)
        if not path.endswith("/"):
            MemoryDisk.open(disk, path).append(data)
    return disk


class Written(msgspec.Struct, frozen=True):
    """One batch as it is in the file `path`."""

    partition: TopicPartition
    base_offset: int
    path: str
    data: bytes


class Original(msgspec.Struct):
    """A directory as a stop left it, and its readable batches."""

    tree: Tree
    batches: list[Written]


def write(partition: Partition, count: int, first: int = 0, *, producer_id: int = -1) -> None:
    for number in range(first, first + count):
        rows = [(b"key-%d" % (number % 5), b"%04d " % number * 8, NOW_MS + number, ())]
        sequence = (
            {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": number} if producer_id >= 0 else {}
        )
        partition.append(bytearray(build_batch(rows, **sequence)), NOW_MS, AppendOrigin.CLIENT)  # type: ignore[arg-type]


def seal(partition: Partition) -> None:
    partition.log.roll(NOW_MS)
    flush(partition.log, NOW_MS)


def readable(partition: Partition) -> list[tuple[int, bytes]]:
    """(base offset, bytes) of each batch that is served; offsets that give an error are skipped."""
    log = partition.log
    found: dict[int, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            data = bytes(log.read(offset, max_bytes=1, end_offset=log.log_end_offset, may_wait=True).records or b"")
        except KafkaError as error:
            if error.code not in (2, 56):
                raise
            offset += 1
            continue
        batches = list(iterate_batches(data))
        if not batches:
            break
        for position, header in batches:
            found[header.base_offset] = data[position : position + header.size]
            offset = max(offset + 1, header.next_offset)
    return list(found.items())


async def make_original(start_node: Any, *, is_clean: bool) -> Original:
    disk = MemoryDisk()
    node = await start_node(SETTINGS, disk=disk)
    await node.create_topic("t", 2, index_interval_bytes="200", segment_jitter_ms="0")
    await node.create_topic("table", 1, cleanup_policy="compact", index_interval_bytes="200")
    await node.create_topic("__consumer_offsets", 1, cleanup_policy="compact", index_interval_bytes="200")
    find = node.node.broker.partitions.find
    for index in range(2):
        write(find("t", index), 10, producer_id=7 + index)
        seal(find("t", index))
    table, groups = find("table", 0), find("__consumer_offsets", 0)
    for round_number in range(2):
        write(table, 10, 10 * round_number)
        seal(table)
    assert await node.node.housekeeping.cleaner.clean_one()
    write(table, 6, 40)
    write(groups, 8)
    seal(groups)
    write(groups, 4, 8)
    find("t", 1).log.advance_log_start_offset(3)
    node.node._quorum.log.roll(NOW_MS)
    for number in range(3):
        await node.create_topic(f"more-{number}", 1)
    await node.turns(50)
    node.node._quorum.log.roll(NOW_MS)
    await node.node.stop()
    node = await start_node(SETTINGS, disk=disk)
    find = node.node.broker.partitions.find
    for index in range(2):
        write(find("t", index), 10, 10, producer_id=7 + index)
        seal(find("t", index))
        write(find("t", index), 7, 20, producer_id=7 + index)
    await node.create_topic("last", 1)
    await node.node.housekeeping.write_checkpoints()
    partitions = list(node.node.broker.partitions)
    if is_clean:
        served = {partition.topic_partition: readable(partition) for partition in partitions}
        await node.node.stop()
    else:
        served = {partition.topic_partition: readable(partition) for partition in partitions}
        node.node.abort()
        disk.crash_process()
    tree = tree_of(disk)
    tree.pop(".lock", None)
    # files of an interrupted cleaner round and of a deletion
    tree[f"t-0/{BASE}.log.0123456789abcdef.cleaned"] = tree[f"t-0/{BASE}.log"][:200]
    tree[f"t-0/{BASE}.txnindex"] = b""
    batches = []
    for topic_partition, found in served.items():
        logs = [path for path in tree if path.startswith(f"{topic_partition}/") and path.endswith(".log")]
        for base_offset, data in found:
            path = next(path for path in logs if data in tree[path])
            batches.append(Written(topic_partition, base_offset, path, data))
    return Original(tree, batches)


def place(tree: Tree, directory: str, number: int, suffix: str = ".log") -> str:
    """The path of one file of the segment `number` of a partition."""
    logs = sorted(path for path in tree if re.fullmatch(rf"{re.escape(directory)}/\d{{20}}\.log", path))
    return logs[number].removesuffix(".log") + suffix


def newest(tree: Tree, pattern: str) -> str:
    return max((path for path in tree if re.fullmatch(pattern, path)), default=pattern.replace(r"\d+", "1"))


METADATA = "__cluster_metadata-0"
FILES: dict[str, Callable[[Tree], str]] = {
    "active segment": lambda tree: place(tree, "t-0", -1),
    "first sealed segment": lambda tree: place(tree, "t-0", 0),
    "last sealed segment": lambda tree: place(tree, "t-0", -2),
    "offset index of a sealed segment": lambda tree: place(tree, "t-0", 0, ".index"),
    "time index of a sealed segment": lambda tree: place(tree, "t-0", 0, ".timeindex"),
    "offset index of the active segment": lambda tree: place(tree, "t-0", -1, ".index"),
    "time index of the active segment": lambda tree: place(tree, "t-0", -1, ".timeindex"),
    "transaction index": lambda tree: place(tree, "t-0", 0, ".txnindex"),
    "snapshot of the active segment": lambda tree: place(tree, "t-0", -1, ".snapshot"),
    "snapshot at the log end": lambda tree: newest(tree, r"t-0/\d+\.snapshot"),
    "leader epochs": lambda tree: "t-0/leader-epoch-checkpoint",
    "partition metadata": lambda tree: "t-0/partition.metadata",
    "cleaned segment": lambda tree: place(tree, "table-0", 0),
    "active segment of a compacted topic": lambda tree: place(tree, "table-0", -1),
    "left over cleaned file": lambda tree: newest(tree, r"t-0/\d+\.log\.[0-9a-f]+\.cleaned"),
    "sealed segment of the groups": lambda tree: place(tree, "__consumer_offsets-0", 0),
    "segment of a partition with a log start offset": lambda tree: place(tree, "t-1", 0),
    "first segment of the metadata log": lambda tree: place(tree, METADATA, 0),
    "sealed segment of the metadata log": lambda tree: place(tree, METADATA, -2),
    "last segment of the metadata log": lambda tree: place(tree, METADATA, -1),
    "offset index of the metadata log": lambda tree: place(tree, METADATA, 0, ".index"),
    "leader epochs of the metadata log": lambda tree: f"{METADATA}/leader-epoch-checkpoint",
    "metadata snapshot": lambda tree: newest(tree, rf"{METADATA}/\d+-\d+\.checkpoint"),
    "flushed offset of the metadata log": lambda tree: f"{METADATA}/flushed-offset",
    "quorum state": lambda tree: f"{METADATA}/quorum-state",
    "meta.properties": lambda tree: "meta.properties",
    "bootstrap.checkpoint": lambda tree: "bootstrap.checkpoint",
    "recovery points": lambda tree: "recovery-point-offset-checkpoint",
    "high watermarks": lambda tree: "replication-offset-checkpoint",
    "log start offsets": lambda tree: "log-start-offset-checkpoint",
    "cleaned offsets": lambda tree: "cleaner-offset-checkpoint",
    "mark of a clean stop": lambda tree: ".kafka_cleanshutdown",
}


def flip(data: bytes) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[len(changed) // 2] ^= 4
    return bytes(changed)


def zero(data: bytes) -> bytes:
    begin = len(data) // 3
    return data[:begin] + bytes(len(data) // 3) + data[begin + len(data) // 3 :]


def junk(data: bytes) -> bytes:
    begin = len(data) // 2
    noise = bytes((number * 167 + 13) % 256 for number in range(max(40, len(data) // 4)))
    return data[:begin] + noise + data[begin + len(noise) :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": flip,
    "zeroed": zero,
    "cut": lambda data: data[: len(data) // 2],
    "emptied": lambda data: b"",
    "junk": junk,
    "missing": lambda data: None,
}


def damage(original: Original, file: str, kind: str) -> tuple[Tree, str]:
    path = FILES[file](original.tree)
    tree = dict(original.tree)
    data = DAMAGES[kind](tree.pop(path, b""))
    if data is not None:
        tree[path] = data
    return tree, path


def intact(original: Original, tree: Tree, path: str) -> list[Written]:
    """The batches that are still whole in the damaged tree."""
    changed = {path: tree.get(path, b"")}
    return [batch for batch in original.batches if batch.data in changed.get(batch.path, batch.data)]


def check_bytes(batches: list[Written], disk: MemoryDisk) -> None:
    """Each of them is somewhere on the disk."""
    contents = list(tree_of(disk).values())
    everything = b"\0".join(contents)
    gone = [(str(batch.partition), batch.base_offset) for batch in batches if batch.data not in everything]
    assert not gone, f"lost or deleted: {gone}"


def hidden(batches: list[Written], node: Any) -> list[Written]:
    """The batches that no client can read."""
    served: dict[TopicPartition, dict[int, bytes]] = {}
    for partition in node.broker.partitions:
        served[partition.topic_partition] = dict(readable(partition))
    return [batch for batch in batches if served.get(batch.partition, {}).get(batch.base_offset) != batch.data]


async def run(work: Any, what: str) -> Any:
    """Runs `work` to its end, in a bounded number of turns of the loop."""
    task = asyncio.ensure_future(work)
    for _ in range(MAX_TURNS):
        if task.done():
            return task.result()
        await turns(1)
    task.cancel()
    raise AssertionError(f"{what} does not end")


def check_named(batches: list[Written], path: str, lines: list[str]) -> None:
    """Batches that are not served are on the disk, and a log line names the damaged file or the partition."""
    for batch in batches:
        names = (path, str(batch.partition))
        assert any(name in line for line in lines for name in names), f"{batch.partition} {batch.base_offset} is hidden"


def changed_files(tree: Tree, after: Tree) -> list[str]:
    """The files that a failed start may not change. A file of records keeps its bytes, there or in the file of its cut
    tail."""
    kept = [data for name, data in after.items() if ".log.cut-" in name]
    changed = []
    for name, data in tree.items():
        now = after.get(name, b"")
        is_whole = now.startswith(data) or any(now + cut == data for cut in (b"", *kept))
        if not is_whole and not name.endswith(DERIVED) and not (".checkpoint" in name and "metadata" in name):
            changed.append(name)
    return changed


def check_refusal(refusal: str, path: str, tree: Tree, disk: MemoryDisk) -> None:
    """A sentence that names the file, or its directory; and all files are unchanged."""
    directory, _, name = path.rpartition("/")
    assert "\n" not in refusal
    assert name in refusal or (directory and directory in refusal), refusal
    changed = changed_files(tree, tree_of(disk))
    assert not changed, f"a refused start changed {changed}: {refusal}"


async def start_damaged(start_node: Any, original: Original, file: str, kind: str, caplog: Any) -> None:
    tree, path = damage(original, file, kind)
    batches = intact(original, tree, path)
    disk = disk_of(tree)
    caplog.clear()
    refusal = None
    try:
        running = await run(start_node(SETTINGS, disk=disk), "the start")
    except MoldauError as error:
        refusal = str(error)
    if refusal is not None:
        check_refusal(refusal, path, tree, disk)
        return
    missing = hidden(batches, running.node)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    check_named(missing, path, lines)
    check_bytes(batches, disk)
    broker = running.node.broker
    await run(running.node.housekeeping.apply_retention(), "retention")
    await run(running.node.housekeeping.clean_logs(), "the cleaner")
    running.clock.advance(3_600_000)
    await run(running.node.housekeeping.purge_deleted(), "the purge")
    check_bytes([batch for batch in batches if batch.partition.topic not in COMPACTED], disk)
    for partition in list(broker.partitions):
        if not partition.is_offline:
            write(partition, 1, 900)
    await run(running.node.stop(), "the stop")
    before = len(missing)
    running = await run(start_node(SETTINGS, disk=disk), "the second start")
    still = [batch for batch in batches if batch.partition.topic not in COMPACTED]
    assert len(hidden(still, running.node)) <= before
    check_bytes(still, disk)
    running.node.abort()


ORIGINALS: dict[bool, Original] = {}
"""Made by the first test that needs one."""


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("file", list(FILES))
async def test_no_damage_to_a_file_loses_hides_or_deletes_what_can_still_be_read(
    start_node: Any, is_clean: bool, file: str, caplog: Any
) -> None:
    if is_clean not in ORIGINALS:
        ORIGINALS[is_clean] = await make_original(start_node, is_clean=is_clean)
    for kind in DAMAGES:
        try:
            await start_damaged(start_node, ORIGINALS[is_clean], file, kind, caplog)
        except AssertionError as error:
            raise AssertionError(f"{file}, {kind}: {error}") from error


@pytest.mark.asyncio
async def test_the_matrix_sees_what_is_lost_and_what_is_hidden(start_node: Any) -> None:
    original = await make_original(start_node, is_clean=True)
    disk = disk_of(original.tree)
    running = await start_node(SETTINGS, disk=disk)
    assert len(original.batches) > 60
    assert hidden(original.batches, running.node) == []
    check_bytes(original.batches, disk)
    missing = [batch for batch in original.batches if batch.path == place(original.tree, "t-0", 0)]
    running.node.broker.partitions.find("t", 0).log.advance_log_start_offset(4)
    assert len(hidden(original.batches, running.node)) == 4
    disk.remove(place(original.tree, "t-0", 0))
    with pytest.raises(AssertionError, match="lost or deleted"):
        check_bytes(missing, disk)
    with pytest.raises(AssertionError, match="is hidden"):
        check_named(missing, "some/file", ["a line about something else"])
