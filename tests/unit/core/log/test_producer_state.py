"""Responses to an idempotent producer; Apache Kafka's are in the head of producer_state."""

from __future__ import annotations

import pytest

from moldau.core.log.producer_state import EXPIRY_SLICE, ProducerState
from moldau.errors import KafkaError

NOW_MS = 1_800_000_000_000
LAST = 0x7FFFFFFF


def _producers(*batches: tuple[int, int], producer_id: int = 7, epoch: int = 3) -> ProducerState:
    """The state after (first sequence, count) batches in sequence from offset 100 on."""
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
    producers.end_transaction(7, 3, 5, NOW_MS, NOW_MS, 9)
    assert producers.first_unstable_offset == 110
    assert producers.check(7, 3, 10, 10) is None
    producers.end_transaction(8, 1, 5, NOW_MS, NOW_MS, 9)
    assert producers.first_unstable_offset == -1
    assert producers.check(8, 1, 0, 0) is None


def _open(producers: ProducerState, producer_id: int, epoch: int, first_offset: int) -> None:
    producers.update(producer_id, epoch, 0, first_offset + 9, 9, NOW_MS, NOW_MS, is_transactional=True)


def test_a_transaction_is_open_with_its_own_epoch_from_its_first_batch_to_its_marker() -> None:
    producers = _producers((0, 10))
    assert not producers.has_open_transaction(7, 3)
    _open(producers, 7, 3, 110)
    assert producers.has_open_transaction(7, 3)
    assert not producers.has_open_transaction(7, 4)
    assert not producers.has_open_transaction(8, 3)
    producers.end_transaction(7, 4, 0, NOW_MS, NOW_MS, 9)
    assert not producers.has_open_transaction(7, 3)
    assert not producers.has_open_transaction(7, 4)


def test_the_batches_of_a_coordinator_are_fenced_by_their_epoch_alone() -> None:
    producers = _producers((0, 10))
    producers.check_epoch(7, 3)
    producers.check_epoch(7, 9)
    producers.check_epoch(8, 0)
    with pytest.raises(KafkaError) as refused:
        producers.check_epoch(7, 2)
    assert refused.value.code == 47


def _refused(producers: ProducerState, epoch: int, base_sequence: int) -> int:
    with pytest.raises(KafkaError) as refused:
        producers.check_transactional(7, epoch, base_sequence)
    return refused.value.code


def test_a_transaction_begins_only_where_its_coordinator_has_verified_it() -> None:
    producers = ProducerState(100)
    assert _refused(producers, 3, 0) == 48
    verification = producers.begin_verification(7, 3, NOW_MS, joins=False)
    assert _refused(producers, 3, 0) == 48, "the answer of the coordinator has not come"
    producers.verified(7, 3, verification, "a")
    producers.check_transactional(7, 3, 0)
    assert _refused(producers, 4, 0) == 48
    assert producers.verified_id(7, 3) is None
    _open(producers, 7, 3, 100)
    producers.check_transactional(7, 3, 10)
    assert producers.verified_id(7, 3) == "a"
    assert producers.verified_id(7, 4) is None
    producers.end_transaction(7, 3, 0, NOW_MS, NOW_MS, 9)
    assert _refused(producers, 3, 10) == 48, "the next transaction is verified anew"


@pytest.mark.parametrize("is_open", [False, True])
def test_an_answer_that_a_marker_overtook_verifies_nothing(is_open: bool) -> None:
    """The partition was in the transaction when the coordinator answered; then that transaction ended."""
    producers = ProducerState(100)
    verification = producers.begin_verification(7, 3, NOW_MS, joins=False)
    if is_open:
        _open(producers, 7, 3, 100)
    producers.end_transaction(7, 3, 0, NOW_MS, NOW_MS, 9)
    again = producers.begin_verification(7, 3, NOW_MS, joins=False)
    producers.verified(7, 3, verification, "a")
    assert _refused(producers, 3, 0) == 48
    producers.verified(7, 3, again, "a")
    producers.check_transactional(7, 3, 0)


