"""A random correct execution is never flagged; one that breaks a guarantee is flagged for exactly that one."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moldau.testing.history import Kind, judge
from tests.support.random_history import BREAKS, World

SEEDS = st.integers(min_value=0, max_value=1 << 32)


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_an_execution_that_keeps_all_promises_is_never_flagged(seed: int) -> None:
    verdict = judge(World(seed).events)
    assert not verdict.findings, str(verdict)


@pytest.mark.parametrize("kind", BREAKS, ids=str)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_an_execution_that_breaks_a_promise_is_flagged_for_it(kind: Kind, seed: int) -> None:
    broken = BREAKS[kind](World(seed).events, random.Random(seed))
    assume(broken is not None)
    verdict = judge(broken or [])
    assert list(verdict.counts) == [kind], str(verdict)


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_the_same_history_gives_the_same_verdict(seed: int) -> None:
    history = BREAKS[Kind.NON_MONOTONIC_POLL](World(seed).events, random.Random(seed))
    assert str(judge(history or [])) == str(judge(history or []))
