"""What a round of compaction keeps, by the rules of Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from moldau.core.log.cleaning.cleanable import find_cleanable, is_roll_due
from moldau.core.log.cleaning.key_offsets import keys_within
from moldau.core.log.files.transaction_index import AbortedTransaction
from moldau.core.log.log import AppendOrigin
from moldau.errors import KafkaError, ProtocolError
from moldau.wire.records.batch import DELETE_HORIZON_FLAG, read_header
from moldau.wire.records.builder import build_batch
from moldau.wire.records.control import EndTransactionMarker, build_end_transaction_batch
from moldau.wire.records.record import read_records
from tests.unit.core.log.compacting import batches, begin_round, content, keyed, records, run_round

DAY_MS = 86_400_000


@pytest.fixture
def harness(make_harness: Callable[..., object]):  # type: ignore[no-untyped-def]
    return make_harness(cleanup_policy=("compact",), segment_bytes=4096, index_interval_bytes=100)


def write(harness, *pairs, **fields) -> None:  # type: ignore[no-untyped-def]
    fields.setdefault("timestamp_ms", harness.now_ms)
    harness.append_bytes(keyed(*pairs, **fields))


def seal(harness) -> None:  # type: ignore[no-untyped-def]
    harness.log.roll(harness.now_ms)
    harness.flush()


def test_the_last_value_of_each_key_stays_at_its_offset(harness) -> None:
    write(harness, ("a", "1"), ("b", "1"), ("a", "2"))
    write(harness, ("c", "1"))
    write(harness, ("b", "2"), ("c", "2"))
    seal(harness)
    write(harness, ("a", "3"))
    result = run_round(harness.log, harness.now_ms)
    assert content(harness.log) == [(2, "a", "2"), (4, "b", "2"), (5, "c", "2"), (6, "a", "3")]
    assert (result.end_offset, result.keys, result.records_read, result.records_kept) == (6, 3, 6, 3)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_keep_their_offsets_codec_and_sequences(harness, compression) -> None:
    harness.change(segment_bytes=1 << 16)
    fields = {"compression": compression, "producer_id": 7, "producer_epoch": 0}
    write(
        harness,
        *((f"key-{row % 40}-with-a-long-name", f"value-{row}") for row in range(200)),
        base_sequence=0,
        **fields,
    )
    write(harness, *((f"key-{row}-with-a-long-name", "new") for row in range(30)), base_sequence=200, **fields)
    before = [read_header(batch) for batch in batches(harness.log)]
    seal(harness)
    run_round(harness.log, harness.now_ms)
    after = [read_header(batch) for batch in batches(harness.log)]
    for old, new in zip(before, after, strict=True):
        for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "compression"):
            assert getattr(old, name) == getattr(new, name)
    assert [record.offset for record in records(harness.log)] == [*range(190, 200), *range(200, 230)]


def test_small_segments_become_one(harness) -> None:
    for row in range(20):
        write(harness, (f"k{row % 3}", f"v{row}"))
        seal(harness)
    assert len(harness.segments()) == 21
    run_round(harness.log, harness.now_ms)
    assert harness.segments() == [0, 20]
    assert harness.log.size_bytes == sum(len(batch) for batch in batches(harness.log))
    assert content(harness.log) == [(17, "k2", "v17"), (18, "k0", "v18"), (19, "k1", "v19")]
    harness.disk.crash_process()
    harness.open(recovery_point=harness.log.recovery_point)
    assert content(harness.log) == [(17, "k2", "v17"), (18, "k0", "v18"), (19, "k1", "v19")]


def test_one_swap_puts_together_a_bounded_number_of_segments(harness) -> None:
    for row in range(40):
        write(harness, ("k", f"v{row}"))
        seal(harness)
    first = run_round(harness.log, harness.now_ms)
    assert [len(segment.replaced) for segment in first.segments] == [32, 8]
    run_round(harness.log, harness.now_ms, first.end_offset)
    assert harness.segments() == [0, 40]
    assert content(harness.log) == [(39, "k", "v39")]


def test_a_tombstone_stays_until_its_delete_horizon(harness) -> None:
    write(harness, ("a", "1"), ("b", "1"), ("c", "1"), timestamp_ms=harness.now_ms - 5)
    write(harness, ("a", None), ("b", "2"))
    seal(harness)
    first = run_round(harness.log, harness.now_ms)
    assert content(harness.log) == [(2, "c", "1"), (3, "a", None), (4, "b", "2")]
    header = read_header(batches(harness.log)[1])
    assert header.attributes & DELETE_HORIZON_FLAG
    assert header.base_timestamp == harness.now_ms + DAY_MS
    assert header.max_timestamp == harness.now_ms
    assert [record.timestamp for record in records(harness.log)] == [harness.now_ms - 5, harness.now_ms, harness.now_ms]

    write(harness, ("d", "1"))
    seal(harness)
    harness.now_ms += DAY_MS - 1
    second = run_round(harness.log, harness.now_ms, first.end_offset)
    assert (3, "a", None) in content(harness.log)

    write(harness, ("e", "1"))
    seal(harness)
    harness.now_ms += 1
    run_round(harness.log, harness.now_ms, second.end_offset)
    assert content(harness.log) == [(2, "c", "1"), (4, "b", "2"), (5, "d", "1"), (6, "e", "1")]


def test_the_last_sequence_of_an_active_producer_outlives_its_records(harness) -> None:
    fields = {"producer_id": 5, "producer_epoch": 2}
    write(harness, ("a", "1"), base_sequence=0, **fields)
    write(harness, ("a", "2"), ("a", "3"), base_sequence=1, **fields)
    write(harness, ("a", "4"))
    seal(harness)
    run_round(harness.log, harness.now_ms)
    headers = [read_header(batch) for batch in batches(harness.log)]
    assert [(header.base_offset, header.last_offset, header.record_count) for header in headers] == [
        (1, 2, 0),
        (3, 3, 1),
    ]
    assert (headers[0].producer_id, headers[0].producer_epoch, headers[0].last_sequence) == (5, 2, 2)
    for name in harness.disk.list_directory("t-0"):
        if name.endswith(".snapshot"):
            harness.disk.remove(f"t-0/{name}")
    harness.disk.crash_process()
    harness.open()
    assert harness.log.producer_state.entries[5].last_sequence == 2
    write(harness, ("a", "5"), base_sequence=3, **fields)


def test_the_last_offset_of_a_round_is_never_lost(harness) -> None:
    harness.change(delete_retention_ms=0)
    write(harness, ("a", "1"))
    write(harness, ("a", None))
    seal(harness)
    first = run_round(harness.log, harness.now_ms)
    write(harness, ("b", "1"))
    write(harness, ("b", None))
    seal(harness)
    run_round(harness.log, harness.now_ms + 1, first.end_offset)
    run_round(harness.log, harness.now_ms + 2, 2)
    assert content(harness.log) == []
    assert [read_header(batch).last_offset for batch in batches(harness.log)] == [3]


def test_what_does_not_fit_the_map_waits_for_the_next_round(harness) -> None:
    harness.change(segment_bytes=1 << 20)
    for start in range(0, 3000, 100):
        write(harness, *((f"k{row}", "old") for row in range(start, start + 100)))
    write(harness, *((f"k{row}", "new") for row in range(500)))
    seal(harness)
    offset, rounds = 0, 0
    while offset < harness.log.log_end_offset:
        result = run_round(harness.log, harness.now_ms, offset, dedupe_bytes=1)
        assert result.keys <= 1000
        assert result.end_offset > offset
        offset, rounds = result.end_offset, rounds + 1
    assert rounds == 4
    assert [entry[0] for entry in content(harness.log)] == [*range(500, 3000), *range(3000, 3500)]


def test_the_map_stays_within_its_bytes() -> None:
    assert keys_within(0) == 0
    assert keys_within(128 << 20) > 1_000_000
    for low, high in pairwise(keys_within(size << 10) for size in range(1, 200)):
        assert low <= high


def test_records_without_a_key_go_and_are_refused_from_then_on(harness) -> None:
    harness.change(cleanup_policy=("delete",))
    write(harness, ("a", "1"), ("key", "1"), ("key", "2"))
    null_key = build_batch([(b"k", b"v", harness.now_ms, ()), (None, b"v", harness.now_ms, ())])
    harness.append_bytes(bytearray(null_key))
    harness.change(cleanup_policy=("compact",))
    with pytest.raises(KafkaError) as refused:
        harness.append_bytes(bytearray(null_key))
    assert refused.value.code == 87
    assert "batchIndex=1" in str(refused.value)
    seal(harness)
    run_round(harness.log, harness.now_ms)
    assert [entry[:2] for entry in content(harness.log)] == [(0, "a"), (2, "key"), (3, "k")]


def test_aborted_records_go_and_their_marker_follows_after_the_horizon(harness) -> None:
    fields = {"producer_id": 9, "producer_epoch": 0, "is_transactional": True}
    append = harness.log.append
    write(harness, ("a", "kept"))
    for batch in (
        keyed(("a", "aborted"), timestamp_ms=harness.now_ms, base_sequence=0, **fields),
        build_end_transaction_batch(
            EndTransactionMarker(False, 1), producer_id=9, producer_epoch=0, timestamp=harness.now_ms
        ),
        keyed(("b", "committed"), timestamp_ms=harness.now_ms, base_sequence=1, **fields),
        build_end_transaction_batch(
            EndTransactionMarker(True, 1), producer_id=9, producer_epoch=0, timestamp=harness.now_ms
        ),
        keyed(("b", "last"), timestamp_ms=harness.now_ms),
    ):
        append(batch, leader_epoch=0, now_ms=harness.now_ms, origin=AppendOrigin.COORDINATOR)
    aborted = AbortedTransaction(9, 1, 2, 3)
    assert harness.log.aborted_transactions(0, 6) == [aborted]
    assert harness.log.aborted_transactions(3, 6) == []
    harness.log.producer_state.clear(6)  # as after its expiry: no last batch of a producer is kept
    seal(harness)

    first = run_round(harness.log, harness.now_ms)
    # the abort marker stays: its records were there a moment ago
    assert [read_header(batch).base_offset for batch in batches(harness.log)] == [0, 2, 4, 5]
    assert harness.log.aborted_transactions(0, 6) == [aborted]

    def again(now_ms: int) -> list[tuple[int, int]]:
        write(harness, ("c", str(now_ms)))
        seal(harness)
        run_round(harness.log, now_ms, first.end_offset)
        headers = [read_header(batch) for batch in batches(harness.log)]
        return [(header.base_offset, header.attributes & DELETE_HORIZON_FLAG) for header in headers][:4]

    # nothing is left of the two transactions: their markers get a horizon, and are removed when it is reached
    assert again(harness.now_ms) == [(0, 0), (2, DELETE_HORIZON_FLAG), (4, DELETE_HORIZON_FLAG), (5, 0)]
    assert harness.log.aborted_transactions(0, 6) == []
    assert again(harness.now_ms + DAY_MS - 1)[1][0] == 2
    assert [entry[0] for entry in again(harness.now_ms + DAY_MS)] == [0, 5, 8]


def test_what_is_young_uncommitted_unflushed_or_active_is_not_cleaned(harness) -> None:
    write(harness, ("a", "1"), timestamp_ms=harness.now_ms - 1000)
    seal(harness)
    write(harness, ("a", "2"))
    seal(harness)
    write(harness, ("a", "3"))
    log, now_ms = harness.log, harness.now_ms
    assert find_cleanable(log, 0, 3, now_ms).end_offset == 2
    assert find_cleanable(log, 0, 1, now_ms).end_offset == 1
    harness.change(min_compaction_lag_ms=500)
    assert find_cleanable(log, 0, 3, now_ms).end_offset == 1
    assert find_cleanable(log, 0, 3, now_ms + 500).end_offset == 2
    log.roll(now_ms)
    assert find_cleanable(log, 0, 3, now_ms + 500).end_offset == 2


def test_a_log_is_due_by_its_dirty_share_or_when_its_oldest_record_waits_too_long(harness) -> None:
    for row in range(4):
        write(harness, (f"k{row}", "v"))
        seal(harness)
    log = harness.log
    part = find_cleanable(log, 3, 4, harness.now_ms)
    assert part.ratio == 0.25
    assert not part.is_due(0.25)
    assert part.is_due(0.2)
    harness.change(max_compaction_lag_ms=1000)
    assert find_cleanable(log, 3, 4, harness.now_ms + 1001).is_due(0.9)
    assert not find_cleanable(log, 3, 4, harness.now_ms + 1000).is_due(0.9)
    assert not find_cleanable(log, 4, 4, harness.now_ms + 5000).is_due(0.0)


def test_the_active_segment_rolls_in_time_for_the_lag(harness) -> None:
    write(harness, ("a", "1"))
    harness.change(max_compaction_lag_ms=1000)
    assert not is_roll_due(harness.log, harness.now_ms + 1000)
    assert is_roll_due(harness.log, harness.now_ms + 1001)
    harness.now_ms += 1001
    write(harness, ("a", "2"))
    assert harness.segments() == [0, 1]


def test_a_damaged_batch_is_named_and_nothing_is_replaced(harness) -> None:
    write(harness, ("a", "1"))
    seal(harness)
    file = harness.disk.open("t-0/00000000000000000000.log")
    file.write_at(65, b"x")
    with pytest.raises(ProtocolError, match=r"00000000000000000000.log holds a damaged record batch at 0"):
        begin_round(harness.log, harness.now_ms)


def test_a_search_by_time_goes_on_in_the_cleaned_segment(harness) -> None:
    write(harness, ("a", "1"), ("b", "1"))
    write(harness, ("a", "2"), timestamp_ms=harness.now_ms + 5)
    seal(harness)
    search = harness.log.plan_timestamp_search(harness.now_ms)
    run_round(harness.log, harness.now_ms)
    found = search.run()
    assert found is not None
    assert found.offset == 1


def test_a_reader_in_the_middle_finds_the_next_record(harness) -> None:
    for row in range(50):
        write(harness, ("a", f"v{row}"))
    seal(harness)
    run_round(harness.log, harness.now_ms)
    read = harness.log.read(7, max_bytes=1000, end_offset=harness.log.log_end_offset)
    assert read.records is not None
    assert [record.offset for record in read_records(bytes(read.records))] == [49]


def test_what_retention_took_meanwhile_is_not_put_back(harness) -> None:
    write(harness, ("a", "1"))
    seal(harness)
    write(harness, ("a", "2"))
    seal(harness)
    plan, result = begin_round(harness.log, harness.now_ms)
    harness.log.advance_log_start_offset(1)
    harness.log.delete_old_segments(harness.now_ms, harness.log.log_end_offset)
    assert not harness.log.replace_segments(plan, result.segments[0], harness.now_ms)
    assert content(harness.log) == [(1, "a", "2")]


def test_what_was_cleaned_before_the_log_was_cut_is_not_put_in_its_place(harness) -> None:
    """A follower's log is truncated, and filled again from another leader, while its old records are cleaned."""
    for value in ("1", "2", "3"):
        write(harness, ("a", value))
    seal(harness)
    plan, result = begin_round(harness.log, harness.now_ms)
    harness.log.truncate_to(1, harness.now_ms)
    for value in ("new 2", "new 3"):
        write(harness, ("a", value))
    seal(harness)
    assert not any(harness.log.replace_segments(plan, segment, harness.now_ms) for segment in result.segments)
    assert content(harness.log) == [(0, "a", "1"), (1, "a", "new 2"), (2, "a", "new 3")]


