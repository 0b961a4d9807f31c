"""The leader's decisions: high watermark, in-sync replicas, acknowledgements."""

from __future__ import annotations

import msgspec
import pytest

from moldau.core.metadata.image import LOST_DIRECTORY, PartitionImage
from moldau.core.replication.replica import Replica
from moldau.core.replication.steps import (
    MOVED,
    Asking,
    Event,
    FetchedUpTo,
    FetchFrom,
    Flushed,
    IsrAnswered,
    LeadershipBegan,
    LeadershipEnded,
    LogPosition,
    MetadataChanged,
    Output,
    ProposeIsr,
    ReplicationSettings,
    SettingsChanged,
    Tick,
)
from moldau.errors import KafkaError
from moldau.types import BrokerId, LeaderEpoch, Offset, Uuid

EPOCHS = {1: 101, 2: 102, 3: 103}
PARTITION = PartitionImage((1, 2, 3), (1, 2, 3), BrokerId(1), LeaderEpoch(5), 10)


class Story:
    """A replica of broker 1 that begins with `end` records of epoch 4; `high_watermark` of them are committed."""

    def __init__(
        self, partition: PartitionImage = PARTITION, *, end: int = 0, high_watermark: int = 0, **settings: object
    ) -> None:
        self.now_ms = 0
        position = LogPosition(end, 4, 0, high_watermark)
        defaults = ReplicationSettings(min_insync_replicas=2, replica_lag_time_max_ms=1_000)
        chosen = msgspec.structs.replace(defaults, **settings)
        self.replica = Replica(BrokerId(1), position, chosen, lambda epoch: (epoch, position.log_end_offset))
        self.first = self.metadata(partition)

    def step(self, event: Event) -> tuple[Output, ...]:
        return self.replica.step(event, self.now_ms)

    def metadata(self, partition: PartitionImage, epochs: dict[int, int] = EPOCHS) -> tuple[Output, ...]:
        return self.step(MetadataChanged(partition, epochs))

    def append(self, end: int) -> tuple[Output, ...]:
        return self.replica.leader.appended(end)

    def fetched(self, replica: int, offset: int, broker_epoch: int | None = None) -> tuple[Output, ...]:
        return self.step(FetchedUpTo(replica, broker_epoch or EPOCHS[replica], 5, offset))

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark


def with_isr(*isr: int, partition_epoch: int = 10) -> PartitionImage:
    return msgspec.structs.replace(PARTITION, isr=isr, partition_epoch=partition_epoch)


def proposal(*isr: int, partition_epoch: int = 10) -> ProposeIsr:
    return ProposeIsr(LeaderEpoch(5), partition_epoch, tuple((replica, EPOCHS[replica]) for replica in isr))


def test_leadership_begins_with_its_epoch() -> None:
    assert Story(end=7).first == (LeadershipBegan(LeaderEpoch(5)),)


def test_the_high_watermark_is_the_smallest_log_end_of_the_in_sync_replicas() -> None:
    story = Story()
    story.append(10)
    assert story.fetched(2, 10) == ()
    assert (story.fetched(3, 4), story.high_watermark) == (MOVED, 4)
    assert (story.fetched(3, 10), story.high_watermark) == (MOVED, 10)


def test_a_follower_whose_disk_is_full_is_not_waited_for_once_it_is_not_in_sync() -> None:
    story = Story(end=10)
    for replica in (2, 3):
        story.fetched(replica, 10)
    story.append(12)
    story.fetched(2, 12)
    assert story.high_watermark == 10
    story.metadata(with_isr(1, 2, partition_epoch=11))
    assert story.high_watermark == 10  # it caught up a moment ago, and may join
    here = Uuid(b"\x07" * 16)
    lost = msgspec.structs.replace(with_isr(1, 2, partition_epoch=12), directories=(here, here, LOST_DIRECTORY))
    story.metadata(lost)
    assert story.high_watermark == 12


def test_the_high_watermark_never_goes_back() -> None:
    story = Story(with_isr(1, 2))
    story.append(10)
    story.fetched(2, 10)
    assert story.fetched(2, 3) == ()
    assert story.high_watermark == 10


