"""Our files are Kafka's, byte for byte. Apache Kafka 4.3.1 wrote the literals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.core.log.files.checkpoint import (
    decode_clean_shutdown,
    decode_leader_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_leader_epochs,
    encode_offsets,
    encode_partition_metadata,
)
from moldau.core.log.files.offset_index import OffsetIndex
from moldau.core.log.files.segment import Segment, parse_base_offset, segment_file_name
from moldau.core.log.files.time_index import TimeIndex
from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.log.producer_state import ProducerState
from moldau.core.log.recovery.recovery import scan_segment
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import TopicPartition, uuid_from_text

NOW_MS = 1_800_000_000_000

# (size, last offset, max timestamp) of the first batches of a segment with base offset 5051, index.interval.bytes=4096
BATCHES = (
    (8271, 5070, 1790001570000),
    (8271, 5090, 1790001590000),
    (4161, 5100, 1790001600000),
    (8271, 5120, 1790001620000),
    (8271, 5140, 1790001640000),
    (4161, 5150, 1790001650000),
    (8271, 5170, 1790001670000),
    (8271, 5190, 1790001690000),
)
INDEX = bytes.fromhex(
    "000000270000204f000000310000409e00000045000050df000000590000712e000000630000917d000000770000a1be0000008b0000c20d"
)
TIME_INDEX = bytes.fromhex(
    "000001a0c468aef000000027000001a0c468d60000000031000001a0c469242000000045000001a0c469724000000059"
    "000001a0c469995000000063000001a0c469e77000000077000001a0c46a35900000008b"
)

# a segment from offset 6000 on: a committed, an aborted and a committed transaction of producer 2
TRANSACTIONS = bytes.fromhex(
    "00000000000017700000005e00000000024d2c2207001000000004000001a1fd12f3da000001a1fd12f3da00000000000000020000000000"
    "0000000005100000000104743000100000020104743100100000040104743200100000060104743300100000080104743400"
    "000000000000177500000042000000000285094bd4003000000000000001a1fd12f41b000001a1fd12f41b00000000000000020000ffffff"
    "ff000000012000000008000000010c00000000000000"
    "00000000000017760000005e0000000002513db7d8001000000004000001a1fd12f411000001a1fd12f41100000000000000020000000000"
    "0500000005100000000104743000100000020104743100100000040104743200100000060104743300100000080104743400"
    "000000000000177b00000042000000000215bcf5ed003000000000000001a1fd12f42e000001a1fd12f42e00000000000000020000ffffff"
    "ff000000012000000008000000000c00000000000000"
    "000000000000177c0000005e000000000233fdfd78001000000004000001a1fd12f42e000001a1fd12f42e00000000000000020000000000"
    "0a00000005100000000104743000100000020104743100100000040104743200100000060104743300100000080104743400"
    "0000000000001781000000420000000002009c4ac5003000000000000001a1fd12f44b000001a1fd12f44b00000000000000020000ffffff"
    "ff000000012000000008000000010c00000000000000"
)
SNAPSHOT_6018 = bytes.fromhex(
    "000153a44784000000030000000000000000000000000bb70000000000000bb700000008000001a0c47e2ed8ffffffffffffffffffffffff"
    "0000000000000001000000000bb7000000000000176f00000008000001a0c4768db8ffffffffffffffffffffffff"
    "000000000000000200000000000e000000000000178000000004000001a1fd12f44b00000000ffffffffffffffff"
)
SNAPSHOT_6000 = bytes.fromhex(
    "00019fb14b7d000000020000000000000000000000000bb70000000000000bb700000008000001a0c47e2ed8ffffffffffffffffffffffff"
    "0000000000000001000000000bb7000000000000176f00000008000001a0c4768db8ffffffffffffffffffffffff"
)


def _segment() -> Segment:
    disk = MemoryDisk()
    disk.make_directory("t-0")
    segment = Segment.create(disk, "t-0", 5051, NOW_MS, LogSettings())
    for size, last_offset, timestamp_ms in BATCHES:
        segment.append_entry(segment.size, size, last_offset, timestamp_ms, 4096)
    return segment


def test_index_and_time_index_have_the_entries_that_kafka_writes() -> None:
    segment = _segment()
    assert segment.offset_index is not None
    assert segment.time_index is not None
    assert segment.offset_index.encode() == INDEX
    assert segment.time_index.encode() == TIME_INDEX
    segment.seal()
    segment.seal()
    assert len(segment.time_index) == len(TIME_INDEX) // 12, "the largest timestamp is there already"


def test_indexes_survive_a_round_trip_and_preallocated_zeros() -> None:
    log_size = sum(size for size, _, _ in BATCHES)
    for padding in (b"", bytes(8000)):
        index = OffsetIndex.decode(INDEX + padding, log_size)
        assert index is not None
        assert index.encode() == INDEX
        assert index.lookup(0x27) == 0x204F
        assert index.lookup(0x26) == 0
        assert index.floor_position(0x409D) == 0x204F
    for padding in (b"", bytes(12000)):
        times = TimeIndex.decode(TIME_INDEX + padding)
        assert times is not None
        assert times.encode() == TIME_INDEX
        assert times.lookup(1790001590000) == 0x27
        assert times.lookup(1790001589999) == 0
        assert times.last == (1790001690000, 0x8B)


@pytest.mark.parametrize("data", [INDEX[:-1], INDEX + INDEX, b"\1" * 16, INDEX[8:16] + INDEX[:8]])
def test_a_damaged_index_is_no_index(data: bytes) -> None:
    assert OffsetIndex.decode(data, 1 << 30) is None
    assert OffsetIndex.decode(INDEX, 0xC20D) is None, "an entry past the end of the log"


@pytest.mark.parametrize("data", [TIME_INDEX[:-1], TIME_INDEX + TIME_INDEX, TIME_INDEX[12:24] + TIME_INDEX[:12]])
def test_a_damaged_time_index_is_no_index(data: bytes) -> None:
    assert TimeIndex.decode(data) is None


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(1, 1 << 20)), max_size=50))
def test_any_offset_index_round_trips(steps: list[tuple[int, int]]) -> None:
    index = OffsetIndex()
    offset = position = 0
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        index.append(offset, position)
    again = OffsetIndex.decode(index.encode(), position + 1)
    assert again is not None
    assert (again.offsets, again.positions) == (index.offsets, index.positions)


def test_a_snapshot_round_trips() -> None:
    for data in (SNAPSHOT_6000, SNAPSHOT_6018):
        producers = ProducerState(10)
        producers.load(data, 6018, NOW_MS)
        assert producers.encode() == data
    assert {producer_id: entry.last_sequence for producer_id, entry in producers.entries.items()} == {
        0: 2999,
        1: 2999,
        2: 14,
    }


def test_replaying_transactions_gives_the_snapshot_that_kafka_wrote_after_them() -> None:
    disk = MemoryDisk()
    disk.make_directory("t-0")
    disk.replace_file(f"t-0/{segment_file_name(6000, '.log')}", TRANSACTIONS)
    segment = Segment(disk, "t-0", 6000, size=0, created_ms=NOW_MS)
    producers = ProducerState(10)
    producers.load(SNAPSHOT_6000, 6000, NOW_MS)
    epochs = LeaderEpochs()
    scan_segment(segment, LogSettings(), epochs, producers, NOW_MS)
    assert (segment.size, segment.next_offset) == (len(TRANSACTIONS), 6018)
    assert producers.encode() == SNAPSHOT_6018
    assert epochs.encode() == b"0\n1\n0 6000\n"


def test_an_open_transaction_is_known_by_its_first_offset() -> None:
    disk = MemoryDisk()
    disk.make_directory("t-0")
    disk.replace_file(f"t-0/{segment_file_name(6000, '.log')}", TRANSACTIONS[: 106 + 78 + 106])
    producers = ProducerState(10)
    scan_segment(
        Segment(disk, "t-0", 6000, size=0, created_ms=NOW_MS), LogSettings(), LeaderEpochs(), producers, NOW_MS
    )
    assert producers.first_unstable_offset == 6006


@pytest.mark.parametrize("position", range(len(SNAPSHOT_6000)))
def test_any_flipped_byte_of_a_snapshot_is_found(position: int) -> None:
    damaged = bytearray(SNAPSHOT_6000)
    damaged[position] ^= 0x40
    producers = ProducerState(10)
    with pytest.raises(ValueError):
        producers.load(bytes(damaged), 6000, NOW_MS)
    with pytest.raises(ValueError):
        producers.load(SNAPSHOT_6000[:position], 6000, NOW_MS)
    assert producers.entries == {}


def test_offset_checkpoints() -> None:
    data = b"0\n2\nidem 0 6018\nempty 1 0\n"
    offsets = {TopicPartition("idem", 0): 6018, TopicPartition("empty", 1): 0}
    assert decode_offsets(data) == offsets
    assert encode_offsets(offsets) == data
    assert encode_offsets({}) == b"0\n0\n"
    assert decode_offsets(b"") == {}
    for damaged in (b"1\n0\n", b"0\n3\nidem 0 1\n", b"0\n1\nidem 0\n", b"rubbish", b"0\nx\n"):
        with pytest.raises(ValueError):
            decode_offsets(damaged)


def test_leader_epoch_checkpoints() -> None:
    assert encode_leader_epochs([(0, 0), (3, 17)]) == b"0\n2\n0 0\n3 17\n"
    assert decode_leader_epochs(b"0\n2\n0 0\n3 17\n") == [(0, 0), (3, 17)]
    with pytest.raises(ValueError):
        LeaderEpochs.decode(b"0\n2\n3 0\n1 17\n")


def test_partition_metadata() -> None:
    data = b"version: 0\ntopic_id: epiXfYjGRma7aJ85diSr3Q"
    topic_id = uuid_from_text("epiXfYjGRma7aJ85diSr3Q")
    assert decode_partition_metadata(data) == topic_id
    assert encode_partition_metadata(topic_id) == data
    for damaged in (b"", b"version: 1\ntopic_id: epiXfYjGRma7aJ85diSr3Q", b"version: 0\ntopic_id: x"):
        with pytest.raises(ValueError):
            decode_partition_metadata(damaged)


def test_the_mark_of_a_clean_stop() -> None:
    assert encode_clean_shutdown(13) == b'{"version":0,"brokerEpoch":13}'
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":13}').broker_epoch == 13
    assert decode_clean_shutdown(b"").broker_epoch == -1
    with pytest.raises(ValueError):
        decode_clean_shutdown(b"[]")


def test_file_names() -> None:
    assert segment_file_name(2521, ".log") == "00000000000000002521.log"
    assert parse_base_offset("00000000000000002521.log", ".log") == 2521
    for name in (
        "2521.log",
        "00000000000000002521.index",
        "00000000000000002521.log.deleted",
        "leader-epoch-checkpoint",
    ):
        assert parse_base_offset(name, ".log") is None
