"""Times and durations in flags, as users write them."""

from __future__ import annotations

import argparse

import pytest

from moldau.cli.arguments import duration_ms, input_path, moment_ms, time_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01 00:00:01.500", 1_500),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1960-01-01", 0),
    ],
)
def test_a_date_or_time_without_a_zone_is_utc(text: str, milliseconds: int) -> None:
    assert moment_ms(text) == time_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1h", 3_600_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("90s", 90_000),
        ("250ms", 250),
        ("1H", 3_600_000),
        ("PT1H30M", 5_400_000),
        ("P2D", 172_800_000),
    ],
)
def test_a_duration_is_a_number_and_a_unit_or_iso_8601(text: str, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize("text", ["", "h", "1", "1x", "1h and more", "-1h", "yesterday", "P1H", "9" * 40 + "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="90s, 15m"):
        duration_ms(text)


@pytest.mark.parametrize("text", ["", "2026-13-01", "2026-1-1", "2026-01-31T25:00", "tomorrow", "12"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="2026-01-31"):
        time_ms(text)


def test_a_dash_is_standard_input() -> None:
    assert str(input_path("-")) == "/dev/stdin"
    assert str(input_path("plan.csv")) == "plan.csv"