def test_a_new_leader_waits_for_each_in_sync_replica() -> None:
    story = Story(with_isr(1, 2), end=10, high_watermark=6)
    assert story.high_watermark == 6
    assert (story.fetched(2, 10), story.high_watermark) == (MOVED, 10)


def test_the_only_in_sync_replica_has_everything_committed() -> None:
    assert Story(with_isr(1), end=10, min_insync_replicas=1).high_watermark == 10


def test_below_min_insync_replicas_the_high_watermark_stands_still() -> None:
    story = Story(with_isr(1), end=10, high_watermark=6)
    story.append(12)
    assert story.high_watermark == 6


def test_with_flush_messages_1_what_is_not_on_the_disk_does_not_count() -> None:
    story = Story(with_isr(1, 2), waits_for_flush=True)
    story.append(10)
    assert story.fetched(2, 10) == ()
    assert (story.step(Flushed(8)), story.high_watermark) == (MOVED, 8)


def test_the_only_replica_commits_what_it_appends_and_makes_nothing_for_it() -> None:
    story = Story(PartitionImage((1,), (1,), BrokerId(1), LeaderEpoch(5), 10))
    assert story.append(3) is MOVED
    assert story.high_watermark == 3


def test_settings_act_from_the_next_step_on() -> None:
    story = Story(PartitionImage((1,), (1,), BrokerId(1), LeaderEpoch(5), 10), waits_for_flush=True)
    story.append(3)
    assert story.high_watermark == 0
    settings = msgspec.structs.replace(story.replica.settings, waits_for_flush=False)
    assert (story.step(SettingsChanged(settings)), story.high_watermark) == (MOVED, 3)
    assert story.append(5) is MOVED
    story.step(SettingsChanged(msgspec.structs.replace(settings, waits_for_flush=True)))
    assert (story.append(8), story.high_watermark) == ((), 5)


def test_a_higher_min_insync_replicas_stops_the_high_watermark() -> None:
    story = Story(with_isr(1, 2), min_insync_replicas=1)
    story.step(SettingsChanged(msgspec.structs.replace(story.replica.settings, min_insync_replicas=3)))
    story.append(4)
    assert story.fetched(2, 4) == ()
    with pytest.raises(KafkaError) as error:
        story.replica.leader.check_append(-1)
    assert error.value.name == "NOT_ENOUGH_REPLICAS"


def test_a_follower_joins_at_the_high_watermark_and_the_start_of_the_epoch() -> None:
    story = Story(with_isr(1, 2), end=10, high_watermark=6)
    assert story.fetched(3, 9) == ()
    assert story.fetched(3, 10) == (proposal(1, 2, 3),)


def test_a_replica_that_is_being_added_holds_the_high_watermark_back() -> None:
    story = Story(with_isr(1, 2))
    story.append(10)
    story.fetched(2, 10)
    story.fetched(3, 10)
    story.append(20)
    assert story.fetched(2, 20) == ()
    assert story.step(IsrAnswered(10, with_isr(1, 2, 3, partition_epoch=11))) == ()
    assert (story.fetched(3, 20), story.high_watermark) == (MOVED, 20)


def test_a_restarted_follower_does_not_join_before_its_new_epoch_is_known() -> None:
    """KIP-903: the fetch comes from the new process while metadata still has the one before, or the other way round."""
    story = Story(with_isr(1, 2))
    assert story.fetched(3, 0, broker_epoch=200) == ()
    story.metadata(with_isr(1, 2), {**EPOCHS, 3: 200})
    assert story.fetched(3, 0, broker_epoch=200) == (ProposeIsr(LeaderEpoch(5), 10, ((1, 101), (2, 102), (3, 200))),)


def test_what_an_older_process_of_a_follower_fetched_counts_no_more() -> None:
    story = Story(with_isr(1, 2))
    story.fetched(2, 0, broker_epoch=200)
    story.append(10)
    assert story.fetched(2, 10, broker_epoch=102) == ()
    with pytest.raises(KafkaError) as error:
        story.replica.leader.check_fetch(2, 102, 5)
    assert error.value.name == "NOT_LEADER_OR_FOLLOWER"


