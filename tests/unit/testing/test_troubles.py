"""Faults drawn from a seed."""

from __future__ import annotations

import pytest

from moldau.testing import Cluster
from moldau.testing.troubles import KINDS, OF_ONE_BROKER, drawn

PATIENCE_S = 60.0


def test_a_seed_draws_the_same_troubles_and_in_time_all_kinds_at_all_brokers() -> None:
    first = drawn(7, 100, (1, 2, 3), ())
    assert first == drawn(7, 100, (1, 2, 3), ())
    assert first != drawn(8, 100, (1, 2, 3), ())
    assert {trouble.kind for trouble in first} == set(KINDS)
    assert {trouble.broker for trouble in first} == {1, 2, 3}
    assert all((trouble.kind == "slow") == (trouble.ms > 0) for trouble in first)
    assert {trouble.kind for trouble in drawn(7, 100, (1,), ())} == set(OF_ONE_BROKER)


def test_what_is_no_trouble_or_none_of_one_broker_is_refused() -> None:
    with pytest.raises(ValueError, match="'explode' is no trouble of 3"):
        drawn(7, 1, (1, 2, 3), ("explode",))  # type: ignore[arg-type]
    with Cluster() as cluster, pytest.raises(ValueError, match="'partition' is no trouble of 1"):
        cluster.troubles(7, kinds=("partition",))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_trouble_is_over_when_its_turn_is(kind: str) -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders")
        troubles = cluster.troubles(seed=3, count=2, kinds=(kind,))  # type: ignore[arg-type]
        assert [trouble.kind for trouble in troubles] == [kind] * 2
        cluster.wait_for(topic="orders", isr=3, timeout=PATIENCE_S)
        cluster.produce("orders", "taken")


def test_a_loop_that_is_left_leaves_no_trouble_behind() -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        troubles = cluster.troubles(seed=3, kinds=("kill",))
        assert next(troubles).kind == "kill"
        troubles.close()
        cluster.produce("orders", "taken")
