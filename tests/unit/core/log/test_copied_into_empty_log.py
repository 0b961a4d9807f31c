"""The first batch copied into an empty log may begin before the log start: DeleteRecords accepts any offset."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.core.log.cleaning.retention import remove_files
from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.log import Log
from moldau.core.log.settings import LogSettings
from moldau.errors import KafkaError, ProtocolError, StorageFullError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from tests.support.logs import flush, records_from
from tests.unit.core.log.conftest import NOW_MS, Harness

PARTITION = TopicPartition("t", 0)
SETTINGS = LogSettings()
LOG_FILE = "t-0/00000000000000000000.log"


@pytest.fixture
def leader(make_harness: Callable[..., Harness]) -> Harness:
    """It has the batches 0..9 and 10..11, and starts at 7."""
    leader = make_harness()
    leader.append(10)
    leader.append(2)
    leader.log.advance_log_start_offset(7)
    return leader


def begin_at_7(disk: MemoryDisk) -> tuple[LogDirectory, Log]:
    """A follower that knows its leader's log start; that is flushed, and in the checkpoints."""
    directory = LogDirectory.open(disk)
    log = directory.create_log(PARTITION, METADATA_TOPIC_ID, SETTINGS, now_ms=NOW_MS)
    directory.start_over(PARTITION, 7, NOW_MS)
    flush(log, NOW_MS)
    plan = directory.checkpoint({PARTITION: 7})
    plan.run()
    directory.checkpointed(plan)
    return directory, log


def test_the_batch_that_holds_the_log_start_is_taken_and_nothing_below_is_read(leader: Harness) -> None:
    _, log = begin_at_7(MemoryDisk())
    log.append_copied(records_from(leader.log, 7), NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (7, 12)
    assert records_from(log, 7) == records_from(leader.log, 7)
    assert log.leader_epochs.entries == [(0, 7)]
    with pytest.raises(KafkaError, match="6 is not in the log"):
        records_from(log, 6)


def test_a_batch_that_ends_before_the_log_starts_is_refused(leader: Harness) -> None:
    directory, log = begin_at_7(MemoryDisk())
    directory.start_over(PARTITION, 10, NOW_MS)
    with pytest.raises(ProtocolError):
        log.append_copied(records_from(leader.log, 7), NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)


def test_a_batch_that_found_no_room_is_taken_when_there_is_some(leader: Harness) -> None:
    disk = MemoryDisk()
    _, log = begin_at_7(disk)
    disk.capacity_bytes = 40
    with pytest.raises(StorageFullError):
        log.append_copied(records_from(leader.log, 7), NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    disk.capacity_bytes = None
    log.append_copied(records_from(leader.log, 7), NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (7, 12)


def test_after_a_clean_stop_it_is_the_same_log(leader: Harness) -> None:
    disk = MemoryDisk()
    directory, log = begin_at_7(disk)
    log.append_copied(records_from(leader.log, 7), NOW_MS)
    directory.close(broker_epoch=1, now_ms=NOW_MS, high_watermarks={PARTITION: 12})
    (reopened,) = LogDirectory.open(disk).open_all(lambda _: SETTINGS, NOW_MS)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (7, 12)
    assert records_from(reopened, 7) == records_from(leader.log, 7)


@pytest.mark.parametrize("kept_bytes", [0, 1, 100, 200])
def test_a_loss_of_power_that_tears_the_batch_leaves_a_log_that_opens(leader: Harness, kept_bytes: int) -> None:
    """The checkpoints say that everything below 7 was on the disk: for an empty log that is nothing."""
    disk = MemoryDisk()
    _, log = begin_at_7(disk)
    log.append_copied(records_from(leader.log, 7), NOW_MS)
    disk.crash_process()
    file = disk.open(LOG_FILE)
    file.truncate(kept_bytes)
    file.close()
    (reopened,) = LogDirectory.open(disk).open_all(lambda _: SETTINGS, NOW_MS)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (7, 7)
    reopened.append_copied(records_from(leader.log, 7), NOW_MS)
    assert reopened.log_end_offset == 12


def test_a_log_that_found_no_room_to_begin_anew_does_so_when_there_is_some(leader: Harness) -> None:
    disk = MemoryDisk()
    directory = LogDirectory.open(disk)
    log = directory.create_log(PARTITION, METADATA_TOPIC_ID, SETTINGS, now_ms=NOW_MS)
    disk.fail(Fault("write", "full", path_contains="leader-epoch-checkpoint", times=1))
    with pytest.raises(StorageFullError):
        directory.start_over(PARTITION, 10, NOW_MS)
    directory.start_over(PARTITION, 10, NOW_MS)
    log.append_copied(records_from(leader.log, 10), NOW_MS)
    remove_files(disk, log.take_purgeable(NOW_MS + 10 * log.settings.file_delete_delay_ms))
    disk.crash_process()
    (reopened,) = LogDirectory.open(disk).open_all(lambda _: SETTINGS, NOW_MS)
    assert (reopened.log_start_offset, reopened.log_end_offset) == (10, 12)
