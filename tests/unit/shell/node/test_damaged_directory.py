"""One flipped bit, one missing file: a start serves, or fails with a sentence; readable records are never lost."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from moldau.core.config.broker_settings import parse_broker_settings
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.checkpoint import (
    CLEAN_SHUTDOWN_MARK,
    decode_clean_shutdown,
    decode_partition_metadata,
    encode_partition_metadata,
)
from moldau.core.log.files.flushed_offset import FlushedOffset
from moldau.core.log.log import AppendOrigin
from moldau.errors import ERROR_CODES, DamagedLogError, MoldauError, StorageFailedError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.quorum.metadata_log import open_log
from moldau.shell.quorum.quorum_state import QuorumError
from moldau.types import Uuid, uuid_to_text
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.metadata_records import PartitionChangeRecord
from moldau.wire.protocol.messages.topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.protocol.record_codec import encode_metadata_record
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from tests.support.node import produce, result_of

pytestmark = pytest.mark.asyncio

NOW_MS = 1_800_000_000_000
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
FLUSHED = "__cluster_metadata-0/flushed-offset"
LOG = "t-0/00000000000000000000.log"


async def append(client: Any, topic: str = "t") -> int:
    return int(result_of(await client.ask(ApiKey.PRODUCE, 9, produce(b"v", topic=topic))).error_code)


async def used(start_node: Any, *, is_clean: bool, topics: tuple[str, ...] = ("t",)) -> MemoryDisk:
    """A directory with records in each topic, left by a clean stop or by kill -9."""
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    for topic in topics:
        await node.create_topic(topic)
        assert [await append(node.connect(), topic) for _ in range(3)] == [0, 0, 0]
    if is_clean:
        await node.node.stop()
    else:
        node.node.abort()
        disk.crash_process()
    return disk


def flip(disk: MemoryDisk, path: str, position: int) -> None:
    data = bytearray(disk.read_file(path))
    data[position] ^= 0x10
    disk.replace_file(path, bytes(data))


def batches(disk: MemoryDisk, path: str) -> list[int]:
    return [position for position, _ in iterate_batches(disk.read_file(path))]


def strays(disk: MemoryDisk) -> list[str]:
    return [name for name in disk.list_directory("") if name.endswith("-stray")]


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "not noted"])
async def test_a_flipped_bit_in_the_metadata_log_deletes_no_topic(
    start_node: Any, is_clean: bool, is_noted: bool
) -> None:
    disk = await used(start_node, is_clean=is_clean)
    records = disk.read_file(LOG)
    if not is_noted:
        disk.remove(FLUSHED)
    places = batches(disk, METADATA_LOG)
    flip(disk, METADATA_LOG, places[3] + 70)
    damaged = disk.read_file(METADATA_LOG)
    if is_clean or is_noted:
        for _ in range(2):
            with pytest.raises(DamagedLogError, match=f"{METADATA_LOG} is damaged from byte {places[3]} on, offset"):
                await start_node(disk=disk)
        assert disk.read_file(METADATA_LOG) == damaged
        assert disk.read_file(LOG) == records
        return
    await start_node(disk=disk)
    [cut] = [name for name in disk.list_directory("__cluster_metadata-0") if ".cut-" in name]
    assert disk.read_file(f"__cluster_metadata-0/{cut}") == damaged[places[3] :]
    [stray] = strays(disk)
    assert re.fullmatch(r"t-0\.[0-9a-f]{32}-stray", stray)
    assert disk.read_file(f"{stray}/00000000000000000000.log") == records


async def test_damage_below_a_snapshot_is_refused_before_anything_is_cut(start_node: Any) -> None:
    """A loss of power may lose the file of the flushed offset; a snapshot's records were on the disk when it was
    written."""
    disk = MemoryDisk()
    settings = {"metadata.log.max.record.bytes.between.snapshots": "500"}
    node = await start_node(settings, disk=disk)
    for number in range(8):
        await node.create_topic(f"t{number}")
        await node.turns(50)
    node.node.abort()
    disk.crash_process()
    disk.remove(FLUSHED)
    snapshots = [name for name in disk.list_directory("__cluster_metadata-0") if name.endswith(".checkpoint")]
    assert max(snapshots) > "00000000000000000005"
    flip(disk, METADATA_LOG, batches(disk, METADATA_LOG)[3] + 70)
    damaged = disk.read_file(METADATA_LOG)
    with pytest.raises(DamagedLogError, match=f"{METADATA_LOG} is damaged"):
        await start_node(settings, disk=disk)
    assert disk.read_file(METADATA_LOG) == damaged


async def test_a_torn_tail_of_the_metadata_log_is_cut_kept_and_told(
    start_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    disk = await used(start_node, is_clean=False)
    disk.open(METADATA_LOG).append(b"torn")
    size = len(disk.read_file(METADATA_LOG)) - 4
    with caplog.at_level(logging.WARNING, logger="moldau.network"):
        assert await append((await start_node(disk=disk)).connect()) == 0
    [cut] = [name for name in disk.list_directory("__cluster_metadata-0") if ".cut-" in name]
    assert disk.read_file(f"__cluster_metadata-0/{cut}") == b"torn"
    assert f"recovery cut 4 bytes of {METADATA_LOG} from byte {size} on" in caplog.text


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "crashed"])
async def test_a_metadata_log_that_lost_its_end_is_refused(start_node: Any, is_clean: bool) -> None:
    disk = await used(start_node, is_clean=is_clean)
    data = disk.read_file(METADATA_LOG)
    disk.replace_file(METADATA_LOG, data[: batches(disk, METADATA_LOG)[-2]])
    with pytest.raises(DamagedLogError, match="__cluster_metadata-0 ends at offset"):
        await start_node(disk=disk)
    assert disk.exists(LOG)


@pytest.mark.parametrize("seed", range(3))
async def test_the_mark_of_a_clean_stop_does_not_count_for_what_a_later_start_appended(
    start_node: Any, seed: int
) -> None:
    """A start appends to the metadata log before it removes the mark: a loss of power in between may tear that."""
    disk = await used(start_node, is_clean=True)
    disk.fail(Fault("remove", path_contains=CLEAN_SHUTDOWN_MARK))
    with pytest.raises(StorageFailedError):
        await start_node(disk=disk)
    disk.heal()
    disk.crash_machine(SeededRandom(seed))
    assert disk.exists(CLEAN_SHUTDOWN_MARK)
    disk.open(METADATA_LOG).append(b"torn")
    for _ in range(2):
        again = await start_node(disk=disk)
        assert await append(again.connect()) == 0
        await again.node.stop()
    [cut] = [name for name in disk.list_directory("__cluster_metadata-0") if ".cut-" in name]
    assert disk.read_file(f"__cluster_metadata-0/{cut}").endswith(b"torn")


@pytest.mark.parametrize("seed", range(5))
async def test_a_clean_stop_notes_the_end_of_the_metadata_log_before_it_leaves_its_mark(
    start_node: Any, seed: int
) -> None:
    disk = await used(start_node, is_clean=True)
    noted = FlushedOffset(disk, FLUSHED).read()
    assert noted > decode_clean_shutdown(disk.read_file(CLEAN_SHUTDOWN_MARK)).broker_epoch >= 0
    disk.crash_machine(SeededRandom(seed))
    assert FlushedOffset(disk, FLUSHED).read() == noted
    flip(disk, FLUSHED, 13 * seed)
    assert FlushedOffset(disk, FLUSHED).read() == noted


async def test_behind_a_note_of_an_earlier_life_the_mark_of_a_clean_stop_counts(start_node: Any) -> None:
    """Apache Kafka writes the mark, but not the file of the flushed offset."""
    disk = await used(start_node, is_clean=True)
    note = disk.read_file(FLUSHED)
    again = await start_node(disk=disk)
    await again.create_topic("u")
    await again.node.stop()
    disk.replace_file(FLUSHED, note)
    flip(disk, METADATA_LOG, batches(disk, METADATA_LOG)[-2] + 70)
    damaged = disk.read_file(METADATA_LOG)
    for _ in range(2):
        with pytest.raises(DamagedLogError, match=f"{METADATA_LOG} is damaged from byte"):
            await start_node(disk=disk)
    assert disk.read_file(METADATA_LOG) == damaged


async def test_damage_in_a_partition_refuses_each_start_after_a_clean_stop(start_node: Any) -> None:
    disk = await used(start_node, is_clean=True)
    flip(disk, LOG, 8)
    before = disk.read_file(LOG)
    for _ in range(3):
        with pytest.raises(DamagedLogError, match=f"{LOG} is damaged from byte 0 on, offset 0"):
            await start_node(disk=disk)
    assert disk.read_file(LOG) == before


async def test_a_deleted_topic_that_a_crash_left_on_the_disk_is_removed(start_node: Any) -> None:
    disk = MemoryDisk()
    node = await start_node(disk=disk)
    await node.create_topic("t")
    assert await append(node.connect()) == 0
    content = {name: disk.read_file(f"t-0/{name}") for name in disk.list_directory("t-0")}
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1_000)
    assert (await node.connect().ask(ApiKey.DELETE_TOPICS, 6, request)).responses[0].error_code == 0
    await node.create_topic("t")
    node.node.abort()
    disk.crash_process()
    for name, data in content.items():
        disk.make_directory("t-0")
        disk.replace_file(f"t-0/{name}", data)
    again = await start_node(disk=disk)
    assert strays(disk) == []
    assert await append(again.connect()) == 0
    assert len(batches(disk, LOG)) == 1


@pytest.mark.parametrize("text", [None, b"", b"version: 0\ntopic_id: not an id", b"\xff\xfe"])
async def test_a_partition_whose_metadata_cannot_be_read_is_still_that_partition(start_node: Any, text: bytes) -> None:
    disk = await used(start_node, is_clean=True)
    whole = disk.read_file("t-0/partition.metadata")
    disk.remove("t-0/partition.metadata")
    if text is not None:
        disk.replace_file("t-0/partition.metadata", text)
    assert await append((await start_node(disk=disk)).connect()) == 0
    assert len(batches(disk, LOG)) == 4
    assert disk.read_file("t-0/partition.metadata") == whole


async def test_a_flipped_bit_in_a_topic_id_is_mended(start_node: Any, caplog: pytest.LogCaptureFixture) -> None:
    disk = await used(start_node, is_clean=True)
    whole = disk.read_file("t-0/partition.metadata")
    topic_id = bytearray((await start_node(disk=disk)).node.broker.image.topic_id("t"))
    topic_id[5] ^= 0x20
    disk.replace_file("t-0/partition.metadata", encode_partition_metadata(Uuid(bytes(topic_id))))
    with caplog.at_level(logging.WARNING, logger="moldau.network"):
        assert await append((await start_node(disk=disk)).connect()) == 0
    assert disk.read_file("t-0/partition.metadata") == whole
    assert len(batches(disk, LOG)) == 4
    assert "t-0/partition.metadata was damaged: its topic id" in caplog.text


@pytest.mark.parametrize("name", ["t", "unknown"])
async def test_a_partition_of_another_topic_is_set_aside_and_named_at_each_start(
    start_node: Any, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    disk = await used(start_node, is_clean=True)
    records = disk.read_file(LOG)
    if name != "t":
        disk.rename("t-0", f"{name}-0")
    disk.replace_file(f"{name}-0/partition.metadata", encode_partition_metadata(Uuid(b"another topic id")))
    for _ in range(2):
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="moldau.network"):
            again = await start_node(disk=disk)
        [stray] = strays(disk)
        assert re.fullmatch(rf"{name}-0\.[0-9a-f]{{32}}-stray", stray)
        assert disk.read_file(f"{stray}/00000000000000000000.log") == records
        assert f"partitions that the metadata log does not give to this broker: {stray}; see" in caplog.text
        await again.node.stop()


async def test_a_partition_with_replicas_on_other_brokers_is_set_aside_with_its_records(
    start_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    disk = await used(start_node, is_clean=False, topics=("t", "u"))
    records = disk.read_file(LOG)
    log = open_log(disk, parse_broker_settings({}), DirectoryHealth(), 0, now_ms=NOW_MS)
    topic_id = decode_partition_metadata(disk.read_file("t-0/partition.metadata"))
    value = encode_metadata_record(PartitionChangeRecord(0, topic_id, isr=(7,), leader=7, replicas=(7,)), 0)
    epoch = log.leader_epochs.latest_epoch
    batch = bytearray(build_batch([(None, value, NOW_MS, ())]))
    log.append(batch, leader_epoch=epoch, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.release()
    for _ in range(2):
        with caplog.at_level(logging.WARNING, logger="moldau.network"):
            node = await start_node(disk=disk)
        [stray] = strays(disk)
        assert disk.read_file(f"{stray}/00000000000000000000.log") == records
        assert not disk.exists("t-0")
        client = node.connect()
        assert await append(client) == ERROR_CODES["NOT_LEADER_OR_FOLLOWER"]
        assert await append(client, "u") == 0
        await node.node.stop()
    assert f"t-0 is of topic id {uuid_to_text(topic_id)}, but the replicas of that partition are on brokers 7: " in (
        caplog.text
    )


async def test_damage_inside_a_stray_refuses_no_start(start_node: Any) -> None:
    disk = await used(start_node, is_clean=False, topics=("t", "u"))
    disk.replace_file("t-0/partition.metadata", encode_partition_metadata(Uuid(b"another topic id")))
    flip(disk, LOG, 70)
    damaged = disk.read_file(LOG)
    assert await append((await start_node(disk=disk)).connect(), "u") == 0
    [stray] = strays(disk)
    assert disk.read_file(f"{stray}/00000000000000000000.log") == damaged


async def test_a_damaged_snapshot_is_skipped_if_an_older_one_and_the_log_suffice(
    start_node: Any, caplog: pytest.LogCaptureFixture
) -> None:
    disk = MemoryDisk()
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1"}
    node = await start_node(settings, disk=disk)
    await node.create_topic("t")
    await node.turns(200)
    assert await append(node.connect()) == 0
    await node.node.stop()
    newest = max(name for name in disk.list_directory("__cluster_metadata-0") if name.endswith(".checkpoint"))
    assert int(newest[:20]) > 0
    flip(disk, f"__cluster_metadata-0/{newest}", -3)
    with caplog.at_level(logging.WARNING, logger="moldau.network"):
        again = await start_node(disk=disk)
    assert await append(again.connect()) == 0
    assert disk.exists(f"__cluster_metadata-0/{newest}.damaged")
    assert f"{newest}.damaged cannot be read" in caplog.text


async def test_a_wrong_directory_id_says_so(start_node: Any) -> None:
    disk = await used(start_node, is_clean=True)
    text = disk.read_file("meta.properties").decode()
    wrong = re.sub("directory.id=.*", "directory.id=AAAAAAAAAAAAAAAAAAAAAw", text)
    disk.replace_file("meta.properties", wrong.encode())
    with pytest.raises(QuorumError, match=r"meta\.properties says directory\.id=AAAAAAAAAAAAAAAAAAAAAw, but"):
        await start_node(disk=disk)
    disk.replace_file("meta.properties", text.encode())
    assert await append((await start_node(disk=disk)).connect()) == 0


async def test_a_damaged_quorum_state_is_refused_by_name(start_node: Any) -> None:
    disk = await used(start_node, is_clean=True)
    disk.replace_file("__cluster_metadata-0/quorum-state", b"{")
    with pytest.raises(MoldauError, match="__cluster_metadata-0/quorum-state cannot be read"):
        await start_node(disk=disk)
