"""The checkers find the violations that they are for, and accept legal results."""

from __future__ import annotations

import pytest

from moldau.shell.io.simulated.memory_disk import MemoryDisk
from moldau.simulation.checkers.epoch_ledger import EpochLedger
from moldau.simulation.checkers.group_ledger import NOTHING, CommittedOffset, GroupLedger
from moldau.simulation.checkers.ledger import PartitionLedger, SentTimes, TopicRules, Value
from moldau.simulation.checkers.survivors import log_end_on_disk
from moldau.simulation.violation import ViolationError
from moldau.types import Uuid
from moldau.wire.records.builder import build_batch


def ledger(*, may_expire=False, now_ms=0, **rules):
    if may_expire:
        rules["retention_ms"] = 0
    return PartitionLedger("t", Uuid(bytes(16)), 0, TopicRules(**rules), SentTimes(lambda: now_ms))


def values(*numbers):
    return [Value("p", number, True) for number in numbers]


def broken(rule):
    return pytest.raises(ViolationError, match=rule)


def test_a_value_says_who_wrote_it():
    value = Value("idem-1", 17, True)
    assert Value.decode(value.encode(padding=100)) == value


def test_an_offset_keeps_its_value():
    known = ledger()
    known.acknowledged(5, values(1, 2))
    known.read(6, Value("p", 2, True))
    with broken("an offset keeps its value"):
        known.read(6, Value("p", 3, True))


def test_a_value_that_was_written_once_lies_at_one_offset():
    known = ledger()
    known.acknowledged(0, values(1))
    with broken("no duplicates"):
        known.read(1, Value("p", 1, True))


def test_what_the_leader_alone_acknowledged_may_be_gone_but_lies_nowhere_else():
    known = ledger()
    known.claimed(5, values(1, 2))
    known.acknowledged(5, values(3))
    known.check_whole({5: Value("p", 3, True)}, 6)
    with broken("a record lies where it was acknowledged"):
        known.read(7, Value("p", 2, True))


def test_an_unclean_election_takes_all_promises_back():
    known = ledger()
    known.acknowledged(0, values(1, 2))
    known.allow_loss()
    known.read(0, Value("p", 9, True))
    known.check_whole({}, 0)
    assert known.legal_losses == 1


def test_a_crash_of_the_process_takes_nothing():
    known = ledger()
    known.acknowledged(0, values(1, 2, 3))
    assert known.survived(3, is_power_lost=False) == 0
    with broken("acknowledged records survive"):
        known.survived(2, is_power_lost=False)


def test_a_crash_of_the_machine_takes_only_what_was_not_flushed():
    cached, flushed = ledger(), ledger(is_flushed=True)
    for known in (cached, flushed):
        known.acknowledged(0, values(1, 2, 3))
    assert cached.survived(1, is_power_lost=True) == 2
    assert cached.end == 1
    # the offsets are free again, and so are the values: a producer may send them again
    cached.acknowledged(1, values(2))
    with broken("acknowledged records survive"):
        flushed.survived(2, is_power_lost=True)


def test_a_whole_read_shows_what_is_missing_and_what_is_out_of_order():
    known = ledger()
    known.acknowledged(0, values(1, 2))
    known.check_whole({0: Value("p", 1, True), 1: Value("p", 2, True)}, 2)
    with broken("acknowledged records are readable"):
        known.check_whole({0: Value("p", 1, True)}, 1)
    with broken("a producer's order is kept"):
        ledger().check_whole({0: Value("p", 2, True), 1: Value("p", 1, True)}, 2)


def test_compaction_takes_only_what_a_later_record_of_the_key_allows():
    known = ledger(is_compacted=True)
    # the same key: 1, 8, 15
    known.acknowledged(0, values(1, 8, 15))
    known.check_whole({2: Value("p", 15, True)}, 3)
    with broken("acknowledged records are readable"):
        known.check_whole({1: Value("p", 8, True)}, 3)


@pytest.mark.parametrize("now_ms", [499, 500])
def test_a_tombstone_stays_for_its_retention_and_what_it_deleted_stays_away(now_ms):
    known = ledger(is_compacted=True, delete_retention_ms=500, now_ms=now_ms)
    # 4 and the tombstone 11 have the same key
    known.acknowledged(0, values(4, 11))
    known.sent.sent(Value("p", 11, True), 0, 0)
    assert known.check_whole({1: Value("p", 11, True)}, 2) == []
    if now_ms < 500:
        with broken("acknowledged records are readable"):
            known.check_whole({}, 2)
    else:
        assert known.check_whole({}, 2) == []
        assert known.check_whole({0: Value("p", 4, True)}, 2) == [0]