def test_a_follower_that_names_no_broker_epoch_is_believed() -> None:
    """Fetch before version 15, as Apache Kafka 4.3 accepts it."""
    story = Story(with_isr(1, 2))
    story.fetched(3, 0, broker_epoch=103)
    story.append(10)
    story.fetched(2, 10)
    story.replica.leader.check_fetch(3, -1, 5)
    assert ProposeIsr(LeaderEpoch(5), 11, ((1, 101), (2, 102), (3, 103))) in (
        *story.metadata(with_isr(1, 2, partition_epoch=11)),
        *story.fetched(3, 10, broker_epoch=-1),
    )


def test_a_follower_that_has_not_fetched_joins_nothing() -> None:
    story = Story(with_isr(1, 2))
    story.append(10)
    assert (story.fetched(2, 10), story.high_watermark) == (MOVED, 10)


def test_a_follower_behind_for_too_long_leaves_once_the_controller_agrees() -> None:
    story = Story()
    story.append(10)
    story.now_ms = 900
    story.fetched(2, 10)
    story.now_ms = 1_400
    assert story.step(Tick()) == (proposal(1, 2),)
    assert story.high_watermark == 0, "the one that is being removed still counts"
    assert (story.step(IsrAnswered(10, with_isr(1, 2, partition_epoch=11))), story.high_watermark) == (MOVED, 10)


def test_a_follower_at_the_log_end_stays_however_long_it_is_silent() -> None:
    story = Story(with_isr(1, 2))
    story.append(10)
    story.fetched(2, 10)
    story.now_ms = 60_000
    assert story.step(Tick()) == ()


@pytest.mark.parametrize(("asked_ms", "isr"), [(4_900, (1, 2, 3)), (1_000, (1, 3))])
def test_a_follower_that_asks_for_the_same_again_and_again_has_caught_up_each_time(
    asked_ms: int, isr: tuple[int, ...]
) -> None:
    story, asking = Story(), Asking(0)
    story.step(FetchedUpTo(2, EPOCHS[2], 5, 0, asking=asking))
    story.now_ms, asking.asked_ms = 5_000, asked_ms
    story.append(10)
    story.fetched(3, 10)
    outputs = story.step(Tick())
    assert outputs == (() if isr == (1, 2, 3) else (proposal(*isr),))


def test_a_fetch_of_other_partitions_does_not_make_a_follower_caught_up() -> None:
    story, asking = Story(), Asking(0)
    story.step(FetchedUpTo(2, EPOCHS[2], 5, 0, asking=asking))
    story.append(10)
    story.now_ms = asking.asked_ms = 5_000
    story.fetched(3, 10)
    assert story.step(Tick()) == (proposal(1, 3),)


def test_followers_that_ask_all_the_time_are_looked_at_when_one_could_be_out_of_sync() -> None:
    story, asking = Story(), Asking(0)
    for replica in (2, 3):
        story.step(FetchedUpTo(replica, EPOCHS[replica], 5, 0, asking=asking))
    story.now_ms = 5_000
    asking.again(4_900)
    assert story.step(Tick()) == ()
    assert story.replica.next_deadline_ms() == 4_900 + 1_001


def test_a_follower_that_asks_no_more_is_out_of_sync_as_soon_as_ever() -> None:
    story, asking = Story(), Asking(0)
    story.step(FetchedUpTo(2, EPOCHS[2], 5, 0, asking=asking))
    story.fetched(3, 0)
    story.now_ms = asking.asked_ms = 5_000
    story.step(Tick())
    assert story.replica.next_deadline_ms() == 5_500
    story.append(1)
    story.now_ms = 5_500
    assert story.step(Tick()) == (proposal(1, 2),)