def test_an_open_transaction_is_of_one_transactional_id() -> None:
    """Also if a client with another id was the first to ask about the producer."""
    producers = ProducerState(100)
    foreign = producers.begin_verification(7, 3, NOW_MS, joins=False)
    own = producers.begin_verification(7, 3, NOW_MS, joins=False)
    assert own is foreign
    producers.verified(7, 3, own, "own")
    _open(producers, 7, 3, 100)
    assert producers.verified_id(7, 3) == "own"
    producers.end_transaction(7, 3, 0, NOW_MS, NOW_MS, 9)
    assert producers.verified_id(7, 3) is None


def test_a_transaction_that_was_open_at_the_start_is_verified_once() -> None:
    before, producers = ProducerState(100), ProducerState(100)
    _open(before, 7, 3, 100)
    producers.load(before.encode(), 110, NOW_MS)
    producers.check_transactional(7, 3, 10)
    assert producers.verified_id(7, 3) is None
    producers.verified(7, 3, producers.begin_verification(7, 3, NOW_MS, joins=False), "a")
    assert producers.verified_id(7, 3) == "a"


def test_a_batch_does_not_overtake_the_first_one_of_its_transaction() -> None:
    producers = ProducerState(100)
    for base_sequence in (5, 0, 7):
        verification = producers.begin_verification(7, 3, NOW_MS, joins=False)
        verification.expect(base_sequence)
        producers.verified(7, 3, verification, "a")
    assert _refused(producers, 3, 5) == 45
    producers.check_transactional(7, 3, 0)


def test_a_batch_that_the_coordinator_refused_is_not_waited_for() -> None:
    producers = ProducerState(100)
    refused = producers.begin_verification(7, 3, NOW_MS, joins=False)
    verification = producers.begin_verification(7, 3, NOW_MS, joins=False)
    assert verification is refused
    verification.expect(5)
    producers.verified(7, 3, verification, "a")
    producers.check_transactional(7, 3, 5)


def test_a_late_repeat_of_the_transaction_before_keeps_no_batch_of_this_one_back() -> None:
    """Also if the coordinator verified it, because the partition is in this transaction, too."""
    producers = _producers((0, 10))
    verification = producers.begin_verification(7, 3, NOW_MS, joins=False)
    verification.expect(0)
    verification.expect(10)
    producers.verified(7, 3, verification, "a")
    producers.check_transactional(7, 3, 10)


def test_a_transaction_with_an_epoch_of_its_own_begins_with_sequence_0() -> None:
    producers = ProducerState(100)
    for producer_id, joins in ((7, True), (8, False)):
        verification = producers.begin_verification(producer_id, 3, NOW_MS, joins=joins)
        verification.expect(5)
        producers.verified(producer_id, 3, verification, "a")
    assert _refused(producers, 3, 5) == 45
    producers.check_transactional(8, 3, 5)


def test_verifications_have_a_bound_and_expire() -> None:
    producers = ProducerState(3)
    verifications = [producers.begin_verification(7, epoch, NOW_MS + epoch, joins=True) for epoch in range(5)]
    for epoch, verification in enumerate(verifications):
        producers.verified(7, epoch, verification, "a")
    for epoch in (0, 1):
        assert _refused(producers, epoch, 0) == 48, "over the bound the oldest goes"
    producers.check_transactional(7, 2, 0)
    producers.expire(NOW_MS + 103, 100)
    assert [_refused(producers, epoch, 0) for epoch in (2, 3)] == [48, 48]
    producers.check_transactional(7, 4, 0)


def test_plain_batches_of_a_producer_wait_for_the_end_of_its_transaction() -> None:
    producers = _producers((0, 10))
    producers.check_not_transactional(7)
    _open(producers, 7, 3, 110)
    producers.check_not_transactional(8)
    with pytest.raises(KafkaError) as refused:
        producers.check_not_transactional(7)
    assert refused.value.code == 48


def _marker_code(producers: ProducerState, epoch: int, coordinator_epoch: int, version: int) -> int:
    with pytest.raises(KafkaError) as refused:
        producers.check_marker(7, epoch, coordinator_epoch, version)
    return refused.value.code


@pytest.mark.parametrize("version", [0, 1, 2])
def test_markers_of_an_earlier_epoch_or_coordinator_are_fenced(version: int) -> None:
    producers = ProducerState(100)
    producers.check_marker(7, 3, 5, version)
    _open(producers, 7, 3, 100)
    assert _marker_code(producers, 2, 5, version) == 47
    producers.check_marker(7, 4, 5, version)
    producers.end_transaction(7, 4, 5, NOW_MS, NOW_MS, 9)
    assert _marker_code(producers, 4, 4, version) == 52
    producers.check_marker(7, 4, 5, version)
    producers.check_marker(7, 4, 6, version)


