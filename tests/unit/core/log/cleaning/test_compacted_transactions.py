"""Compaction of a log with transactions, round after round: a reader of committed records loses only records that newer
ones replace."""

from __future__ import annotations

import pytest

from moldau.core.log.log import AppendOrigin, Log
from moldau.core.log.settings import LogSettings
from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.types import METADATA_TOPIC_ID, TopicPartition
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from tests.support.logs import flush
from tests.unit.core.log.compacting import committed_records, keyed, run_round

NOW_MS = 1_800_000_000_000
SETTINGS = LogSettings(cleanup_policy=("compact",), index_interval_bytes=100, delete_retention_ms=1000)
PRODUCER = 9


@pytest.fixture
def log() -> Log:
    return Log.open(MemoryDisk(), "t-0", TopicPartition("t", 0), METADATA_TOPIC_ID, SETTINGS, now_ms=NOW_MS)


def write(log: Log, *pairs: tuple[str, str | None], sequence: int = -1, now_ms: int = NOW_MS) -> None:
    """With a sequence: in the transaction of PRODUCER."""
    fields: dict[str, object] = {}
    if sequence >= 0:
        fields = {"producer_id": PRODUCER, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}
    batch = keyed(*pairs, timestamp_ms=now_ms, **fields)
    log.append(batch, leader_epoch=0, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)


def end(log: Log, *, is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit, 0)
    batch = build_end_transaction_batch(marker, producer_id=PRODUCER, producer_epoch=0, timestamp=NOW_MS)
    log.append(batch, leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)


def seal(log: Log) -> None:
    log.roll(NOW_MS)
    flush(log, NOW_MS)


def seen(log: Log) -> dict[str, str | None]:
    """The newest committed value of each key, None for a tombstone."""
    return {key: value for _, key, value in committed_records(log, log.log_end_offset)}


def test_an_abort_in_the_clean_part_does_not_abort_the_producers_next_transaction(log: Log) -> None:
    write(log, ("k", "old"), ("other", "old"))
    write(log, ("x", "aborted"), sequence=0)
    end(log, is_commit=False)
    seal(log)
    clean_to = run_round(log, NOW_MS).end_offset
    write(log, ("k", None), ("other", "new"), sequence=1)
    end(log, is_commit=True)
    seal(log)
    for round_number in range(1, 5):
        now_ms = NOW_MS + round_number * 2 * SETTINGS.delete_retention_ms
        write(log, ("z", str(round_number)), now_ms=now_ms)
        seal(log)
        clean_to = run_round(log, now_ms, clean_to).end_offset
        newest = seen(log)
        assert newest.pop("k", None) is None, "deleted, and readable again"
        assert newest == {"other": "new", "z": str(round_number)}
    keys = [key for _, key, _ in committed_records(log, log.log_end_offset)]
    assert keys == ["other", "z"]


def test_an_abort_behind_the_end_of_a_round_is_still_known_to_readers(log: Log) -> None:
    keys = tuple((f"key-{number}", "v") for number in range(1500))
    write(log, ("a", "1"))
    write(log, *keys)
    write(log, ("a", "aborted"), ("secret", "aborted"), sequence=0)
    end(log, is_commit=False)
    write(log, ("b", "2"))
    seal(log)
    before = seen(log)
    assert (before["a"], "secret" in before) == ("1", False)
    result = run_round(log, NOW_MS, dedupe_bytes=1)
    assert result.end_offset < 1500, "the map of keys is full in the middle of the segment"
    assert seen(log) == before
    while result.end_offset < log.log_end_offset:
        result = run_round(log, NOW_MS, result.end_offset, dedupe_bytes=1)
        assert seen(log) == before
