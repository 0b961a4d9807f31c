"""A log with transactions: allowed appends, the effect of markers, and what becomes of both."""

from __future__ import annotations

import pytest

from moldau.core.log.files.transaction_index import AbortedTransaction, decode_transactions
from moldau.core.log.log import Appended, AppendOrigin
from moldau.errors import KafkaError, StorageFullError
from moldau.shell.io.simulated.memory_disk import Fault
from moldau.shell.io.simulated.random import SeededRandom
from moldau.wire.records.batch import iterate_batches, read_header
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.unit.core.log.conftest import Harness


def verify(harness: Harness, producer_id: int = 7, epoch: int = 0, base_sequence: int = 0) -> None:
    producers = harness.log.producer_state
    verification = producers.begin_verification(producer_id, epoch, harness.now_ms, joins=False)
    verification.expect(base_sequence)
    producers.verified(producer_id, epoch, verification, "a")


def produce(
    harness: Harness,
    count: int = 1,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    base_sequence: int = 0,
    origin: AppendOrigin = AppendOrigin.TRANSACTIONAL_CLIENT,
    is_transactional: bool = True,
) -> Appended:
    batch = harness.batch(
        count,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    return harness.log.append(batch, leader_epoch=harness.epoch, now_ms=harness.now_ms, origin=origin)


def begin(
    harness: Harness, count: int = 1, *, producer_id: int = 7, epoch: int = 0, base_sequence: int = 0
) -> Appended:
    verify(harness, producer_id, epoch, base_sequence)
    return produce(harness, count, producer_id=producer_id, epoch=epoch, base_sequence=base_sequence)


def end(harness: Harness, *, producer_id: int = 7, epoch: int = 0, is_commit: bool) -> Appended:
    batch = build_end_transaction_batch(
        EndTransactionMarker(is_commit, 0), producer_id=producer_id, producer_epoch=epoch, timestamp=harness.now_ms
    )
    return harness.log.append(batch, leader_epoch=0, now_ms=harness.now_ms, origin=AppendOrigin.COORDINATOR)


def refused(harness: Harness, **fields: object) -> int:
    before = harness.log.log_end_offset
    with pytest.raises(KafkaError) as error:
        produce(harness, **fields)  # type: ignore[arg-type]
    assert harness.log.log_end_offset == before
    return error.value.code


def test_a_transactional_batch_needs_a_transactional_id_and_a_verified_partition(harness: Harness) -> None:
    assert refused(harness, origin=AppendOrigin.CLIENT) == 53
    assert refused(harness, producer_id=-1) == 87
    assert refused(harness) == 48
    verify(harness)
    assert refused(harness, origin=AppendOrigin.CLIENT) == 53
    assert produce(harness, 3).last_offset == 2
    assert produce(harness, 2, base_sequence=3).last_offset == 4
    assert harness.log.producer_state.first_unstable_offset == 0


def test_a_repeat_is_answered_also_once_its_transaction_has_ended(harness: Harness) -> None:
    begin(harness, 3)
    end(harness, is_commit=True)
    again = produce(harness, 3)
    assert (again.base_offset, again.is_duplicate) == (0, True)
    assert refused(harness, base_sequence=3) == 48
    assert harness.log.log_end_offset == 4


def test_a_late_batch_of_a_transaction_that_was_aborted_opens_none(harness: Harness) -> None:
    begin(harness)
    end(harness, epoch=1, is_commit=False)
    assert refused(harness, base_sequence=1) == 47
    assert refused(harness, epoch=1) == 48
    assert harness.log.producer_state.first_unstable_offset == -1


def test_a_plain_batch_inside_a_transaction_of_its_producer_is_refused(harness: Harness) -> None:
    begin(harness)
    plain = {"is_transactional": False, "origin": AppendOrigin.CLIENT}
    assert refused(harness, base_sequence=1, **plain) == 48
    assert produce(harness, producer_id=8, **plain).base_offset == 1  # type: ignore[arg-type]
    end(harness, is_commit=True)
    assert produce(harness, base_sequence=1, **plain).base_offset == 3  # type: ignore[arg-type]


def test_an_abort_goes_into_the_transaction_index_of_its_segment(harness: Harness) -> None:
    begin(harness, 2)
    begin(harness, producer_id=8)
    end(harness, is_commit=False)
    harness.log.roll(harness.now_ms)
    end(harness, producer_id=8, is_commit=False)
    begin(harness, base_sequence=2)
    end(harness, is_commit=False)
    begin(harness, base_sequence=3)
    end(harness, is_commit=True)
    first, second, third = (
        AbortedTransaction(7, 0, 3, 2),
        AbortedTransaction(8, 2, 4, 5),
        AbortedTransaction(7, 5, 6, 7),
    )
    assert harness.log.aborted_transactions(0, harness.log.log_end_offset) == [first, second, third]
    files = [harness.disk.read_file(f"t-0/{base:020d}.txnindex") for base in (0, 4)]
    assert [decode_transactions(data) for data in files] == [[first], [second, third]]


def test_a_marker_where_nothing_is_open_is_stored_and_aborts_nothing(harness: Harness) -> None:
    end(harness, is_commit=False)
    end(harness, is_commit=False)
    assert harness.log.log_end_offset == 2
    assert harness.log.aborted_transactions(0, 2) == []
    assert not harness.disk.exists("t-0/00000000000000000000.txnindex")


@pytest.mark.parametrize("full", [".log", ".txnindex"])
def test_without_room_for_its_entry_in_the_index_an_abort_marker_is_not_stored(harness: Harness, full: str) -> None:
    """Otherwise a reader after the next start would take the aborted records for committed ones."""
    begin(harness, 2)
    harness.disk.fail(Fault("append", "full", full))
    with pytest.raises(StorageFullError):
        end(harness, is_commit=False)
    harness.disk.heal()
    assert harness.log.log_end_offset == 2
    assert harness.log.producer_state.has_open_transaction(7, 0)
    assert harness.log.aborted_transactions(0, 9) == []
    end(harness, is_commit=False)
    assert harness.log.aborted_transactions(0, 9) == [AbortedTransaction(7, 0, 2, 3)]
    assert harness.offsets() == [0, 2]


def test_log_append_time_stamps_records_and_no_marker(make_harness) -> None:  # type: ignore[no-untyped-def]
    harness: Harness = make_harness(message_timestamp_type="LogAppendTime")
    begin(harness)
    harness.now_ms += 50
    assert end(harness, is_commit=True).base_offset == 1
    data = bytes(harness.log.read(0, max_bytes=1 << 20, end_offset=2).records or b"")
    assert [header.is_log_append_time for _, header in iterate_batches(data)] == [True, False]


# --- restarts ---


@pytest.mark.parametrize("is_clean", [False, True])
def test_open_committed_and_aborted_transactions_are_as_before_after_a_start(harness: Harness, is_clean: bool) -> None:
    begin(harness, producer_id=1)
    begin(harness, producer_id=2)
    begin(harness, producer_id=3)
    end(harness, producer_id=1, is_commit=True)
    end(harness, producer_id=2, epoch=1, is_commit=False)
    harness.log.roll(harness.now_ms)
    begin(harness, producer_id=4)
    aborted = harness.log.aborted_transactions(0, 9)
    if is_clean:
        harness.log.close(harness.now_ms)
        harness.open(is_clean=True)
    else:
        harness.disk.crash_process()
        harness.open()
    producers = harness.log.producer_state
    assert producers.first_unstable_offset == 2
    assert [producers.has_open_transaction(producer_id, 0) for producer_id in (1, 2, 3, 4)] == [
        False,
        False,
        True,
        True,
    ]
    assert harness.log.aborted_transactions(0, 9) == aborted == [AbortedTransaction(2, 1, 4, 2)]
    assert refused(harness, producer_id=1, base_sequence=1) == 48, "what was verified is forgotten with the process"
    assert refused(harness, producer_id=2, base_sequence=1) == 47
    assert produce(harness, producer_id=3, base_sequence=1).base_offset == 6, "an open transaction goes on"
    end(harness, producer_id=3, is_commit=True)
    assert producers.first_unstable_offset == 5


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_loss_the_index_matches_the_abort_markers(seed: int) -> None:
    harness = Harness(segment_bytes=500)
    aborted: list[AbortedTransaction] = []
    for number in range(20):
        first = begin(harness, 2, producer_id=number).base_offset
        if number % 3:
            marker = end(harness, producer_id=number, is_commit=number % 3 == 1).base_offset
            if number % 3 == 2:
                aborted.append(AbortedTransaction(number, first, marker, 0))
        if number == 8:
            harness.flush()
    recovery_point = harness.log.recovery_point
    harness.disk.crash_machine(SeededRandom(seed))
    log = harness.open(recovery_point=recovery_point)
    assert log.log_end_offset >= recovery_point
    left = [entry for entry in aborted if entry.last_offset < log.log_end_offset]
    assert log.aborted_transactions(0, log.log_end_offset) == left
    assert log.producer_state.first_unstable_offset == 0


def test_a_truncation_opens_again_what_its_cut_marker_had_ended(harness: Harness) -> None:
    begin(harness, 2)
    end(harness, is_commit=False)
    harness.log.truncate_to(2, harness.now_ms)
    assert harness.log.producer_state.first_unstable_offset == 0
    assert harness.log.aborted_transactions(0, 9) == []


# --- records that go ---


def test_retention_may_take_the_begin_of_an_open_transaction(make_harness) -> None:  # type: ignore[no-untyped-def]
    """As in Apache Kafka: the last stable offset is then the log start offset, until the marker comes."""
    harness: Harness = make_harness(retention_ms=1_000)
    begin(harness, 2)
    harness.log.roll(harness.now_ms)
    harness.now_ms += 5_000
    harness.append()
    harness.log.delete_old_segments(harness.now_ms, harness.log.log_end_offset)
    assert harness.log.log_start_offset == 2
    assert harness.log.producer_state.first_unstable_offset == 0
    harness.disk.crash_process()
    harness.open(log_start_offset=2)
    assert harness.log.producer_state.has_open_transaction(7, 0), "the snapshot of the segment that went has it"
    end(harness, is_commit=False)
    assert harness.log.producer_state.first_unstable_offset == -1
    assert harness.log.aborted_transactions(2, 9) == [AbortedTransaction(7, 0, 3, 4)]


def test_the_start_of_the_log_may_lie_inside_an_open_transaction(harness: Harness) -> None:
    begin(harness, 4)
    harness.log.advance_log_start_offset(2)
    assert produce(harness, base_sequence=4).base_offset == 4
    end(harness, is_commit=False)
    [aborted] = harness.log.aborted_transactions(2, 9)
    assert (aborted.first_offset, aborted.last_offset) == (0, 5)
    assert read_header(bytes(harness.log.read(2, max_bytes=1 << 20, end_offset=9).records or b"")).base_offset == 0


TRANSACTION_INDEX = "t-0/00000000000000000000.txnindex"


@pytest.mark.parametrize("seed", range(8))
def test_a_flush_makes_the_name_of_a_new_transaction_index_durable(harness: Harness, seed: int) -> None:
    begin(harness)
    harness.flush()
    end(harness, is_commit=False)
    harness.flush()
    harness.disk.crash_machine(SeededRandom(seed))
    assert decode_transactions(harness.disk.read_file(TRANSACTION_INDEX)) == [AbortedTransaction(7, 0, 1, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_a_transaction_index_that_recovery_wrote_is_durable_at_once(harness: Harness, seed: int) -> None:
    """The next segment may begin without a flush: the recovery point is already at the log end."""
    begin(harness)
    end(harness, is_commit=False)
    harness.flush()
    harness.disk.remove(TRANSACTION_INDEX)
    harness.disk.crash_machine(SeededRandom(seed))
    harness.open(recovery_point=2)
    harness.disk.crash_machine(SeededRandom(seed))
    assert decode_transactions(harness.disk.read_file(TRANSACTION_INDEX)) == [AbortedTransaction(7, 0, 1, 2)]


@pytest.mark.parametrize("seed", range(8))
def test_a_transaction_index_that_was_cut_off_does_not_come_back(harness: Harness, seed: int) -> None:
    begin(harness)
    end(harness, is_commit=False)
    harness.flush()
    harness.log.truncate_to(1, harness.now_ms)
    end(harness, is_commit=True)
    harness.flush()
    harness.disk.crash_machine(SeededRandom(seed))
    assert not harness.disk.exists(TRANSACTION_INDEX)