def test_an_old_marker_ends_no_transaction_in_v2_but_may_in_v1() -> None:
    """KIP-890: in v2 each transaction has a higher epoch, and its marker one above that. In v1 a late marker is
    indistinguishable from that of the open transaction."""
    producers = ProducerState(100)
    producers.end_transaction(7, 4, 5, NOW_MS, NOW_MS, 9)
    producers.check_marker(7, 4, 5, 2)
    _open(producers, 7, 4, 100)
    assert _marker_code(producers, 4, 5, 2) == 47
    producers.check_marker(7, 5, 5, 2)
    producers.check_marker(7, 4, 5, 1)


def test_the_oldest_open_transaction_gives_the_first_unstable_offset() -> None:
    producers = ProducerState(100)
    for producer_id, first_offset in ((9, 100), (7, 110), (8, 120)):
        _open(producers, producer_id, 0, first_offset)
    producers.update(9, 0, 10, 139, 9, NOW_MS, NOW_MS, is_transactional=True)
    again = ProducerState(100)
    again.load(producers.encode(), 140, NOW_MS)
    for state in (producers, again):
        aborted = state.aborted_by_marker(7, 140)
        assert aborted is not None
        assert (aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (110, 140, 100)
        found = [state.first_unstable_offset]
        for producer_id in (7, 9, 8):
            state.end_transaction(producer_id, 0, 0, NOW_MS, NOW_MS, 9)
            found.append(state.first_unstable_offset)
        assert found == [100, 100, 120, -1]
        assert state.aborted_by_marker(7, 150) is None


def test_the_oldest_transaction_is_late_when_its_last_record_is_old() -> None:
    producers = ProducerState(100)
    assert not producers.has_late_transaction(NOW_MS, 0)
    _open(producers, 7, 3, 100)
    assert [producers.has_late_transaction(NOW_MS + age_ms, 50) for age_ms in (50, 51)] == [False, True]
    producers.update(8, 0, 0, 119, 9, NOW_MS + 51, NOW_MS + 51, is_transactional=True)
    assert producers.has_late_transaction(NOW_MS + 51, 50)
    producers.update(7, 3, 10, 129, 9, NOW_MS + 51, NOW_MS + 51, is_transactional=True)
    assert not producers.has_late_transaction(NOW_MS + 51, 50)
    producers.end_transaction(7, 3, 0, NOW_MS + 60, NOW_MS + 60, 9)
    assert producers.has_late_transaction(NOW_MS + 102, 50), "the next one is the oldest now"


def test_records_of_a_coordinator_have_no_sequence() -> None:
    """As in Apache Kafka's snapshot, which reads the directory next."""
    producers = ProducerState(100)
    producers.update(7, 3, -1, 104, 4, NOW_MS, NOW_MS, is_transactional=True)
    again = ProducerState(100)
    again.load(producers.encode(), 105, NOW_MS)
    for state in (producers, again):
        assert state.entries[7].last_sequence == -1
        assert state.entries[7].batches == [(-1, -1, 104, 4, NOW_MS)]
        assert state.has_open_transaction(7, 3)


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
    producers.end_transaction(1, 0, 0, NOW_MS, NOW_MS, 9)
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
        producers.end_transaction(1_996, 1, 7, NOW_MS + 1, NOW_MS, 9)
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


def test_a_transaction_is_decided_when_the_high_watermark_has_passed_its_marker() -> None:
    producers = ProducerState(100)
    producers.update(7, 0, 0, 5, 5, NOW_MS, NOW_MS, True)
    producers.update(8, 0, 0, 7, 1, NOW_MS, NOW_MS, True)
    producers.end_transaction(8, 0, 0, NOW_MS, NOW_MS, 8)
    producers.end_transaction(7, 0, 0, NOW_MS, NOW_MS, 9)
    assert producers.first_unstable_offset == -1
    assert [producers.first_undecided_offset(end) for end in (8, 9, 10)] == [0, 0, -1]
    producers.forget_ended(9)
    assert list(producers.ended) == [(0, 9)]
    producers.forget_ended(10)
    assert not producers.ended
