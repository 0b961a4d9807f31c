"""A round of compaction rests as long as `log.cleaner.io.max.bytes.per.second` requires, in any process."""

from __future__ import annotations

import pytest

from moldau.core.log.cleaning.cleanable import find_cleanable, plan_round
from moldau.core.log.cleaning.compaction import CompactionPlan
from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.broker.logs.cleaner_child import PacedRound
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from tests.support.logs import flush
from tests.unit.core.log.compacting import DEDUPE_BYTES, keyed

NOW_MS = 1_800_000_000_000


def dirty_log(disk: MemoryDisk) -> CompactionPlan:
    """One sealed segment of three records, one of which stays."""
    settings = LogSettings(cleanup_policy=("compact",))
    log = Log.open(disk, "t-0", TopicPartition("t", 0), METADATA_TOPIC_ID, settings, now_ms=NOW_MS)
    for value in "123":
        batch = keyed(("a", value), timestamp_ms=NOW_MS)
        log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.CLIENT)
    log.roll(NOW_MS)
    flush(log, NOW_MS)
    cleanable = find_cleanable(log, 0, log.log_end_offset, NOW_MS)
    return plan_round(log, cleanable, now_ms=NOW_MS, nonce="0a", dedupe_buffer_bytes=DEDUPE_BYTES, io_buffer_bytes=4096)


@pytest.mark.parametrize(("rate", "took_s"), [(100.0, 0.0), (100.0, 1.0), (100.0, 1000.0), (0.0, 0.0)])
def test_it_rests_for_what_it_read_and_wrote_less_the_time_that_took(rate: float, took_s: float) -> None:
    disk = MemoryDisk()
    times = iter([5.0])
    paced = PacedRound(disk, dirty_log(disk), rate, lambda: next(times, 5.0 + took_s))
    rests = list(paced)
    result = paced.result
    assert (result.records_read, result.records_kept) == (3, 1)
    # the records that fill the key map are read once more
    moved_bytes = 2 * result.bytes_read + result.bytes_written
    assert rests[-1] == (max(0.0, moved_bytes / rate - took_s) if rate else 0.0)