def test_a_segment_of_which_nothing_is_left_does_not_hide_the_next_one(harness) -> None:
    for row in range(3):
        write(harness, *((f"k{index}", "x" * 200) for index in range(12)))
        seal(harness)
        write(harness, (f"other-{row}", "y"))
    run_round(harness.log, harness.now_ms)
    assert harness.log.segments[0].size == 0
    end = harness.log.log_end_offset
    read = harness.log.read(0, max_bytes=5000, end_offset=end, at_least_one_batch=False)
    assert read_records(bytes(read.records or b""))[0].offset > 0
    assert harness.log.read(0, max_bytes=70, end_offset=end, at_least_one_batch=False).records == b""


def test_the_largest_timestamp_belongs_to_a_record_not_to_an_emptied_batch(harness) -> None:
    """A producer's last batch stays for its sequence, without records, with its largest timestamp."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    write(harness, ("a", "1"), timestamp_ms=harness.now_ms + 50)
    write(harness, ("b", "1"), timestamp_ms=harness.now_ms + 500, **fields)
    write(harness, ("c", "1"), timestamp_ms=harness.now_ms + 60)
    write(harness, ("b", "2"), timestamp_ms=harness.now_ms + 70)
    seal(harness)
    run_round(harness.log, harness.now_ms)
    assert content(harness.log) == [(0, "a", "1"), (2, "c", "1"), (3, "b", "2")]
    assert [read_header(batch).record_count for batch in batches(harness.log)] == [1, 0, 1, 1]
    found = harness.log.plan_max_timestamp_search().run()
    assert (found.offset, found.timestamp_ms) == (3, harness.now_ms + 70)
