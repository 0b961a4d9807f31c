"""A seed gives the same run in every process: nothing depends on the order of a set."""

from __future__ import annotations

import pytest

from tests.simulation.hash_seeds import digests_of


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["cluster", "raft", "replication"])
def test_a_seed_gives_the_same_story_whatever_the_hash_seed(simulator):
    digests = digests_of(f"moldau.simulation.{simulator}", "--seeds", "1..2")
    assert digests[0] == digests[1]
    assert digests[0].count("seed ") == 2
