"""The follower's decisions: what it fetches, where it truncates, how far its consumers could read."""

from __future__ import annotations

from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.metadata.image import PartitionImage
from moldau.core.replication.follower import FULL_DISK_BACKOFFS
from moldau.core.replication.replica import Replica
from moldau.core.replication.steps import (
    Append,
    Copied,
    Event,
    FetchAnswered,
    FetchFailed,
    FetchFrom,
    FetchOutOfRange,
    Flushed,
    HighWatermarkMoved,
    LogPosition,
    MetadataChanged,
    Output,
    ReplicationSettings,
    SettingsChanged,
    StartAt,
    Tick,
    Truncated,
    TruncateTo,
)
from moldau.types import BrokerId, LeaderEpoch, Offset

PARTITION = PartitionImage((1, 2), (1, 2), BrokerId(2), LeaderEpoch(5), 10)


class Story:
    """A replica of broker 1; broker 2 leads in epoch 5."""

    def __init__(self, *entries: tuple[int, int], end: int = 0, high_watermark: int = 0, **settings: object) -> None:
        self.now_ms = 0
        self.epochs = LeaderEpochs(list(entries))
        position = LogPosition(end, self.epochs.latest_epoch, 0, high_watermark)
        self.replica = Replica(
            BrokerId(1),
            position,
            ReplicationSettings(**settings),  # type: ignore[arg-type]
            lambda epoch: self.epochs.end_offset_for(epoch, position.log_end_offset),
        )
        self.first = self.step(MetadataChanged(PARTITION, {}))

    def step(self, event: Event) -> tuple[Output, ...]:
        return self.replica.step(event, self.now_ms)


def fetch(offset: int, last_epoch: int) -> FetchFrom:
    return FetchFrom(BrokerId(2), LeaderEpoch(5), Offset(offset), last_epoch)


def test_the_first_fetch_names_the_end_and_the_last_epoch_of_the_log() -> None:
    assert Story((1, 0), (3, 4), end=9).first == (fetch(9, 3),)
    assert Story().first == (fetch(0, -1),)


def test_what_was_fetched_is_appended_before_the_next_fetch() -> None:
    story = Story()
    assert story.step(FetchAnswered(5, 0, 3, b"batches")) == (Append(b"batches"),)
    assert story.step(Copied(10, 5)) == (HighWatermarkMoved(), fetch(10, 5))
    assert story.replica.high_watermark == 3


def test_the_high_watermark_is_at_most_the_log_end() -> None:
    story = Story()
    story.step(FetchAnswered(5, 0, 99, b"batches"))
    assert story.step(Copied(10, 5)) == (HighWatermarkMoved(), fetch(10, 5))
    assert story.replica.high_watermark == 10


def test_a_new_leader_that_knows_less_does_not_lower_the_high_watermark() -> None:
    story = Story((4, 0), end=10, high_watermark=8)
    assert story.step(FetchAnswered(5, 10, 6)) == (fetch(10, 4),)
    assert story.replica.high_watermark == 8


def test_with_flush_messages_1_the_next_fetch_waits_for_the_disk() -> None:
    story = Story(waits_for_flush=True)
    story.step(FetchAnswered(5, 0, 0, b"batches"))
    assert story.step(Copied(10, 5)) == ()
    assert story.step(Flushed(9)) == ()
    assert story.step(Flushed(10)) == (fetch(10, 5),)


def test_a_follower_that_need_not_flush_any_more_fetches_on() -> None:
    story = Story(waits_for_flush=True)
    story.step(FetchAnswered(5, 0, 0, b"batches"))
    assert story.step(Copied(10, 5)) == ()
    assert story.step(SettingsChanged(ReplicationSettings())) == (fetch(10, 5),)


def test_the_log_is_cut_where_it_parts_and_not_at_the_high_watermark() -> None:
    story = Story((4, 0), end=10, high_watermark=3)
    assert story.step(FetchAnswered(5, 10, 3, b"", (4, 8))) == (TruncateTo(Offset(8)),)
    story.epochs.truncate_from_end(8)
    assert story.step(Truncated(8, 4)) == (fetch(8, 4),)
    assert story.replica.high_watermark == 3


