"""A partition on its broker: epochs, the high watermark, visible records, the replicas."""

from __future__ import annotations

import msgspec
import pytest

from moldau.core.log.log import AppendOrigin
from moldau.core.log.settings import LogSettings
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import FetchedUpTo
from moldau.errors import KafkaError, ProtocolError, StorageFailedError
from moldau.shell.io.simulated.memory_disk import Fault, MemoryDisk
from moldau.types import BrokerId, LeaderEpoch
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import EndTransactionMarker
from tests.support.partition import ALONE, NOW_MS, TWO, open_partition, replication


def lead(partition: Partition, epoch: int) -> None:
    partition.metadata_changed(msgspec.structs.replace(ALONE, leader_epoch=epoch, partition_epoch=epoch), {}, NOW_MS)


def batch(count: int = 1) -> bytearray:
    return bytearray(build_batch([(None, b"v", NOW_MS, ()) for _ in range(count)]))


def code_of(error: pytest.ExceptionInfo[KafkaError]) -> int:
    return error.value.code


def test_the_high_watermark_follows_the_log_end() -> None:
    partition = open_partition()
    partition.append(batch(2), NOW_MS)
    partition.append(batch(), NOW_MS, AppendOrigin.COORDINATOR)
    assert partition.high_watermark == partition.last_stable_offset == 3


def test_with_flush_messages_1_it_waits_for_the_flush_and_never_goes_back() -> None:
    partition = open_partition(flush_messages=1)
    partition.append(batch(2), NOW_MS)
    assert partition.high_watermark == 0
    plan = partition.log.unflushed()
    assert plan is not None
    partition.append(batch(), NOW_MS)
    plan.run()
    partition.log.mark_flushed(plan, NOW_MS)
    assert partition.flushed(NOW_MS)
    assert partition.high_watermark == 2
    assert not partition.flushed(NOW_MS)
    assert partition.high_watermark == 2


def test_turning_flush_messages_off_moves_it_to_the_end() -> None:
    partition = open_partition(flush_messages=1)
    partition.append(batch(2), NOW_MS)
    partition.log.update_settings(LogSettings())
    assert partition.settings_changed(replication(LogSettings()), NOW_MS)
    assert partition.high_watermark == 2


def test_after_a_restart_only_what_was_flushed_counts_where_flushing_was_promised() -> None:
    disk = MemoryDisk()
    partition = open_partition(disk, flush_messages=1)
    partition.append(batch(2), NOW_MS)
    disk.crash_process()
    again = open_partition(disk, flush_messages=1)
    assert again.log.log_end_offset == 2
    assert again.high_watermark == again.log.recovery_point


@pytest.mark.parametrize(("asked", "code"), [(-1, None), (3, None), (2, 74), (4, 75)])
def test_another_leader_epoch_is_fenced(asked: int, code: int | None) -> None:
    partition = open_partition()
    if code is None:
        partition.check_leader(asked)
        return
    with pytest.raises(KafkaError) as error:
        partition.check_leader(asked)
    assert code_of(error) == code


def test_a_reader_of_another_history_is_told_where_it_diverges() -> None:
    partition = open_partition()
    partition.append(batch(5), NOW_MS)
    lead(partition, 7)
    partition.append(batch(5), NOW_MS)
    assert partition.diverging_epoch(5, 3) is None
    assert partition.diverging_epoch(6, 3) == (3, 5)
    assert partition.diverging_epoch(10, 7) is None
    assert partition.diverging_epoch(7, 5) == (3, 5)
    with pytest.raises(KafkaError) as error:
        partition.diverging_epoch(10, 8)
    assert code_of(error) == 1


def test_an_epoch_is_known_when_its_leader_begins() -> None:
    partition = open_partition()
    partition.append(batch(5), NOW_MS)
    lead(partition, 7)
    assert partition.end_offset_for_epoch(7) == (7, 5)
    assert partition.end_offset_for_epoch(5) == (3, 5)
    assert partition.diverging_epoch(5, 7) is None
    assert partition.diverging_epoch(6, 7) == (7, 5)


def test_what_begins_and_writes_nothing_is_nothing_to_flush() -> None:
    partition = open_partition()
    assert partition.log.unflushed() is None
    partition.append(batch(), NOW_MS)
    assert partition.log.leader_epochs.is_dirty


