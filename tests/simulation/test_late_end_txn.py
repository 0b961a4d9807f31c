"""A late EndTxn, simulated alone; `.ci/run` runs 100 seeds, `make late-end-txn` 10,000."""

from __future__ import annotations

from collections import Counter

import pytest

from moldau.simulation.checkers.copy_ledger import Outcome
from moldau.simulation.client_world import SimulatedTopic
from moldau.simulation.late_end_txn import LateProducer, LateScenario, Way, main, run_seed
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.violation import ViolationError
from moldau.simulation.world import World
from moldau.types import Uuid


@pytest.mark.slow
def test_whatever_a_late_end_can_lead_to_is_met_and_breaks_no_rule():
    outcomes = [run_seed(seed) for seed in range(1, 121)]
    for outcome in outcomes:
        assert not outcome.rule, "\n".join((str(outcome.seed), outcome.rule, outcome.detail, *outcome.story))
    met = Counter(outcome.way for outcome in outcomes)
    assert [way for way in Way if not met[way] and way is not Way.UNANSWERED] == []


def test_a_seed_gives_the_same_trace_alone_and_after_others():
    digest = run_seed(8).digest
    run_seed(7)
    assert run_seed(8).digest == digest


def test_the_command_counts_what_happened(capsys):
    assert main(["--seeds", "1..4"]) == 0
    told = capsys.readouterr().out
    assert "4 seeds, 0 broken" in told
    assert "v2: refused" in told


@pytest.mark.parametrize(
    ("is_v2", "is_disturbed", "visible"), [(True, False, {1}), (False, False, set()), (False, True, {2})]
)
def test_a_transaction_that_nothing_disturbed_must_be_whole(is_v2, is_disturbed, visible):
    world = World(1, VirtualLoop(), {})
    producer = LateProducer(world, SimulatedTopic("t", Uuid(bytes(16)), 1))
    producer.is_v2 = is_v2
    producer.records = {1: "t1", 2: "t1"}
    producer.outcomes["t1"] = Outcome.ABORTED if is_disturbed else Outcome.COMMITTED
    if is_disturbed:
        producer.disturbed["t1"] = None
    with pytest.raises(ViolationError):
        LateScenario(world).check(producer, visible)
    world.loop.close()
