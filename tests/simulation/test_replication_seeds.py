"""Seeds of the replication simulation; 1..2000 run without a broken rule."""

from __future__ import annotations

import pytest

from moldau.simulation.replication.__main__ import main
from moldau.simulation.replication.schedules import explore
from moldau.simulation.replication.world import run_seed


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [1, 11, 21])
def test_no_replica_loses_what_was_acknowledged(first_seed):
    outcomes = [run_seed(seed) for seed in range(first_seed, first_seed + 10)]
    for outcome in outcomes:
        assert not outcome.rule, "\n".join((str(outcome.seed), outcome.rule, outcome.detail, *outcome.story))
        assert outcome.acknowledged > 0
    assert sum(outcome.truncations for outcome in outcomes) > 0
    assert sum(outcome.elections for outcome in outcomes) > 10


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1178, id="the last known leader lost its power and registered again: nobody else may fail"),
        pytest.param(1747, id="two brokers fail at once: more than min.insync.replicas of 2 survives"),
        pytest.param(1291, id="a follower that flushes each fetch is behind by a minute"),
    ],
)
def test_the_promise_covers_what_the_controller_cannot_know(seed):
    outcome = run_seed(seed)
    assert not outcome.rule, "\n".join((outcome.rule, outcome.detail, *outcome.story))


def test_the_command_tells_the_story_and_the_outcome(capsys):
    assert main(["--seed", "3", "--verbose"]) == 0
    told = capsys.readouterr().out
    assert "broker-0 starts (1)" in told
    assert "seed 3: ok" in told


@pytest.mark.slow
def test_no_schedule_of_a_small_partition_breaks_a_rule():
    explored = explore(4)
    assert explored.states > 4_000
    assert (explored.epochs, explored.committed) == (3, 3)