def test_an_epoch_that_wrote_nothing_is_cut_off_too() -> None:
    story = Story((3, 0), (4, 10), end=10)
    assert story.first == (fetch(10, 4),)
    assert story.step(FetchAnswered(5, 10, 0, b"", (3, 12))) == (TruncateTo(Offset(10)),)
    assert story.step(Truncated(10, 3)) == (fetch(10, 3),)


def test_after_an_unclean_election_the_high_watermark_goes_back_with_the_log() -> None:
    story = Story((4, 0), end=10, high_watermark=9)
    story.step(FetchAnswered(5, 10, 3, b"", (4, 6)))
    assert story.step(Truncated(6, 4)) == (HighWatermarkMoved(), fetch(6, 4))
    assert story.replica.high_watermark == 6


def test_an_answer_to_an_old_fetch_is_dropped() -> None:
    story = Story((4, 0), end=10)
    assert story.step(FetchAnswered(4, 10, 3, b"batches")) == ()
    assert story.step(FetchAnswered(5, 7, 3, b"batches")) == ()
    assert story.step(FetchFailed(4)) == ()
    assert story.replica.next_deadline_ms() is None


def test_a_failed_fetch_is_tried_again_after_the_backoff() -> None:
    story = Story(replica_fetch_backoff_ms=200)
    assert story.step(FetchFailed(5)) == ()
    assert story.replica.next_deadline_ms() == 200
    story.now_ms = 199
    assert story.step(Tick()) == ()
    story.now_ms = 200
    assert story.step(Tick()) == (fetch(0, -1),)


def test_a_follower_without_room_fetches_more_seldom() -> None:
    story = Story(replica_fetch_backoff_ms=200)
    assert story.step(FetchFailed(5, is_disk_full=True)) == ()
    assert story.replica.next_deadline_ms() == 200 * FULL_DISK_BACKOFFS


def test_a_follower_that_becomes_leader_begins_at_its_high_watermark() -> None:
    story = Story((4, 0), end=10, high_watermark=7)
    leading = PartitionImage((1, 2), (1, 2), BrokerId(1), LeaderEpoch(6), 11)
    story.step(MetadataChanged(leading, {1: 1, 2: 2}))
    assert story.replica.high_watermark == 7
    assert story.replica.leader.epoch_start_offset == 10


def test_without_a_leader_nothing_is_fetched() -> None:
    story = Story()
    leaderless = PartitionImage((1, 2), (), BrokerId(-1), LeaderEpoch(6), 11)
    assert story.step(MetadataChanged(leaderless, {})) == ()
    assert story.step(FetchAnswered(5, 0, 3, b"batches")) == ()
    assert story.replica.next_deadline_ms() is None


def test_a_log_that_ends_before_the_leaders_begins_starts_anew_there() -> None:
    story = Story((4, 0), end=10, high_watermark=8)
    assert story.step(FetchOutOfRange(5, 10, 20, 30)) == (StartAt(Offset(20)),)
    assert story.step(FetchAnswered(5, 10, 99, b"late")) == ()
    story.epochs.clear()
    assert story.step(Truncated(20, -1)) == (HighWatermarkMoved(), fetch(20, -1))
    assert story.replica.high_watermark == 20


def test_a_log_that_ends_behind_the_leaders_is_cut_to_its_end() -> None:
    story = Story((4, 0), end=10, high_watermark=5)
    assert story.step(FetchOutOfRange(5, 10, 0, 6)) == (TruncateTo(Offset(6)),)
    assert story.step(Truncated(6, 4)) == (fetch(6, 4),)


def test_an_offset_that_is_in_range_by_now_is_fetched_after_the_backoff() -> None:
    story = Story((4, 0), end=10)
    assert story.step(FetchOutOfRange(5, 10, 0, 12)) == ()
    assert story.replica.next_deadline_ms() == 1_000
    story.now_ms = 1_000
    assert story.step(Tick()) == (fetch(10, 4),)
