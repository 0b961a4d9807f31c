"""Formatting a directory gives the same bytes as `kafka-storage format --standalone` of Apache Kafka 4.3.1."""

from __future__ import annotations

import base64

import pytest

from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.snapshot import decode_snapshot
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.shell.io.simulated.random import SeededRandom
from moldau.shell.node.storage_format import (
    MetaProperties,
    StorageFormatError,
    find_use,
    format_directory,
    read_meta_properties,
)
from moldau.types import BrokerId, Uuid, uuid_from_text
from moldau.wire.records.batch import iterate_batches

NOW_MS = 1_795_247_296_076
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
DIRECTORY_ID = uuid_from_text("_87yn-UyQNKjcPhHrrw59A")
CONTROLLER = BrokerListener("CONTROLLER", "127.0.0.1", 40511)
VOTERS_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"

# written by Apache Kafka 4.3.1: kafka.tools.StorageTool format --standalone -t <cluster id> -c <node.id=1>
APACHE_META_PROPERTIES = """#
#Sat Nov 21 07:48:16 UTC 2026
node.id=1
directory.id=_87yn-UyQNKjcPhHrrw59A
version=1
cluster.id=MkU3OEVBNTcwNTJENDM2Qk
"""
APACHE_BOOTSTRAP = base64.b64decode(
    "AAAAAAAAAAAAAABHAAAAAAIk4TB5ACAAAAAAAAABof0TzjYAAAGh/RPONv//////////////////AAAAASoAAAAIAAAAAxYAAAAAAAAAAAAAAAAA"
    "AAAAAAAAAQAAAPEAAAAAAllHSCEAAAAAAAUAAAGh/RPORQAAAaH9E85F//////////////////8AAAAGOgAAAAEuAQwAEW1ldGFkYXRhLnZlcnNp"
    "b24AHgAAWgAAAgFOAQwAIWVsaWdpYmxlLmxlYWRlci5yZXBsaWNhcy52ZXJzaW9uAAEAADQAAAQBKAEMAA5ncm91cC52ZXJzaW9uAAEAADQAAAYB"
    "KAEMAA5zaGFyZS52ZXJzaW9uAAEAADgAAAgBLAEMABBzdHJlYW1zLnZlcnNpb24AAQAAQAAACgE0AQwAFHRyYW5zYWN0aW9uLnZlcnNpb24AAgAA"
    "AAAAAAAAAAcAAAA/AAAAAALf1aw7ACAAAAAAAAABof0TzkUAAAGh/RPORf//////////////////AAAAARoAAAAIAAAABAYAAAAA"
)
APACHE_VOTERS = base64.b64decode(
    "AAAAAAAAAAAAAACaAAAAAALXLLhgACAAAAACAAABof0TzlMAAAGh/RPOU///////////////////AAAAAyoAAAAIAAAAAxYAAAAAAaH9E85MAAAe"
    "AAACCAAAAAUKAAAAAQAAggEAAAQIAAAABm4AAAIAAAAB/87yn+UyQNKjcPhHrrw59AILQ09OVFJPTExFUgoxMjcuMC4wLjGePwAAAAABAAAAAAAA"
    "AAAAAAADAAAAPwAAAAACtHeY+gAgAAAAAAAAAaH9E85YAAABof0Tzlj//////////////////wAAAAEaAAAACAAAAAQGAAAAAA=="
)


class GivenRandom:
    """The Random port that draws these bytes first."""

    def __init__(self, first: bytes) -> None:
        self._first = first

    def random_bytes(self, count: int) -> bytes:
        assert count == len(self._first)
        return self._first

    def random_below(self, bound: int) -> int:
        return 0


def formatted(disk: MemoryDisk) -> MetaProperties:
    return format_directory(
        disk,
        GivenRandom(DIRECTORY_ID),
        now_ms=NOW_MS,
        node_id=BrokerId(1),
        controller_listener=CONTROLLER,
        cluster_id=CLUSTER_ID,
    )


def without_times(data: bytes) -> bytes:
    """The batches with timestamps and checksums blanked: Apache Kafka read its clock once for each batch."""
    blank = bytearray(data)
    for position, _ in iterate_batches(data):
        blank[position + 17 : position + 21] = bytes(4)
        blank[position + 27 : position + 43] = bytes(16)
    return bytes(blank)


def test_the_files_are_those_of_apache_kafka_byte_for_byte() -> None:
    disk = MemoryDisk()
    properties = formatted(disk)
    assert properties == MetaProperties(BrokerId(1), CLUSTER_ID, DIRECTORY_ID)
    assert disk.list_directory("") == ["__cluster_metadata-0", "bootstrap.checkpoint", "meta.properties"]
    assert disk.list_directory("__cluster_metadata-0") == [VOTERS_FILE.partition("/")[2]]
    assert disk.read_file("meta.properties").decode() == APACHE_META_PROPERTIES
    check_formatted(disk)


