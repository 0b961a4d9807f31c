"""What an idempotent producer is answered; Apache Kafka's answers are in the head of producer_state."""

from __future__ import annotations

import pytest

from moldau.core.log.producer_state import EXPIRY_SLICE, ProducerState
from moldau.errors import KafkaError

NOW_MS = 1_800_000_000_000
LAST = 0x7FFFFFFF


def _producers(*batches: tuple[int, int], producer_id: int = 7, epoch: int = 3) -> ProducerState:
    """A state that took in (first sequence, count) batches one after the other from offset 100 on."""
    producers = ProducerState(100)
    offset = 100
    for first, count in batches:
        offset += count
        producers.update(producer_id, epoch, first, offset - 1, count - 1, NOW_MS, NOW_MS)
    return producers


def _code(producers: ProducerState, epoch: int, first: int, last: int) -> int:
    with pytest.raises(KafkaError) as refused:
        producers.check(7, epoch, first, last)
    return refused.value.code


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert _producers().check(7, 3, 999, 1000) is None


def test_the_next_sequence_is_taken() -> None:
    assert _producers((0, 10)).check(7, 3, 10, 12) is None


def test_each_of_the_last_five_batches_is_a_duplicate_with_its_old_offset() -> None:
    producers = _producers(*((first, 10) for first in range(0, 70, 10)))
    for first in (20, 30, 40, 50, 60):
        duplicate = producers.check(7, 3, first, first + 9)
        assert duplicate is not None
        assert duplicate[2] == 100 + first + 9
    assert _code(producers, 3, 10, 19) == 45, "the sixth last is no longer known"


@pytest.mark.parametrize(("first", "last"), [(11, 20), (5, 9), (0, 8), (1, 9), (0, 10), (500, 509)])
def test_a_gap_or_a_partial_overlap_is_out_of_order(first: int, last: int) -> None:
    assert _code(_producers((0, 10)), 3, first, last) == 45


def test_an_older_epoch_is_fenced() -> None:
    assert _code(_producers((0, 10)), 2, 10, 10) == 47
    assert _code(_producers((0, 10)), -1, 10, 10) == 47


def test_a_newer_epoch_begins_at_zero() -> None:
    assert _producers((0, 10)).check(7, 4, 0, 0) is None
    assert _code(_producers((0, 10)), 4, 10, 10) == 45


def test_a_newer_epoch_forgets_the_batches_of_the_older() -> None:
    producers = _producers((0, 10))
    producers.update(7, 4, 0, 200, 0, NOW_MS, NOW_MS)
    assert producers.check(7, 4, 0, 0) is not None
    assert _code(producers, 3, 0, 9) == 47


def test_sequences_wrap_from_the_largest_to_zero() -> None:
    producers = _producers((LAST - 9, 10))
    assert producers.check(7, 3, 0, 4) is None
    assert _code(producers, 3, 1, 4) == 45
    across = _producers((LAST - 4, 10))
    assert across.entries[7].last_sequence == 4
    assert across.check(7, 3, 5, 5) is None
    assert across.check(7, 3, LAST - 4, 4) is not None


def test_an_aborted_or_committed_transaction_ends_and_may_raise_the_epoch() -> None:
    producers = ProducerState(100)
    producers.update(7, 3, 0, 109, 9, NOW_MS, NOW_MS, is_transactional=True)
    producers.update(8, 0, 0, 119, 9, NOW_MS, NOW_MS, is_transactional=True)
    assert producers.first_unstable_offset == 100
    producers.end_transaction(7, 3, 5, NOW_MS, NOW_MS)
    assert producers.first_unstable_offset == 110
    assert producers.check(7, 3, 10, 10) is None
    producers.end_transaction(8, 1, 5, NOW_MS, NOW_MS)
    assert producers.first_unstable_offset == -1
    assert producers.check(8, 1, 0, 0) is None


def test_producers_that_were_idle_expire_but_not_with_an_open_transaction() -> None:
    producers = _producers((0, 10))
    producers.update(8, 0, 0, 120, 0, 1, NOW_MS + 50, is_transactional=False)
    producers.update(9, 0, 0, 130, 0, NOW_MS, NOW_MS, is_transactional=True)
    assert producers.expire(NOW_MS + 99, 100) == 0, "an old record's timestamp does not matter"
    assert producers.expire(NOW_MS + 100, 100) == 1
    assert list(producers.entries) == [8, 9]


def test_over_the_bound_the_producer_that_was_idle_longest_goes() -> None:
    producers = ProducerState(3)
    for producer_id in (1, 2, 3, 1, 4, 2):
        producers.update(producer_id, 0, 0, producer_id, 0, NOW_MS, NOW_MS)
        assert len(producers.entries) <= 3
    assert list(producers.entries) == [1, 4, 2]
    producers.end_transaction(1, 0, 0, NOW_MS, NOW_MS)
    producers.update(5, 0, 0, 6, 0, NOW_MS, NOW_MS)
    assert list(producers.entries) == [2, 1, 5]
    again = ProducerState(3)
    again.load(producers.encode(), 10, NOW_MS)
    assert list(again.entries) == [2, 1, 5], "a snapshot keeps the order"


def test_open_transactions_stay_while_others_go() -> None:
    producers = ProducerState(50)
    for producer_id in range(40):
        producers.update(producer_id, 0, 0, producer_id, 0, NOW_MS, NOW_MS, is_transactional=True)
    for producer_id in range(40, 400):
        producers.update(producer_id, 0, 0, producer_id, 0, NOW_MS, NOW_MS)
    assert set(range(40)) < set(producers.entries)
    assert len(producers.entries) <= 50 + 3, "a look at a few entries is all that one admission may cost"


def test_idle_producers_expire_in_slices() -> None:
    producers = ProducerState(10_000)
    for producer_id in range(EXPIRY_SLICE + 10):
        producers.update(producer_id, 0, 0, producer_id, 0, NOW_MS, NOW_MS)
    assert [producers.expire(NOW_MS + 100, 100) for _ in range(3)] == [EXPIRY_SLICE, 10, 0]


def test_a_snapshot_is_the_same_whether_its_rows_were_encoded_before_or_not() -> None:
    few, many = ProducerState(10_000), ProducerState(10_000)
    for producer_id in range(2_000):
        many.update(producer_id, 0, 0, producer_id, 0, NOW_MS, NOW_MS)
    for producer_id in range(1_990, 2_000):
        few.update(producer_id, 0, 0, producer_id, 0, NOW_MS, NOW_MS)
    for producers in (few, many):
        producers.encode()
        producers.update(1_995, 0, 1, 3_000, 0, NOW_MS, NOW_MS, is_transactional=True)
        producers.end_transaction(1_996, 1, 7, NOW_MS + 1, NOW_MS)
        producers.update(1_996, 1, 0, 3_002, 0, NOW_MS, NOW_MS)
    assert many.expire(NOW_MS + 100, 100) == EXPIRY_SLICE
    for producer_id in list(many.entries)[: -10 + len(many.entries)]:
        if producer_id < 1_990:
            del many.entries[producer_id]
    assert many.encode() == few.encode()


def test_a_loaded_snapshot_answers_as_the_state_that_was_saved() -> None:
    producers = _producers((0, 10), (10, 10))
    again = ProducerState(100)
    again.load(producers.encode(), 120, NOW_MS)
    assert again.map_end_offset == 120
    assert again.check(7, 3, 20, 20) is None
    assert again.check(7, 3, 10, 19) is not None
    assert _code(again, 3, 21, 21) == 45
