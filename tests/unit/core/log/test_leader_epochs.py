"""Responses of OffsetForLeaderEpoch, and the epochs after a truncation."""

from __future__ import annotations

import pytest

from moldau.core.log.leader_epochs import UNKNOWN, LeaderEpochs


def _epochs() -> LeaderEpochs:
    epochs = LeaderEpochs()
    for epoch, start_offset in ((2, 10), (3, 20), (7, 30)):
        epochs.assign(epoch, start_offset)
    return epochs


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, UNKNOWN), (0, (0, 10)), (2, (2, 20)), (3, (3, 30)), (5, (3, 30)), (7, (7, 99)), (8, UNKNOWN)],
)
def test_the_end_of_an_epoch_is_where_the_next_begins(asked: int, answer: tuple[int, int]) -> None:
    assert _epochs().end_offset_for(asked, 99) == answer


def test_nothing_is_known_of_an_empty_log() -> None:
    assert LeaderEpochs().end_offset_for(0, 0) == UNKNOWN


def test_epochs_only_rise() -> None:
    epochs = _epochs()
    epochs.assign(5, 40)
    epochs.assign(7, 40)
    assert epochs.entries == [(2, 10), (3, 20), (7, 30)]


def test_an_epoch_that_wrote_nothing_gives_way() -> None:
    epochs = _epochs()
    epochs.assign(8, 30)
    assert epochs.entries == [(2, 10), (3, 20), (8, 30)]


def test_truncation_at_either_end() -> None:
    epochs = _epochs()
    epochs.truncate_from_end(30)
    assert epochs.entries == [(2, 10), (3, 20)]
    assert epochs.latest_epoch == 3
    epochs.truncate_from_start(15)
    assert epochs.entries == [(2, 15), (3, 20)]
    epochs.truncate_from_start(25)
    assert epochs.entries == [(3, 25)]
    epochs.truncate_from_end(0)
    assert (epochs.entries, epochs.latest_epoch) == ([], -1)


def test_the_epoch_of_an_offset() -> None:
    assert [_epochs().epoch_of_offset(offset) for offset in (0, 10, 19, 20, 35)] == [-1, 2, 2, 3, 7]


def test_it_is_dirty_only_after_a_change() -> None:
    epochs = _epochs()
    epochs.is_dirty = False
    epochs.truncate_from_end(99)
    epochs.truncate_from_start(10)
    epochs.assign(1, 50)
    assert not epochs.is_dirty
    epochs.truncate_from_start(12)
    assert epochs.is_dirty


def test_an_epoch_that_begins_is_known_and_saved_with_its_first_batch() -> None:
    epochs = LeaderEpochs([(2, 10)])
    epochs.begin(4, 30)
    assert (epochs.end_offset_for(4, 30), epochs.end_offset_for(3, 30)) == ((4, 30), (2, 30))
    assert not epochs.is_dirty, "a start would forget the epoch: nothing is in the log"
    epochs.begin(5, 30)
    assert epochs.entries == [(2, 10), (5, 30)]
    epochs.assign(5, 30)
    assert epochs.is_dirty


def test_an_epoch_that_began_and_was_truncated_may_be_written_later() -> None:
    epochs = LeaderEpochs([(2, 10)])
    epochs.begin(4, 30)
    epochs.truncate_from_end(30)
    epochs.is_dirty = False
    epochs.assign(3, 30)
    assert (epochs.entries, epochs.is_dirty) == ([(2, 10), (3, 30)], True)


def test_an_epoch_that_only_one_batch_has_before_an_older_one_is_dropped() -> None:
    epochs = LeaderEpochs()
    for (epoch, start_offset), previous in zip([(4, 0), (4194308, 10), (4, 20), (6, 30)], [-1, 0, 10, 20], strict=True):
        epochs.take_in(epoch, start_offset, previous)
    assert epochs.entries == [(4, 0), (6, 30)]
    first_is_damaged = LeaderEpochs()
    first_is_damaged.take_in(20, 0, -1)
    first_is_damaged.take_in(4, 10, 0)
    assert first_is_damaged.entries == [(4, 10)]


def test_an_epoch_that_more_batches_have_outlasts_one_of_an_older_epoch() -> None:
    epochs = LeaderEpochs()
    for (epoch, start_offset), previous in zip(
        [(4, 0), (8, 10), (8, 20), (0, 30), (8, 40)], [-1, 0, 10, 20, 30], strict=True
    ):
        epochs.take_in(epoch, start_offset, previous)
    epochs.take_in(-1, 50, 40)
    assert epochs.entries == [(4, 0), (8, 10)]
