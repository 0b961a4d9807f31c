"""Seeds of the quorum simulation; 1..400 run without a broken rule, `make seeds` runs others."""

from __future__ import annotations

import pytest

from moldau.simulation.raft.__main__ import main
from moldau.simulation.raft.schedules import explore
from moldau.simulation.raft.world import run_seed


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", [1, 11, 21])
def test_a_quorum_loses_nothing_that_is_committed(first_seed):
    outcomes = [run_seed(seed) for seed in range(first_seed, first_seed + 10)]
    for outcome in outcomes:
        assert not outcome.rule, "\n".join((str(outcome.seed), outcome.rule, outcome.detail, *outcome.story))
        assert outcome.acknowledged > 0
    assert sum(outcome.truncations for outcome in outcomes) > 5
    assert sum(outcome.elections for outcome in outcomes) > 40


@pytest.mark.slow
@pytest.mark.parametrize("voters", [1, 7])
def test_a_quorum_of_one_and_of_seven_loses_nothing_that_is_committed(voters):
    outcomes = [run_seed(seed, voters=voters) for seed in range(1, 7)]
    for outcome in outcomes:
        assert not outcome.rule, "\n".join((str(outcome.seed), outcome.rule, outcome.detail, *outcome.story))
        assert outcome.acknowledged > 0
    assert sum(outcome.elections for outcome in outcomes) > 6


def test_the_command_takes_other_numbers_of_voters(capsys):
    assert main(["--voters", "7", "--seed", "2", "--verbose"]) == 0
    told = capsys.readouterr().out
    assert "node-6 starts (1)" in told
    assert "seed 2: ok" in told


def test_the_command_tells_the_story_and_the_outcome(capsys):
    assert main(["--seed", "3", "--verbose"]) == 0
    told = capsys.readouterr().out
    assert "node-0 starts (1)" in told
    assert "seed 3: ok" in told


@pytest.mark.slow
def test_no_schedule_of_a_small_quorum_breaks_a_rule():
    explored = explore(6)
    assert explored.states > 8_000
    assert (explored.epochs, explored.committed) == (2, 2)
