"""The aborted transactions of a log that Apache Kafka has written: read, and found again after a crash."""

from __future__ import annotations

import pytest

from moldau.core.log.files.transaction_index import (
    ENTRY_SIZE,
    AbortedTransaction,
    decode_transactions,
    encode_transactions,
)
from moldau.core.log.log import AppendOrigin
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.unit.core.log.compacting import keyed

# producer 0, records 0 to 9, the marker at 10; tests/conformance/apache_directory reads a file that Kafka wrote
KAFKA_BYTES = bytes.fromhex("00000000000000000000" + "0000000000000000" + "000000000000000a" + "000000000000000b")


def append(harness, batch: bytes | bytearray) -> None:  # type: ignore[no-untyped-def]
    harness.log.append(batch, leader_epoch=0, now_ms=harness.now_ms, origin=AppendOrigin.COORDINATOR)


def marker(harness, producer_id: int, *, is_commit: bool) -> bytes:  # type: ignore[no-untyped-def]
    return build_end_transaction_batch(
        EndTransactionMarker(is_commit, 1), producer_id=producer_id, producer_epoch=0, timestamp=harness.now_ms
    )


def data(harness, producer_id: int) -> bytearray:  # type: ignore[no-untyped-def]
    return keyed(
        ("a", "1"),
        ("b", "2"),
        timestamp_ms=harness.now_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def test_the_bytes_are_kafkas() -> None:
    entry = AbortedTransaction(0, 0, 10, 11)
    assert len(KAFKA_BYTES) == ENTRY_SIZE
    assert decode_transactions(KAFKA_BYTES) == [entry]
    assert encode_transactions([entry]) == KAFKA_BYTES


def test_a_cut_entry_is_passed_over_and_a_later_version_is_refused() -> None:
    assert decode_transactions(KAFKA_BYTES + KAFKA_BYTES[:20]) == decode_transactions(KAFKA_BYTES)
    with pytest.raises(ValueError, match="version 1"):
        decode_transactions(b"\x00\x01" + KAFKA_BYTES[2:])


def test_recovery_finds_the_aborted_transactions_again(harness) -> None:
    append(harness, data(harness, 1))
    append(harness, data(harness, 2))
    append(harness, marker(harness, 2, is_commit=False))
    harness.log.roll(harness.now_ms)
    append(harness, marker(harness, 1, is_commit=False))
    append(harness, data(harness, 3))
    append(harness, marker(harness, 3, is_commit=True))
    harness.disk.replace_file("t-0/00000000000000000005.txnindex", b"of a torn write")
    harness.disk.crash_process()
    log = harness.open()
    first, second = AbortedTransaction(2, 2, 4, 0), AbortedTransaction(1, 0, 5, 6)
    assert log.aborted_transactions(0, log.log_end_offset) == [first, second]
    assert log.aborted_transactions(0, 2) == [second]
    assert log.aborted_transactions(5, 6) == [second]
    assert log.aborted_transactions(6, 9) == []
    harness.flush()
    harness.disk.crash_process()
    again = harness.open(recovery_point=log.recovery_point)
    assert again.aborted_transactions(0, log.log_end_offset) == [first, second]


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("damage", ["emptied", "cut", "of a later version", "of another segment", "zeroed"])
def test_a_damaged_index_is_built_anew_from_the_log_after_a_clean_stop(harness, segment, damage) -> None:
    """Otherwise transactions that it no longer names would count as committed."""
    append(harness, data(harness, 1))
    for producer_id in (2, 3):
        append(harness, data(harness, producer_id))
        append(harness, marker(harness, producer_id, is_commit=False))
    harness.log.roll(harness.now_ms)
    append(harness, marker(harness, 1, is_commit=False))
    append(harness, data(harness, 4))
    append(harness, marker(harness, 4, is_commit=False))
    expected = harness.log.aborted_transactions(0, harness.log.log_end_offset)
    assert len(expected) == 4
    path = f"t-0/{harness.log.segments[segment].base_offset:020d}.txnindex"
    harness.log.close(harness.now_ms)
    whole = harness.disk.read_file(path)
    assert len(whole) == 2 * ENTRY_SIZE
    changed = {
        "emptied": b"",
        "cut": whole[:-1],
        "of a later version": b"\x00\x02" + whole[2:],
        "of another segment": whole[:18] + b"\x40" + whole[19:],
        "zeroed": bytes(len(whole)),
    }
    harness.disk.replace_file(path, changed[damage])
    for findings in ([f"{path}: the file is damaged, and was rebuilt from the log"], []):
        log = harness.open(is_clean=True)
        assert log.aborted_transactions(0, log.log_end_offset) == expected
        assert list(log.health.findings) == findings
        log.close(harness.now_ms)
        assert harness.disk.read_file(path) == whole


def test_an_empty_index_that_apache_kafka_left_is_no_damage(harness) -> None:
    append(harness, data(harness, 1))
    append(harness, marker(harness, 1, is_commit=True))
    harness.log.close(harness.now_ms)
    harness.disk.replace_file("t-0/00000000000000000000.txnindex", b"")
    log = harness.open(is_clean=True)
    assert log.aborted_transactions(0, log.log_end_offset) == []
    assert log.health.findings == ()


def test_a_transaction_that_is_cut_off_is_not_aborted(harness) -> None:
    append(harness, data(harness, 1))
    append(harness, marker(harness, 1, is_commit=False))
    harness.disk.crash_process()
    log = harness.open()
    assert len(log.aborted_transactions(0, 3)) == 1
    log.truncate_to(2, harness.now_ms)
    assert log.aborted_transactions(0, 3) == []
    assert not harness.disk.exists("t-0/00000000000000000000.txnindex")


class Looked(tuple):  # type: ignore[type-arg]
    """Entries that count the reads of each."""

    count = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        self.count += 1
        return super().__getitem__(place)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return (self[place] for place in range(len(self)))


def test_only_the_entries_near_the_range_are_looked_at(harness) -> None:
    for producer_id in range(3):
        append(harness, data(harness, producer_id))
    entries = Looked(AbortedTransaction(1, offset, offset + 1, offset + 1) for offset in range(0, 20_000, 2))
    harness.log.segments[0].aborted_transactions = entries
    assert harness.log.aborted_transactions(3, 6) == list(entries)[1:3]
    entries.count = 0
    harness.log.aborted_transactions(3, 6)
    assert entries.count < 20
