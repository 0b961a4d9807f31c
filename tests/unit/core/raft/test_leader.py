"""The leader of an epoch: committed records, waiting fetches, its resignation."""

from __future__ import annotations

import msgspec

from moldau.core.raft.messages import BeginQuorumEpoch, EndQuorumEpoch, FetchAnswer
from moldau.core.raft.steps import (
    Answer,
    AnswerRecords,
    Appended,
    Asked,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LeadershipEnded,
    Resign,
    Tick,
)
from moldau.core.raft.voters import VoterHistory, configured_voters
from moldau.types import LeaderEpoch, Offset
from tests.unit.core.raft.voters_of_three import NODE, SECOND, SETTINGS, THIRD, asked, fetch, leader


def test_what_a_majority_has_on_the_disk_is_committed() -> None:
    quorum = leader()
    assert quorum.high_watermark == 0
    moved, answer = quorum.step(Asked(1, fetch(SECOND, 21)), 5_010)
    assert moved == HighWatermarkMoved(Offset(21))
    assert answer == AnswerRecords(1, FetchAnswer("", 1, 4, 21), Offset(21))  # the follower learns it at once
    quorum.step(Appended(23, 4), 5_020)
    quorum.step(Asked(2, fetch(SECOND, 23)), 5_030)
    assert quorum.high_watermark == 21  # here it is not flushed yet
    assert HighWatermarkMoved(Offset(23)) in quorum.step(Flushed(23), 5_040)


def test_a_record_of_an_earlier_epoch_is_committed_only_with_one_of_this_epoch() -> None:
    quorum = leader()
    assert quorum.step(Asked(1, fetch(SECOND, 20, last_epoch=3, max_wait_ms=0)), 5_010) == (
        AnswerRecords(1, FetchAnswer("", 1, 4), Offset(20)),
    )
    assert quorum.high_watermark == 0


def test_a_leader_tells_no_high_watermark_before_something_of_its_epoch_is_committed() -> None:
    """A follower may know a higher one than the new leader: Apache Kafka's process ends if a high watermark goes
    back."""
    quorum = leader()
    quorum.log.advance(15)
    knows_more = msgspec.structs.replace(fetch(SECOND, 20, last_epoch=3), high_watermark=18)
    [answer] = quorum.step(Asked(1, knows_more), 5_010)
    assert answer == AnswerRecords(1, FetchAnswer("", 1, 4, high_watermark=-1), Offset(20))
    assert quorum.step(Asked(2, fetch(THIRD, 21)), 5_020)[-1] == AnswerRecords(2, FetchAnswer("", 1, 4, 21), Offset(21))


def test_a_fetch_waits_while_a_new_leader_may_not_reveal_its_high_watermark() -> None:
    quorum = leader()
    quorum.log.advance(15)
    quorum.log.voters = VoterHistory(configured_voters((1, 2, 3, 4, 5)))
    assert quorum.step(Asked(1, fetch(SECOND, 21)), 5_010) == ()


def test_a_fetch_that_finds_nothing_waits_for_an_append_or_the_end_of_its_time() -> None:
    quorum = leader()
    assert quorum.step(Asked(1, fetch(THIRD, 21)), 5_000)[0] == HighWatermarkMoved(Offset(21))
    waiting = fetch(THIRD, 21)
    known = type(waiting)(waiting.replica, 4, 21, 4, 21, 500)
    assert quorum.step(Asked(2, known), 5_010) == ()
    answer, flush = quorum.step(Appended(22, 4), 5_020)
    assert (answer, flush) == (AnswerRecords(2, FetchAnswer("", 1, 4, 21), Offset(21)), Flush())
    at_end = type(waiting)(waiting.replica, 4, 22, 4, 21, 500)
    assert quorum.step(Asked(3, at_end), 5_030) == ()
    assert AnswerRecords(3, FetchAnswer("", 1, 4, 21), Offset(22)) in quorum.step(Tick(), 5_530)


def test_a_second_fetch_of_a_replica_ends_the_wait_of_the_first() -> None:
    quorum = leader()
    quorum.step(Asked(1, fetch(SECOND, 21)), 5_000)
    known = type(fetch(SECOND, 21))(SECOND, 4, 21, 4, 21, 500)
    quorum.step(Asked(2, known), 5_010)
    assert quorum.step(Asked(3, known), 5_020) == (AnswerRecords(2, FetchAnswer("", 1, 4, 21), Offset(21)),)


def test_logs_that_part_are_told_where() -> None:
    quorum = leader()
    quorum.log.end_offset_for_epoch = lambda epoch: (2, 15)
    [answer] = quorum.step(Asked(1, fetch(SECOND, 18, last_epoch=3)), 5_000)
    assert answer == Answer(1, FetchAnswer("", 1, 4, diverging=(2, 15)))
    quorum.log.end_offset_for_epoch = lambda epoch: (-1, -1)
    [answer] = quorum.step(Asked(2, fetch(SECOND, 18, last_epoch=-1)), 5_000)
    assert answer == Answer(2, FetchAnswer("OFFSET_OUT_OF_RANGE", 1, 4))


def test_a_fetch_of_another_epoch_is_refused_and_told_the_leader() -> None:
    quorum = leader()
    for epoch, error in ((3, "FENCED_LEADER_EPOCH"), (5, "UNKNOWN_LEADER_EPOCH")):
        [answer] = quorum.step(Asked(1, fetch(SECOND, 21, epoch=epoch)), 5_000)
        assert answer == Answer(1, FetchAnswer(error, 1, 4))


def test_a_new_leader_tells_the_voters_and_again_those_that_do_not_fetch() -> None:
    quorum = leader()
    announcement = BeginQuorumEpoch(1, 4)
    assert asked(quorum.step(Tick(), 5_000)) == [(2, announcement), (3, announcement)]
    quorum.step(Asked(1, fetch(SECOND, 21, max_wait_ms=0)), 5_900)
    assert asked(quorum.step(Tick(), 5_999)) == []
    assert asked(quorum.step(Tick(), 6_000)) == [(3, announcement)]


def test_a_leader_whom_no_majority_asks_resigns() -> None:
    quorum = leader()
    quorum.step(Asked(1, fetch(SECOND, 21, max_wait_ms=0)), 7_000)
    last_ms = 7_000 + SETTINGS.fetch_timeout_ms * 3 // 2
    quorum.step(Tick(), last_ms - 1)
    assert quorum.is_leader
    outputs = quorum.step(Tick(), last_ms)
    assert LeadershipEnded(LeaderEpoch(4)) in outputs
    assert (2, EndQuorumEpoch(1, 4, (SECOND, THIRD))) in asked(outputs)
    assert not quorum.is_leader


def test_a_clean_stop_names_those_with_most_of_the_log_first_and_answers_who_waits() -> None:
    quorum = leader()
    quorum.step(Asked(1, fetch(THIRD, 21)), 5_000)
    quorum.step(Asked(2, type(fetch(THIRD, 21))(THIRD, 4, 21, 4, 21, 500)), 5_000)
    outputs = quorum.step(Resign(), 5_100)
    assert outputs[0] == LeadershipEnded(LeaderEpoch(4))
    assert Answer(2, FetchAnswer("NOT_LEADER_OR_FOLLOWER")) in outputs
    assert asked(outputs) == [(2, EndQuorumEpoch(1, 4, (THIRD, SECOND))), (3, EndQuorumEpoch(1, 4, (THIRD, SECOND)))]
    assert quorum.step(Asked(3, fetch(NODE, 21)), 5_200) == ()
    assert quorum.next_deadline_ms() is None
