"""Times in SQLite rows: the form of a value, and which values are before a moment."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from moldau.products.pipelines.sources.stored_times import form_of

MOMENT = datetime(2026, 1, 31, 12, 30, 45, 999_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "bound"),
    [
        ("2026-01-01", "2026-01-31"),
        ("2026-01-01 10:00", "2026-01-31 12:30"),
        ("2026-01-01T10:00:00", "2026-01-31T12:30:45"),
        ("2026-01-01 10:00:00.123456789", "2026-01-31 12:30:45"),
        ("2026-01-01T10:00:00.5Z", "2026-01-31T12:30:45"),
        ("2026-01-01T10:00:00+05:30", "2026-01-31T18:00:45"),
        (1_767_225_600, 1_769_862_645),
        (1_767_225_600.5, 1_769_862_645),
        (1_767_225_600_000, 1_769_862_645_000),
    ],
)
def test_what_is_less_than_the_bound_was_over(value, bound):
    assert form_of(value).bound(MOMENT) == bound


def test_a_julian_day_is_over_half_a_second_later():
    at = (datetime(2026, 1, 31, 12, 30, 45, tzinfo=UTC).timestamp()) / 86_400 + 2_440_587.5
    bound = form_of(2_461_000.5).bound(MOMENT)
    assert at - 1 / 86_400 < bound < at


@pytest.mark.parametrize(
    "value",
    ["", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "2026-02-30", "2026-01-01 25:00", "2026-01-01-0001", "2461000.5", "now", -1,
     1e18, float("nan"), b"2026-01-01", None],
)  # fmt: skip
def test_what_is_no_time_has_no_form(value):
    assert form_of(value) is None


def test_digits_of_a_second_make_no_other_form_and_separators_and_zones_do():
    base = form_of("2026-01-01 10:00:00")
    assert base == form_of("2027-01-01 10:00:00.25")
    others = ["2026-01-01T10:00:00", "2026-01-01 10:00:00+01:00", "2026-01-01 10:00", "2026-01-01"]
    assert base not in [form_of(one) for one in others]
