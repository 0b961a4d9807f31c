"""A follower of the quorum: it fetches from its flushed offset, truncates where logs diverge, and loads snapshots."""

from __future__ import annotations

from moldau.core.raft.follower import LOST_LEADER_STEP_MS, LOST_LEADER_TIMEOUT_MS
from moldau.core.raft.messages import FetchSnapshot, FetchSnapshotAnswer, SnapshotId
from moldau.core.raft.steps import (
    Answered,
    Append,
    Appended,
    Ask,
    ConnectionLost,
    Flush,
    Flushed,
    HighWatermarkMoved,
    LoadSnapshot,
    QuorumState,
    SaveSnapshotPart,
    SnapshotLoaded,
    SnapshotRefused,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.core.raft.voters import ReplicaKey
from moldau.types import BrokerId, Offset
from tests.unit.core.raft.voters_of_three import NODE, SETTINGS, THIRD, asked, fetched, follower, voter


def test_nothing_is_fetched_before_everything_here_is_on_the_disk() -> None:
    quorum = voter(QuorumState(2, 5, voter_ids=(1, 2, 3)))
    assert quorum.begin(0) == (Flush(),)
    [ask] = quorum.step(Flushed(20), 0)
    assert isinstance(ask, Ask)


def test_what_comes_is_appended_and_flushed_before_the_next_fetch_says_so() -> None:
    quorum, request = follower()
    assert quorum.step(fetched(request, 18, records=b"batches"), 0) == (Append(b"batches"),)
    assert quorum.step(Appended(25, 5), 0) == (Flush(),)
    moved, ask = quorum.step(Flushed(25), 0)
    assert moved == HighWatermarkMoved(Offset(18))
    assert isinstance(ask, Ask)
    assert (ask.node_id, ask.request.offset, ask.request.last_fetched_epoch) == (2, 25, 5)  # type: ignore[union-attr]


def test_a_follower_cuts_where_the_logs_part() -> None:
    quorum, request = follower(end_offset_for_epoch=lambda epoch: (2, 12))
    assert quorum.step(fetched(request, diverging=(2, 15)), 0) == (TruncateTo(Offset(12)),)
    [ask] = quorum.step(Truncated(12, 2), 0)
    assert isinstance(ask, Ask)
    assert (quorum.log.log_end_offset, quorum.log.latest_epoch) == (12, 2)


def test_an_answer_to_another_fetch_is_no_news() -> None:
    quorum, request = follower()
    quorum.step(fetched(request, 18, records=b"batches"), 0)
    assert quorum.step(fetched(request, 18, records=b"batches"), 0) == ()


def test_a_late_append_of_a_former_leader_is_flushed_and_fetching_continues_after_it() -> None:
    quorum, request = follower()
    assert quorum.step(Appended(22, 3), 0) == (Flush(),)
    assert quorum.step(fetched(request, 18, records=b"batches"), 0) == ()
    assert [ask.offset for _, ask in asked(quorum.step(Flushed(22), 0))] == [22]  # type: ignore[attr-defined]


def test_a_leader_that_does_not_answer_is_asked_again_and_given_up_in_the_end() -> None:
    quorum, request = follower()
    assert quorum.step(Answered(2, request, None), 100) == ()
    assert quorum.next_deadline_ms() == 100 + SETTINGS.retry_backoff_ms
    assert asked(quorum.step(Tick(), 100 + SETTINGS.retry_backoff_ms)) == [(2, request)]
    assert [node_id for node_id, _ in asked(quorum.step(Tick(), SETTINGS.fetch_timeout_ms))] == [2, 3]


def test_a_leader_that_ended_its_connection_is_given_up_soon_unless_it_answers() -> None:
    quorum, _ = follower()
    assert quorum.step(ConnectionLost(3), 100) == ()
    assert quorum.next_deadline_ms() == SETTINGS.fetch_timeout_ms  # it is not the leader
    assert quorum.step(ConnectionLost(2), 100) == ()
    assert quorum.next_deadline_ms() == 100 + LOST_LEADER_TIMEOUT_MS
    assert [node_id for node_id, _ in asked(quorum.step(Tick(), 100 + LOST_LEADER_TIMEOUT_MS))] == [2, 3]
    quorum, request = follower()
    quorum.step(ConnectionLost(2), 100)
    quorum.step(fetched(request, 18), 200)
    assert quorum.next_deadline_ms() == 200 + SETTINGS.fetch_timeout_ms


def test_voters_that_lose_their_leader_together_stand_one_after_the_other() -> None:
    deadlines = []
    for node in (NODE, THIRD, ReplicaKey(BrokerId(9))):  # the last one is not a voter
        quorum, _ = follower(node=node)
        quorum.step(ConnectionLost(2), 100)
        deadlines.append(quorum.next_deadline_ms())
    begin_ms = 100 + LOST_LEADER_TIMEOUT_MS
    assert deadlines == [begin_ms, begin_ms + LOST_LEADER_STEP_MS, begin_ms + 2 * LOST_LEADER_STEP_MS]


def test_an_append_that_found_no_room_is_tried_again_after_a_while() -> None:
    quorum, request = follower()
    quorum.step(fetched(request, 18, records=b"batches"), 100)
    assert quorum.step(Appended(20, 3), 100) == ()
    assert asked(quorum.step(Tick(), 100 + SETTINGS.retry_backoff_ms)) == [(2, request)]


def test_a_snapshot_is_fetched_in_parts_and_takes_the_place_of_the_log() -> None:
    quorum, request = follower()
    snapshot = SnapshotId(40, 4)
    part = FetchSnapshot(NODE, 5, snapshot, 0)
    assert quorum.step(fetched(request, 50, snapshot=snapshot), 0) == (Ask(2, part),)
    rest = FetchSnapshot(NODE, 5, snapshot, 3)
    answer = FetchSnapshotAnswer("", 2, 5, size=5, data=b"abc")
    assert quorum.step(Answered(2, part, answer), 0) == (SaveSnapshotPart(snapshot, 0, b"abc"), Ask(2, rest))
    answer = FetchSnapshotAnswer("", 2, 5, size=5, data=b"de")
    assert quorum.step(Answered(2, rest, answer), 0) == (SaveSnapshotPart(snapshot, 3, b"de"), LoadSnapshot(snapshot))
    moved, ask = quorum.step(SnapshotLoaded(snapshot, None), 0)
    assert moved == HighWatermarkMoved(Offset(40))
    assert isinstance(ask, Ask)
    assert (ask.request.offset, ask.request.last_fetched_epoch) == (40, 4)  # type: ignore[union-attr]


def test_an_unreadable_snapshot_commits_nothing_and_is_fetched_again_later() -> None:
    quorum, request = follower()
    snapshot = SnapshotId(40, 4)
    quorum.step(fetched(request, 50, snapshot=snapshot), 0)
    answer = FetchSnapshotAnswer("", 2, 5, size=3, data=b"abc")
    assert LoadSnapshot(snapshot) in quorum.step(Answered(2, FetchSnapshot(NODE, 5, snapshot, 0), answer), 100)
    assert quorum.step(SnapshotRefused(), 100) == ()
    assert quorum.next_deadline_ms() == 100 + SETTINGS.fetch_timeout_ms // 2  # the follower keeps its leader
    again = quorum.step(Tick(), 100 + SETTINGS.fetch_timeout_ms // 2)
    assert asked(again) == [(2, request)]
    assert quorum.step(fetched(request, 50, snapshot=snapshot), 1_200) == (Ask(2, FetchSnapshot(NODE, 5, snapshot, 0)),)


def test_a_follower_is_complete_only_after_its_leader_sent_a_high_watermark() -> None:
    quorum, request = follower()
    assert not quorum.has_all_committed
    [(_, again)] = asked(quorum.step(fetched(request, high_watermark=-1), 10))
    assert not quorum.has_all_committed
    quorum.step(fetched(again, high_watermark=20), 20)
    assert quorum.has_all_committed
