"""The point where the logs of two replicas diverge: the leader's answer and the follower's truncation."""

from __future__ import annotations

import pytest

from moldau.core.log.leader_epochs import LeaderEpochs
from moldau.core.replication.divergence import diverging_epoch, truncation_offset
from moldau.errors import KafkaError


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(list(entries))


@pytest.mark.parametrize(
    ("offset", "last_epoch", "expected"),
    [
        (20, 1, None),
        (15, 1, None),
        (25, 1, (1, 20)),
        (25, 2, (1, 20)),
        (40, 3, None),
        (41, 3, (3, 40)),
    ],
)
def test_a_reader_parts_from_the_log_where_its_last_epoch_ended(
    offset: int, last_epoch: int, expected: tuple[int, int] | None
) -> None:
    known = epochs((1, 0), (3, 20)).end_offset_for(last_epoch, 40)
    assert diverging_epoch(known, offset, last_epoch) == expected


def test_an_epoch_that_the_leader_does_not_know_is_out_of_range() -> None:
    with pytest.raises(KafkaError) as error:
        diverging_epoch(epochs((1, 0)).end_offset_for(2, 40), 10, 2)
    assert error.value.name == "OFFSET_OUT_OF_RANGE"


@pytest.mark.parametrize(
    ("own", "log_end_offset", "answer", "expected"),
    [
        # the follower continued in an epoch that ended earlier for the leader
        (((1, 0),), 30, (1, 20), 20),
        # the follower lacks the epoch of the response: it truncates newer epochs and asks again
        (((1, 0), (4, 15)), 30, (3, 25), 15),
        # the follower's part of the epoch is shorter
        (((1, 0), (2, 10)), 30, (1, 20), 10),
        # every epoch is newer than the leader's
        (((5, 0),), 30, (2, 12), 0),
        # an epoch recorded at the log end, without records
        (((1, 0), (5, 30)), 30, (1, 40), 30),
        # an empty log
        ((), 0, (2, 12), 0),
    ],
)
def test_a_follower_cuts_at_the_end_of_what_both_have(
    own: tuple[tuple[int, int], ...], log_end_offset: int, answer: tuple[int, int], expected: int
) -> None:
    known = epochs(*own).end_offset_for(answer[0], log_end_offset)
    assert truncation_offset(answer, known, log_end_offset) == expected
