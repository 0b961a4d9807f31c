"""Seeds of whole nodes as one cluster."""

from __future__ import annotations

import pytest

from moldau.simulation.cluster.__main__ import main
from moldau.simulation.cluster.run import Outcome, run_seed

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


def test_the_command_tells_the_story_and_the_outcome(capsys):
    assert main(["--seed", "3", "--verbose"]) == 0
    told = capsys.readouterr().out
    assert "node-2: boot 1" in told
    assert "the trouble ends" in told
    assert "seed 3: ok" in told
