"""The new places of a removed broker's replicas, and of partitions that are placed again."""

from __future__ import annotations

import pytest

from moldau.client.admin.reassignments import placed_on, without_broker
from moldau.types import TopicPartition


def partition(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


def test_another_broker_takes_its_place_and_its_order_and_the_load_stays_even() -> None:
    current = {partition(index): (3, 1) for index in range(4)}
    moved = without_broker(current, 3, dict.fromkeys((1, 2, 3, 4)))
    assert [replicas[1] for replicas in moved.values()] == [1] * 4
    assert sorted(replicas[0] for replicas in moved.values()) == [2, 2, 4, 4]


def test_a_rack_that_the_partition_is_not_in_is_preferred() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    assert without_broker({partition(0): (1, 3)}, 3, racks) == {partition(0): (1, 4)}


def test_what_it_does_not_hold_stays_where_it_is() -> None:
    assert without_broker({partition(0): (1, 2)}, 3, dict.fromkeys((1, 2, 3))) == {}


def test_a_partition_that_has_nowhere_to_go_is_named() -> None:
    with pytest.raises(ValueError, match="orders-0 needs 3 brokers, and there are 2 to place it on"):
        without_broker({partition(0): (1, 2, 3)}, 3, dict.fromkeys((1, 2, 3)))


def test_replicas_are_added_where_the_fewest_are_and_removed_from_the_end() -> None:
    current = {partition(0): (1, 2), partition(1): (2, 3)}
    racks = dict.fromkeys((1, 2, 3, 4))
    assert placed_on(current, current, racks, 3) == {partition(0): (1, 2, 4), partition(1): (2, 3, 1)}
    assert placed_on(current, [partition(1)], racks, 1) == {partition(1): (2,)}


def test_replicas_stay_where_they_may() -> None:
    current = {partition(0): (1, 2), partition(1): (3, 4)}
    assert placed_on(current, current, dict.fromkeys((3, 4))) == {partition(0): (3, 4)}
