"""Seeds of whole nodes as one cluster."""

from __future__ import annotations

import pytest

from moldau.simulation.cluster.__main__ import main
from moldau.simulation.cluster.run import Outcome, run_seed
from tests.simulation.hash_seeds import digests_of

OPERATIONS = 200
"""At least so many are acknowledged in each seed."""


def checked(seed: int) -> Outcome:
    outcome = run_seed(seed)
    assert not outcome.rule, "\n".join((str(seed), outcome.rule, outcome.detail, *outcome.story))
    assert outcome.acknowledged >= OPERATIONS
    assert outcome.nodes >= 3
    return outcome


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_cluster_keeps_what_it_promised_whatever_fails(seed):
    outcome = checked(seed)
    assert outcome.boots > outcome.nodes
    assert sum(outcome.faults.values()) > 0


def test_a_seed_gives_the_same_story_whatever_the_hash_seed():
    digests = digests_of("moldau.simulation.cluster", "--seeds", "1..2")
    assert [line.rpartition(" ")[2] for line in digests[0].splitlines()] == [
        line.rpartition(" ")[2] for line in digests[1].splitlines()
    ]
    assert digests[0].count("seed ") == 2


def test_the_command_tells_the_story_and_the_outcome(capsys):
    assert main(["--seed", "3", "--verbose"]) == 0
    told = capsys.readouterr().out
    assert "node-2: boot 1" in told
    assert "the trouble ends" in told
    assert "seed 3: ok" in told
