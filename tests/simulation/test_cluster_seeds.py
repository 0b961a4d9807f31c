"""Seeds of whole nodes as one cluster."""

from __future__ import annotations

import pytest
from msgspec import structs

from moldau.simulation.cluster.__main__ import SEEN_BY_CLIENTS, came_too_seldom, main
from moldau.simulation.cluster.faults import MEANS_MS
from moldau.simulation.cluster.run import Outcome, run_seed
from moldau.simulation.cluster.watch import ClusterEvent
from moldau.simulation.seeds import SeedOutcome, run_seeds, seed_parser
from moldau.simulation.transaction_events import TransactionEvent

OPERATIONS = 200
"""At least this many are acknowledged in each seed."""


def checked(seed: int) -> Outcome:
    outcome = run_seed(seed)
    assert not outcome.rule, "\n".join((str(seed), outcome.rule, outcome.detail, *outcome.story))
    assert outcome.acknowledged >= OPERATIONS
    assert outcome.nodes >= 3
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_cluster_keeps_what_it_promised_whatever_fails(seed):
    outcome = checked(seed)
    assert outcome.boots > outcome.nodes
    assert sum(outcome.faults.values()) > 0


@pytest.mark.slow
def test_the_command_tells_the_story_and_the_outcome(capsys):
    assert main(["--seed", "3", "--verbose"]) == 0
    told = capsys.readouterr().out
    assert "node-2: boot 1" in told
    assert "the trouble ends" in told
    assert "seed 3: ok" in told


@pytest.mark.slow
def test_what_came_too_seldom_is_named_and_the_floors_grow_with_the_seeds():
    outcome = run_seed(1)
    often = dict.fromkeys(MEANS_MS, 1), dict.fromkeys(ClusterEvent, 1)
    seen_by_clients = dict.fromkeys(SEEN_BY_CLIENTS, 1)
    outcome = structs.replace(outcome, faults=often[0], events=often[1], transaction_events=seen_by_clients)
    assert came_too_seldom([outcome] * 10) == []
    lacking = structs.replace(
        outcome,
        faults={**often[0], "split": 0},
        events={**often[1], ClusterEvent.MOVE: 0},
        transaction_events={**seen_by_clients, TransactionEvent.FENCED: 0},
    )
    assert came_too_seldom([lacking] * 300) == [
        "split: 0 times, less than 30",
        "a reassignment ends: 0 times, less than 6",
        "a producer is fenced: 0 times, less than 6",
    ]


def test_what_came_too_seldom_fails_the_command(capsys):
    outcome = SeedOutcome(
        seed=1, digest="", rule="", detail="", story=(), last_events=(), acknowledged=0, elapsed_s=0.0
    )
    seldom = ["split: 0 times, less than 1"]

    def exit_code(came_too_seldom):
        options = seed_parser("a", "").parse_args([])
        return run_seeds("a", options, lambda seed, **_: outcome, lambda _: "", lambda _: "", came_too_seldom)

    assert exit_code(None) == exit_code(lambda _: []) == 0
    assert exit_code(lambda _: seldom) == 1
    assert capsys.readouterr().out.endswith("split: 0 times, less than 1\n")
