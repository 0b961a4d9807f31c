"""Repeated waits end at the same instants, and hardly sooner or later than they would."""

from __future__ import annotations

import pytest

from moldau.core.beat import BEAT_MS, LATER_MS, SOONER_MS, beat_ms


@pytest.mark.parametrize("wait_ms", [500, 1_000, 2_000, 5_000])
@pytest.mark.parametrize("late_ms", [-1, 0, 1, 3])
def test_a_wait_that_is_repeated_comes_to_the_beat_and_stays_there(wait_ms: int, late_ms: int) -> None:
    """`late_ms`: the delay of the timer, and so of the next wait."""
    for began_ms in range(7_000, 7_000 + BEAT_MS):
        now_ms = began_ms
        for _ in range(BEAT_MS // (SOONER_MS - 3) + 1):
            now_ms = beat_ms(now_ms, wait_ms) + late_ms
        for _ in range(3):
            due_ms = beat_ms(now_ms, wait_ms)
            assert due_ms % BEAT_MS == 0
            assert due_ms - now_ms == wait_ms - late_ms
            now_ms = due_ms + late_ms


def test_no_wait_ends_much_sooner_or_later_than_it_would() -> None:
    for wait_ms in (500, 1_000, 2_000):
        for now_ms in range(3 * BEAT_MS):
            assert wait_ms - SOONER_MS <= beat_ms(now_ms, wait_ms) - now_ms <= wait_ms + LATER_MS


@pytest.mark.parametrize("wait_ms", [0, 1, 50, 300, 750, 1_001])
def test_a_wait_that_is_no_multiple_of_the_beat_is_left_alone(wait_ms: int) -> None:
    for now_ms in range(2 * BEAT_MS):
        assert beat_ms(now_ms, wait_ms) == now_ms + wait_ms
