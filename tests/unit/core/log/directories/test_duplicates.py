"""Of two logs of one partition, which one stays."""

from __future__ import annotations

import pytest

from moldau.core.log.directories.duplicates import is_first_kept, is_other_history
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import ZERO_UUID, TopicPartition, Uuid
from moldau.wire.records.builder import build_batch

TOPIC, OTHER = Uuid(b"t" * 16), Uuid(b"o" * 16)
EPOCH_BYTE = 12
"""The first byte of the leader epoch, which no checksum covers."""
COMPACTED = LogSettings(cleanup_policy=("compact",), segment_bytes=200)


def log_of(
    count: int, topic_id: Uuid = TOPIC, without_segment: int = -1, epoch: int = 0, flipped_batch: int = -1
) -> Log:
    """One record a batch, two batches a segment; `without_segment`: the one that the machine lost; `flipped_batch`: its
    epoch has a flipped bit."""
    disk = MemoryDisk()
    partition = TopicPartition("t", 0)
    log = Log.open(disk, "t-0", partition, topic_id, COMPACTED, now_ms=0)
    for number in range(count):
        batch = bytearray(build_batch([(b"k%d" % number, b"v" * 20, 0, ())]))
        log.append(batch, leader_epoch=epoch, now_ms=0, origin=AppendOrigin.CLIENT)
    lost = log.segments[without_segment].base_offset if without_segment >= 0 else -1
    log.release()
    if flipped_batch >= 0:
        segment, place = divmod(flipped_batch, 2)
        path = f"t-0/{segment * 2:020}.log"
        size = len(disk.read_file("t-0/00000000000000000000.log")) // 2
        disk.open(path).write_at(place * size + EPOCH_BYTE, b"\x40")
    if lost >= 0:
        disk.open(f"t-0/{lost:020}.log").truncate(0)
    return Log.open(disk, "t-0", partition, topic_id, COMPACTED, now_ms=0)


def test_the_longer_one_stays_and_of_two_equal_ones_that_which_the_metadata_names() -> None:
    assert is_first_kept(log_of(9), log_of(8), TOPIC, is_second_assigned=True)
    assert not is_first_kept(log_of(8), log_of(9), TOPIC, is_second_assigned=False)
    assert is_first_kept(log_of(8), log_of(8), TOPIC, is_second_assigned=False)
    assert not is_first_kept(log_of(8), log_of(8), TOPIC, is_second_assigned=True)


def test_one_that_lost_a_segment_in_its_middle_goes_though_it_was_longer() -> None:
    torn = log_of(9, without_segment=1)
    assert torn.log_end_offset == 2
    assert not is_first_kept(torn, log_of(8), TOPIC, is_second_assigned=False)
    assert is_first_kept(log_of(8), torn, TOPIC, is_second_assigned=True)


def test_one_that_began_anew_in_a_later_epoch_stays_though_it_is_shorter() -> None:
    old, anew = log_of(9), log_of(2, epoch=3)
    assert is_first_kept(anew, old, TOPIC, is_second_assigned=True)
    assert not is_first_kept(old, anew, TOPIC, is_second_assigned=False)
    assert is_other_history(anew, old)
    assert not is_other_history(log_of(9), log_of(8))


@pytest.mark.parametrize("flipped_batch", [0, 1, 3, 4])
def test_an_old_copy_in_which_a_flipped_bit_makes_an_epoch_later_goes(flipped_batch: int) -> None:
    old, longer = log_of(5, flipped_batch=flipped_batch), log_of(9)
    assert not is_first_kept(old, longer, TOPIC, is_second_assigned=False)
    assert is_first_kept(longer, old, TOPIC, is_second_assigned=True)
    assert not is_other_history(old, longer)


def test_one_of_another_topic_goes_though_it_is_longer() -> None:
    assert is_first_kept(log_of(1), log_of(9, OTHER), TOPIC, is_second_assigned=True)
    assert not is_first_kept(log_of(9, OTHER), log_of(1, ZERO_UUID), TOPIC, is_second_assigned=False)