@pytest.mark.parametrize("now_ms", [599, 600])
def test_a_tombstone_that_got_no_answer_may_have_deleted_what_was_known(now_ms):
    known = ledger(is_compacted=True, delete_retention_ms=500, now_ms=now_ms)
    known.acknowledged(0, values(4))
    known.sent.sent(Value("p", 4, True), 50, 50)
    known.sent.sent(Value("p", 18, True), 100, 100)  # the same key, and no tombstone
    with broken("acknowledged records are readable"):
        known.check_whole({}, 2)
    known.sent.sent(Value("p", 11, True), 100, 100)
    if now_ms < 600:
        with broken("acknowledged records are readable"):
            known.check_whole({}, 2)
    else:
        assert known.check_whole({}, 2) == []


def test_a_reader_of_a_compacted_log_may_miss_only_what_a_later_record_supersedes():
    known = ledger(is_compacted=True)
    # the same key: 1, 8; another: 9
    known.acknowledged(0, values(1, 8, 9))
    seen = {1: Value("p", 8, True), 2: Value("p", 9, True)}
    known.skipped(0, 1)
    known.check_whole(seen, 3)
    known.skipped(1, 2)
    with broken("readers get the last record of each key"):
        known.check_whole(seen, 3)


def test_what_a_reader_missed_may_be_superseded_by_a_record_that_nobody_knew_yet():
    known = ledger(is_compacted=True)
    known.acknowledged(0, values(1))
    known.skipped(0, 1)
    known.check_whole({4: Value("q", 8, True)}, 5)


def test_retention_removes_no_younger_record_unless_a_client_deleted_it():
    for now_ms, is_early in ((2_099, True), (2_100, False)):
        expiring = ledger(retention_ms=2_000, now_ms=now_ms)
        expiring.acknowledged(0, values(1, 2))
        expiring.sent.sent(Value("p", 1, True), 100, 100)
        if is_early:
            with broken("nothing is deleted early"):
                expiring.log_start_seen(1)
            expiring.asked_start_offset = 1
        expiring.log_start_seen(1)


def test_retention_by_bytes_leaves_as_many_as_it_should():
    bounded = ledger(retention_bytes=100)
    bounded.acknowledged(0, values(1, 2))
    bounded.bytes_left = lambda start: 100 if start == 1 else 99
    bounded.log_start_seen(1)
    with broken("nothing is deleted early"):
        bounded.log_start_seen(2)


def test_leader_epochs_never_fall():
    epochs = ledger().epochs
    epochs.read(0, 5, 1)
    epochs.read(5, 7, 3)
    with broken("leader epochs never fall"):
        epochs.read(7, 9, 2)
    epochs.named(3)
    with broken("leader epochs never fall"):
        epochs.named(2)
    with broken("a batch keeps its epoch"):
        epochs.read(5, 7, 4)


def test_in_a_compacted_log_an_epoch_may_end_where_the_next_one_left_its_first_batch():
    epochs = EpochLedger("compacted-0", may_have_gaps=True)
    epochs.read(0, 5, 1)
    epochs.read(8, 20, 3)
    epochs.ended(1, 1, 17, epochs.least_end(1), 0)
    for end_offset in (4, 21):
        with broken("leader epochs end where they end"):
            epochs.ended(1, 1, end_offset, epochs.least_end(1), 0)


def test_an_epoch_ends_behind_its_last_batch_and_before_the_next():
    epochs = ledger().epochs
    epochs.read(0, 5, 1)
    epochs.read(8, 9, 3)
    for end_offset in (5, 8):
        epochs.ended(1, 1, end_offset, epochs.least_end(1), 0)
    for end_offset in (4, 9):
        with broken("leader epochs end where they end"):
            epochs.ended(1, 1, end_offset, epochs.least_end(1), 0)
    # the deletion ends at the log start
    epochs.ended(1, 1, 9, epochs.least_end(1), 9)
    with broken("leader epochs end where they end"):
        epochs.ended(3, -1, -1, epochs.least_end(3), 0)
    with broken("leader epochs end where they end"):
        epochs.ended(1, 3, 9, epochs.least_end(1), 0)


def test_a_crash_of_the_machine_takes_the_epochs_of_lost_batches_along():
    known = ledger()
    known.acknowledged(0, values(1, 2, 3))
    known.epochs.read(0, 1, 1)
    known.epochs.read(1, 3, 2)
    known.survived(1, is_power_lost=True)
    known.epochs.read(1, 3, 4)


def test_an_answer_to_an_older_question_may_show_an_older_start():
    expiring = ledger(may_expire=True)
    expiring.log_start_seen(2, asked_s=1.0, seen_s=2.0)
    expiring.log_start_seen(1, asked_s=1.5, seen_s=2.5)
    with broken("the log start never goes back"):
        expiring.log_start_seen(1, asked_s=2.1, seen_s=2.5)


def test_an_older_request_may_show_an_older_start_even_after_a_crash():
    expiring = ledger(may_expire=True)
    expiring.log_start_seen(2, asked_s=1.0, seen_s=2.0)
    expiring.survived(5, is_power_lost=True)
    expiring.log_start_seen(2, asked_s=4.0, seen_s=5.0)
    expiring.log_start_seen(1, asked_s=3.0, seen_s=5.5)
    with broken("the log start never goes back"):
        expiring.log_start_seen(1, asked_s=5.1, seen_s=5.5)