def test_what_apache_kafka_formatted_is_read() -> None:
    voters = decode_snapshot(APACHE_VOTERS).control.voters
    assert voters is not None
    assert [(voter.voter_id, voter.voter_directory_id) for voter in voters.voters] == [(1, DIRECTORY_ID)]
    disk = MemoryDisk()
    disk.replace_file("meta.properties", APACHE_META_PROPERTIES.encode())
    assert read_meta_properties(disk) == MetaProperties(BrokerId(1), CLUSTER_ID, DIRECTORY_ID)


def test_a_new_cluster_gets_an_id_of_its_own() -> None:
    disk = MemoryDisk()
    properties = format_directory(
        disk, SeededRandom(5), now_ms=NOW_MS, node_id=BrokerId(3), controller_listener=CONTROLLER
    )
    assert len(uuid_from_text(properties.cluster_id)) == 16
    assert uuid_from_text(properties.cluster_id) != properties.directory_id
    assert read_meta_properties(disk) == properties


def test_a_formatted_directory_is_not_formatted_again() -> None:
    disk = MemoryDisk()
    formatted(disk)
    with pytest.raises(StorageFormatError, match="formatted already"):
        formatted(disk)


class PowerCutDisk(MemoryDisk):
    """A disk whose machine loses its power at one of the calls that wait for the device."""

    def __init__(self, cut_at: int, random: SeededRandom) -> None:
        super().__init__()
        self._cut_at, self._random = cut_at, random

    def replace_file(self, path: str, data: bytes) -> None:
        self._count()
        super().replace_file(path, data)

    def flush_directory(self, path: str) -> None:
        self._count()
        super().flush_directory(path)

    def _count(self) -> None:
        self._cut_at -= 1
        if self._cut_at == -1:
            self.crash_machine(self._random)
            raise InterruptedError


@pytest.mark.parametrize("seed", range(20))
def test_a_format_that_a_power_cut_ends_is_done_again(seed: int) -> None:
    for cut_at in range(2):
        disk = PowerCutDisk(cut_at, SeededRandom(seed))
        with pytest.raises(InterruptedError):
            formatted(disk)
        assert read_meta_properties(disk) is None
        formatted(disk)
        check_formatted(disk)


@pytest.mark.parametrize("seed", range(20))
def test_a_format_that_returned_survives_a_power_cut(seed: int) -> None:
    disk = MemoryDisk()
    formatted(disk)
    disk.crash_machine(SeededRandom(seed))
    check_formatted(disk)


def check_formatted(disk: MemoryDisk) -> None:
    assert read_meta_properties(disk) == MetaProperties(BrokerId(1), CLUSTER_ID, DIRECTORY_ID)
    assert without_times(disk.read_file("bootstrap.checkpoint")) == without_times(APACHE_BOOTSTRAP)
    assert without_times(disk.read_file(VOTERS_FILE)) == without_times(APACHE_VOTERS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version=0\nbroker.id=1\n", "version 0 is not supported"),
        ("", "damaged: the line `version=1` is missing"),
        ("version=1\nnode.id=x\ncluster.id=a\ndirectory.id=b\n", "invalid literal"),
        ("version=1\nnode.id=1\ncluster.id=a\n", "directory.id"),
    ],
)
def test_a_file_that_cannot_be_meta_properties_is_told_in_one_sentence(text: str, said: str) -> None:
    disk = MemoryDisk()
    disk.replace_file("meta.properties", text.encode())
    with pytest.raises(StorageFormatError, match=said):
        read_meta_properties(disk)


def test_comments_blanks_and_escapes_of_java_are_read() -> None:
    disk = MemoryDisk()
    text = "! a comment\n\n node.id = 4\nversion=1\ncluster.id=a\\:b\ndirectory.id=_87yn-UyQNKjcPhHrrw59A\n"
    disk.replace_file("meta.properties", text.encode())
    assert read_meta_properties(disk) == MetaProperties(BrokerId(4), "a:b", Uuid(DIRECTORY_ID))


def test_what_a_format_left_is_no_use_of_the_directory() -> None:
    disk = MemoryDisk()
    assert find_use(disk) is None
    format_directory(disk, SeededRandom(1), now_ms=NOW_MS, node_id=BrokerId(1), controller_listener=CONTROLLER)
    disk.remove("meta.properties")
    assert find_use(disk) is None


@pytest.mark.parametrize("path", ["__cluster_metadata-0/00000000000000000000.log", "orders-3/00000000000000000000.log"])
def test_a_directory_with_metadata_or_partitions_is_in_use(path: str) -> None:
    disk = MemoryDisk()
    disk.make_directory(path.rpartition("/")[0])
    disk.open(path).close()
    assert find_use(disk) == (path if path.startswith("__") else "orders-3")