def test_without_all_in_sync_replicas_the_high_watermark_is_the_checkpointed_one() -> None:
    disk = MemoryDisk()
    open_partition(disk).append(batch(5), NOW_MS)
    disk.crash_process()
    partition = open_partition(disk, TWO, high_watermark=3)
    assert (partition.log.log_end_offset, partition.high_watermark) == (5, 3)
    partition.append(batch(), NOW_MS, acks=1)
    assert partition.high_watermark == 3
    assert not partition.is_acknowledged(6, LeaderEpoch(3))
    alone = msgspec.structs.replace(TWO, isr=(1,), partition_epoch=1)
    assert partition.metadata_changed(alone, {}, NOW_MS)
    assert partition.high_watermark == 6
    assert partition.is_acknowledged(6, LeaderEpoch(3))


@pytest.mark.parametrize(("noted", "expected"), [(-1, 0), (0, 0), (9, 2)])
def test_a_checkpointed_high_watermark_counts_only_inside_the_log(noted: int, expected: int) -> None:
    disk = MemoryDisk()
    open_partition(disk).append(batch(2), NOW_MS)
    disk.crash_process()
    assert open_partition(disk, TWO, high_watermark=noted).high_watermark == expected


def test_who_does_not_lead_appends_nothing() -> None:
    partition = open_partition(image=msgspec.structs.replace(TWO, leader=BrokerId(2)))
    for act in (lambda: partition.append(batch(), NOW_MS), lambda: partition.check_leader(-1)):
        with pytest.raises(KafkaError) as error:
            act()
        assert code_of(error) == 6
    with pytest.raises(KafkaError) as fenced:
        partition.check_leader(2)
    assert code_of(fenced) == 74
    assert partition.log.log_end_offset == 0


def test_below_min_insync_replicas_only_acks_all_is_refused() -> None:
    partition = open_partition(image=msgspec.structs.replace(TWO, isr=(1,)))
    partition.settings_changed(replication(LogSettings(), min_insync_replicas=2), NOW_MS)
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW_MS)
    assert code_of(error) == 19
    partition.append(batch(), NOW_MS, acks=1)
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0)


def test_an_append_of_a_leader_that_was_replaced_is_never_acknowledged() -> None:
    partition = open_partition(image=TWO)
    partition.append(batch(), NOW_MS)
    newer = msgspec.structs.replace(TWO, leader_epoch=LeaderEpoch(4), partition_epoch=1)
    assert partition.metadata_changed(newer, {}, NOW_MS), "what waits looks again"
    with pytest.raises(KafkaError) as error:
        partition.is_acknowledged(1, LeaderEpoch(3))
    assert code_of(error) == 6


def test_consumers_see_the_high_watermark_and_all_others_the_end() -> None:
    partition = open_partition(flush_messages=1)
    partition.append(batch(4), NOW_MS)
    assert partition.read_bound(-1) == 0
    assert partition.read_bound(-2) == 4


def test_a_full_disk_is_56_and_a_failed_one_offline() -> None:
    disk = MemoryDisk()
    partition = open_partition(disk)
    disk.fail(Fault("append", "full", times=1))
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW_MS)
    assert code_of(error) == 56
    assert not partition.is_offline
    partition.append(batch(), NOW_MS)
    disk.fail(Fault("append", "io", times=1))
    with pytest.raises(StorageFailedError):
        partition.append(batch(), NOW_MS)
    with pytest.raises(KafkaError) as error:
        partition.append(batch(), NOW_MS)
    assert code_of(error) == 56
    with pytest.raises(KafkaError) as error:
        partition.read(0, 100, partition.high_watermark, at_least_one_batch=True)
    assert code_of(error) == 56


# --- transactions ---

COMMIT, ABORT = EndTransactionMarker(True, 5), EndTransactionMarker(False, 5)


def own_batch(count: int = 1, epoch: int = 0) -> bytearray:
    """A coordinator's records in a transaction of producer 7."""
    rows = [(None, b"v", NOW_MS, ()) for _ in range(count)]
    return bytearray(build_batch(rows, producer_id=7, producer_epoch=epoch, is_transactional=True))


def test_a_marker_moves_the_last_stable_offset() -> None:
    partition = open_partition()
    partition.append_own(own_batch(2), NOW_MS)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 0)
    appended = partition.append_marker(COMMIT, 7, 0, 1, NOW_MS)
    assert (appended.base_offset, appended.last_offset) == (2, 2)
    assert partition.last_stable_offset == partition.high_watermark == 3
    assert partition.are_offsets_in_order


