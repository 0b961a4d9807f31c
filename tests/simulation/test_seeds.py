"""A few seeds of the simulator in each test run; `.ci/run` runs 300."""

from __future__ import annotations

import pytest

from moldau.simulation.__main__ import came_too_seldom, main
from moldau.simulation.run import run_seed
from moldau.simulation.troubles import AT_START, FLOORS_OF_1000, death_of
from tests.simulation.hash_seeds import digests_of


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_a_seed_breaks_no_rule(seed):
    outcome = run_seed(seed)
    assert not outcome.rule, "\n".join((outcome.rule, outcome.detail, *outcome.story))
    assert outcome.boots >= 2
    assert outcome.acknowledged > 0


@pytest.mark.slow
def test_a_seed_gives_the_same_trace_whatever_the_hash_seed():
    digests = digests_of("moldau.simulation", "--seeds", "1..3", "--seconds-virtual", "6")
    assert digests[0] == digests[1]
    assert digests[0].count("seed ") == 3


def test_a_seed_gives_the_same_trace_alone_and_after_others():
    run_seed(12, seconds=3)
    assert run_seed(11, seconds=3).digest == run_seed(11, seconds=3).digest


def test_the_command_tells_the_story_and_the_outcome(capsys):
    assert main(["--seed", "3", "--seconds-virtual", "3", "--verbose"]) == 0
    told = capsys.readouterr().out
    assert "boot 1" in told
    assert "seed 3: ok" in told


@pytest.mark.slow
def test_a_transaction_event_that_comes_too_seldom_is_an_error(capsys):
    assert main(["--seed", "2", "--seconds-virtual", "1", "--transaction-events", "1"]) == 1
    told = capsys.readouterr().out
    assert "committed, v2: 0 times, less than 1" in told
    assert main(["--seed", "2", "--seconds-virtual", "1", "--transaction-events", "0"]) == 0


def test_trouble_that_comes_too_seldom_is_named_and_the_floors_grow_with_the_seeds():
    enough = dict.fromkeys(FLOORS_OF_1000, 30)
    assert came_too_seldom(enough, 300) == []
    assert came_too_seldom(enough | {"cuts": 29, death_of("crashes in renames"): 5}, 300) == [
        "cuts: 29 times, less than 30",
        "crashes in renames: the process died: 5 times, less than 6",
    ]


def test_coverage_fails_where_trouble_came_too_seldom(capsys):
    assert main(["--seed", "2", "--seconds-virtual", "1", "--coverage"]) == 1
    assert f"{death_of(AT_START)}: 0 times, less than 1" in capsys.readouterr().out


def test_seeds_can_share_processes(capsys):
    assert main(["--seeds", "1..3", "--seconds-virtual", "2", "--jobs", "2"]) == 0
    assert "3 seeds, 0 broken" in capsys.readouterr().out
