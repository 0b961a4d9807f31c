"""The programs of examples/delivery keep what they promise through kills (`make delivery` kills each 100 times)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.delivery.consumers import run_consumers
from tests.delivery.counting import Outcome, judge
from tests.delivery.faults import broken_promises
from tests.delivery.producers import run_producers

KILLS, SEED = 3, 53


def say(line: str) -> None:
    """For the output of a failed test."""
    print(line)


@pytest.mark.slow
def test_what_producers_are_told_holds_when_leaders_die(tmp_path: Path) -> None:
    outcomes = {one.program: one for one in run_producers(tmp_path, KILLS, SEED, say)}
    assert broken_promises(outcomes.values()) == []
    assert outcomes["idempotence"].failed == outcomes["retries"].failed == 0


@pytest.mark.slow
def test_consumers_keep_their_promises_when_they_die(tmp_path: Path) -> None:
    outcomes = run_consumers(tmp_path, KILLS, SEED, say)
    assert broken_promises(outcomes) == []
    assert {one.kills for one in outcomes} == {KILLS}


def test_lost_and_repeated_records_are_counted() -> None:
    outcome = judge("acks_1", 1, promised=[1, 2, 3, 4], found=[1, 1, 1, 3, 5], failed=[5, 6])
    assert outcome == Outcome("acks_1", 1, promised=4, lost=2, repeated=2, failed=2, failed_but_there=1)
    assert broken_promises([outcome]) == ["acks_1 repeated 2"]
    assert broken_promises([judge("idempotence", 0, [1], [])]) == [
        "idempotence lost 1",
        "idempotence has 1 records and 0 kills",
    ]