def test_a_coordinators_batch_or_marker_of_an_old_epoch_is_refused() -> None:
    partition = open_partition()
    partition.append_marker(COMMIT, 7, 2, 2, NOW_MS)
    partition.append_own(own_batch(epoch=2), NOW_MS)
    refusals = [
        (47, lambda: partition.append_own(own_batch(epoch=1), NOW_MS)),
        (47, lambda: partition.append_marker(COMMIT, 7, 1, 1, NOW_MS)),
        (47, lambda: partition.append_marker(COMMIT, 7, 2, 2, NOW_MS)),
        (52, lambda: partition.append_marker(EndTransactionMarker(True, 4), 7, 3, 2, NOW_MS)),
    ]
    for code, refused in refusals:
        with pytest.raises(KafkaError) as error:
            refused()
        assert error.value.code == code
    assert partition.log.log_end_offset == 2
    assert partition.append_marker(COMMIT, 7, 3, 2, NOW_MS).base_offset == 2
    assert partition.append_marker(COMMIT, 7, 3, 2, NOW_MS).base_offset == 3, "repeated, as its answer was lost"


@pytest.mark.parametrize(("version", "is_verified"), [(2, True), (1, False)])
def test_a_verification_outlives_the_marker_of_the_transaction_before(version: int, is_verified: bool) -> None:
    """In transactions v2 the marker has the epoch of the next transaction, whose first batch may already wait for the
    coordinator's answer. In v1 the ending transaction has that epoch."""
    partition = open_partition()
    producers = partition.log.producer_state
    verification = producers.begin_verification(7, 1, NOW_MS, joins=True)
    partition.append_marker(COMMIT, 7, 1, version, NOW_MS)
    producers.verified(7, 1, verification, "tx")
    if is_verified:
        producers.check_transactional(7, 1, 0)
    else:
        with pytest.raises(KafkaError) as error:
            producers.check_transactional(7, 1, 0)
        assert code_of(error) == 48


def test_a_marker_is_for_the_leader_with_a_log_that_works() -> None:
    partition = open_partition(image=msgspec.structs.replace(TWO, leader=BrokerId(2)))
    with pytest.raises(KafkaError) as error:
        partition.append_marker(COMMIT, 7, 0, 2, NOW_MS)
    assert code_of(error) == 6
    partition.take_offline()
    with pytest.raises(KafkaError) as error:
        partition.append_marker(COMMIT, 7, 0, 2, NOW_MS)
    assert code_of(error) == 56


def test_only_a_transaction_that_was_aborted_makes_readers_look_for_aborted_ones() -> None:
    partition = open_partition()
    partition.append_own(own_batch(), NOW_MS)
    assert partition.aborted_transactions(0, 1) == ()
    assert not partition.may_have_aborted
    partition.append_marker(COMMIT, 7, 0, 1, NOW_MS)
    partition.append_marker(ABORT, 7, 0, 1, NOW_MS)
    assert not partition.may_have_aborted
    partition.append_own(own_batch(), NOW_MS)
    partition.append_marker(ABORT, 7, 0, 1, NOW_MS)
    assert partition.may_have_aborted
    [aborted] = partition.aborted_transactions(3, 4)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (7, 3, 4)
    assert partition.aborted_transactions(0, 3) == []


def copied(*values: bytes) -> list[bytearray]:
    """Batches of another replica's log, one for each value."""
    source = open_partition()
    for value in values:
        source.append(bytearray(build_batch([(None, value, NOW_MS, ())])), NOW_MS)
    read = source.read(0, 1 << 20, len(values), at_least_one_batch=True)
    data = bytes(read.records or b"")
    return [bytearray(data[place : place + header.size]) for place, header in iterate_batches(data)]


def test_a_damaged_batch_of_the_leader_and_what_stands_behind_it_are_refused() -> None:
    first, second, third = copied(b"a", b"b", b"c")
    second[-1] ^= 1
    follower = open_partition(image=TWO)
    with pytest.raises(ProtocolError):
        follower.append_copied(first + second + third, NOW_MS)
    assert follower.log.log_end_offset == 1


def test_a_batch_that_the_fetch_had_no_room_for_is_left_out_in_silence() -> None:
    first, second = copied(b"a", b"b")
    follower = open_partition(image=TWO)
    follower.append_copied(first + second[:-1], NOW_MS)
    assert follower.log.log_end_offset == 1


def test_a_marker_counts_when_the_high_watermark_has_passed_it() -> None:
    partition = open_partition(image=TWO)
    partition.append_own(own_batch(), NOW_MS)
    partition.step(FetchedUpTo(2, 20, 3, 1), NOW_MS)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    partition.append_marker(COMMIT, 7, 0, 0, NOW_MS)
    assert (partition.high_watermark, partition.last_stable_offset) == (1, 0)
    partition.step(FetchedUpTo(2, 20, 3, 2), NOW_MS)
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)
