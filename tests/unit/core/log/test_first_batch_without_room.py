"""A producer's second batch is rejected while its first one found no room."""

from __future__ import annotations

import pytest

from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.errors import ERROR_CLASSES, StorageFullError
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import TopicPartition, Uuid
from moldau.wire.records.builder import build_batch

NOW_MS = 1_800_000_000_000


def append(log, base_sequence, *, size=10, producer_id=7):
    batch = build_batch(
        [(None, b"v" * size, NOW_MS, ())], producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence
    )
    return log.append(bytearray(batch), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)


def test_the_batch_behind_one_that_found_no_room_is_a_gap_until_that_one_is_repeated():
    disk = MemoryDisk(capacity_bytes=500)
    topic_partition = TopicPartition("t", 0)
    log = Log.open(disk, "t-0", topic_partition, Uuid(bytes(16)), LogSettings(), now_ms=NOW_MS)
    with pytest.raises(StorageFullError):
        append(log, 0, size=1_000)
    with pytest.raises(ERROR_CLASSES[45]):
        append(log, 1)
    disk.capacity_bytes = None
    assert append(log, 0, size=1_000).base_offset == 0
    assert append(log, 1).base_offset == 1
    # an unknown producer may begin anywhere: its state may have expired
    assert append(log, 5, producer_id=8).base_offset == 2