@pytest.mark.parametrize("is_power_lost", [False, True])
def test_a_crash_may_bring_a_start_back_but_not_behind_what_was_acknowledged(is_power_lost):
    expiring = ledger(may_expire=True)
    expiring.log_start_seen(3)
    expiring.durable_start_offset = 2
    expiring.survived(5, is_power_lost=is_power_lost)
    expiring.log_start_seen(2)
    with broken("the log start never goes back"):
        expiring.log_start_seen(1)
    expiring.log_start_seen(4)
    expiring.survived(5, is_power_lost=is_power_lost)
    with broken("the log start never goes back"):
        expiring.log_start_seen(1)


def test_only_retention_moves_the_start():
    expiring = ledger(may_expire=True)
    expiring.acknowledged(0, values(1, 2))
    expiring.log_start_seen(1)
    assert list(expiring.values) == [1]
    with broken("nothing is deleted early"):
        ledger().log_start_seen(1)


def test_committed_offsets_never_go_back():
    committed = CommittedOffset("g t-0", is_flushed=True)
    committed.read(NOTHING)
    committed.acknowledged(*committed.begin(5))
    committed.read(5)
    with broken("committed offsets never go back"):
        committed.read(NOTHING)


def test_a_commit_without_an_answer_may_show_until_a_later_one_is_acknowledged():
    committed = CommittedOffset("g t-0", is_flushed=True)
    unanswered, _ = committed.begin(5)
    unanswered.is_over = True
    committed.read(NOTHING)
    committed.read(5)
    committed.acknowledged(*committed.begin(7))
    with broken("committed offsets never go back"):
        committed.read(5)


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_crash_of_the_machine_may_bring_an_older_commit_back_unless_it_was_flushed(is_flushed):
    committed = CommittedOffset("g t-0", is_flushed=is_flushed)
    committed.acknowledged(*committed.begin(5))
    committed.acknowledged(*committed.begin(7))
    committed.power_lost()
    if is_flushed:
        with broken("committed offsets never go back"):
            committed.read(5)
    else:
        committed.read(5)


def test_a_partition_has_one_owner_in_a_generation():
    group = GroupLedger("g", is_flushed=True)
    group.planned(1, {"a": (0,), "b": (1,)})
    known = group.asked_to_join()
    group.assigned(1, "t", "a", (0,), known=known, is_planned=True)
    with broken("members get what the leader gave them"):
        group.assigned(1, "t", "b", (0,), known=known, is_planned=True)
    with broken("one owner per partition and generation"):
        group.assigned(1, "t", "b", (0,), known=known, is_planned=False)


def group_with_a_committed_offset():
    group = GroupLedger("g", is_flushed=True)
    offset = group.offset("t", 0)
    offset.acknowledged(*offset.begin(5))
    return group


def test_answers_of_two_generations_may_arrive_in_the_other_order():
    group = group_with_a_committed_offset()
    known = group.asked_to_join()
    group.assigned(2, "t", "a", (0,), known=known, is_planned=False)
    group.assigned(1, "t", "b", (0,), known=known, is_planned=False)
    with broken("generations never go back"):
        group.assigned(1, "t", "c", (1,), known=group.asked_to_join(), is_planned=False)


def test_a_group_that_may_have_ended_begins_with_its_first_generation_again():
    group = GroupLedger("g", is_flushed=True)
    group.assigned(5, "t", "a", (0,), known=group.asked_to_join(), is_planned=False)
    first, second = group.asked_to_join(), group.asked_to_join()
    group.assigned(1, "t", "b", (0,), known=first, is_planned=False)
    group.assigned(1, "t", "c", (1,), known=second, is_planned=False)
    group.assigned(1, "t", "d", (2,), known=group.asked_to_join(), is_planned=False)
    with broken("one owner per partition and generation"):
        group.assigned(1, "t", "e", (0,), known=group.asked_to_join(), is_planned=False)


def batch(base_offset, count=2):
    records = [(None, b"value", 1_800_000_000_000, ())] * count
    return build_batch(records, base_offset=base_offset, leader_epoch=0)


@pytest.mark.parametrize("cut", [0, 1, 60, 61, 70])
def test_what_survives_ends_at_the_first_byte_that_is_no_batch(cut):
    disk = MemoryDisk()
    disk.make_directory("t-0")
    disk.open("t-0/00000000000000000000.log").append(batch(0) + batch(2))
    disk.open("t-0/00000000000000000004.log").append(batch(4) + batch(6)[:cut])
    assert log_end_on_disk(disk, "t-0") == 6
    assert log_end_on_disk(disk, "t-1") == 0


def test_a_hole_in_an_earlier_segment_ends_the_log_there():
    disk = MemoryDisk()
    disk.make_directory("t-0")
    torn = bytearray(batch(0) + batch(2))
    torn[-1] ^= 1
    disk.open("t-0/00000000000000000000.log").append(torn)
    disk.open("t-0/00000000000000000004.log").append(batch(4))
    assert log_end_on_disk(disk, "t-0") == 2