def test_a_proposal_without_an_answer_is_sent_again() -> None:
    story = Story(with_isr(1, 2))
    first = story.fetched(3, 0)
    story.step(IsrAnswered(10, None, "REQUEST_TIMED_OUT"))
    deadline_ms = story.replica.next_deadline_ms()
    assert deadline_ms is not None
    story.now_ms = deadline_ms
    assert story.step(Tick()) == first


def test_a_refused_proposal_may_be_made_again() -> None:
    story = Story(with_isr(1, 2))
    first = story.fetched(3, 0)
    story.step(IsrAnswered(10, None, "INELIGIBLE_REPLICA"))
    assert story.fetched(3, 0) == first


def test_a_refused_proposal_that_was_sent_twice_still_counts() -> None:
    """The other request may be on its way, and the controller may accept it."""
    story = Story(with_isr(1, 2))
    story.fetched(3, 0)
    story.now_ms = 1_000
    story.step(Tick())
    story.step(IsrAnswered(10, None, "INELIGIBLE_REPLICA"))
    story.append(10)
    assert story.fetched(2, 10) == ()
    assert story.replica.leader.maximal_isr == (1, 2, 3)


def test_a_proposal_for_an_old_partition_epoch_waits_for_the_metadata() -> None:
    story = Story(with_isr(1, 2))
    story.append(10)
    story.fetched(3, 10)
    story.step(IsrAnswered(10, None, "INVALID_UPDATE_VERSION"))
    assert story.replica.next_deadline_ms() is None
    assert (story.fetched(2, 10), story.high_watermark) == (MOVED, 10)
    story.append(20)
    assert story.fetched(2, 20) == ()
    assert (story.metadata(with_isr(1, 2, partition_epoch=12), {1: 101, 2: 102}), story.high_watermark) == (MOVED, 20)


def test_acks_all_needs_enough_in_sync_replicas_before_and_after_the_append() -> None:
    story = Story(with_isr(1, 2))
    leader = story.replica.leader
    leader.check_append(-1)
    story.append(10)
    assert not story.replica.is_acknowledged(10, LeaderEpoch(5))
    story.fetched(2, 10)
    assert story.replica.is_acknowledged(10, LeaderEpoch(5))
    story.metadata(with_isr(1, partition_epoch=11))
    leader.check_append(1)
    with pytest.raises(KafkaError) as before:
        leader.check_append(-1)
    with pytest.raises(KafkaError) as after:
        story.replica.is_acknowledged(10, LeaderEpoch(5))
    assert (before.value.code, after.value.code) == (19, 20)


def test_more_min_insync_replicas_than_replicas_ask_for_all_of_them() -> None:
    partition = PartitionImage((1, 2), (1, 2), BrokerId(1), LeaderEpoch(5), 10)
    assert Story(partition, min_insync_replicas=3).replica.leader.min_isr == 2


def test_a_leader_that_is_replaced_ends_its_waits_and_follows() -> None:
    story = Story(end=7)
    partition = msgspec.structs.replace(PARTITION, leader=BrokerId(2), leader_epoch=LeaderEpoch(6), partition_epoch=11)
    assert story.metadata(partition) == (
        LeadershipEnded(LeaderEpoch(5)),
        FetchFrom(BrokerId(2), LeaderEpoch(6), Offset(7), 5),
    )
    with pytest.raises(KafkaError) as error:
        story.replica.is_acknowledged(7, LeaderEpoch(5))
    assert error.value.name == "NOT_LEADER_OR_FOLLOWER"


def test_older_metadata_changes_nothing() -> None:
    story = Story()
    old = msgspec.structs.replace(PARTITION, leader=BrokerId(2), leader_epoch=LeaderEpoch(4), partition_epoch=9)
    assert story.metadata(old) == ()
    assert story.replica.leader.leader_epoch == 5


@pytest.mark.parametrize(("epoch", "name"), [(4, "FENCED_LEADER_EPOCH"), (6, "UNKNOWN_LEADER_EPOCH")])
def test_a_fetch_of_another_epoch_is_refused(epoch: int, name: str) -> None:
    with pytest.raises(KafkaError) as error:
        Story().replica.leader.check_fetch(2, 102, epoch)
    assert error.value.name == name
