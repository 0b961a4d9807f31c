"""Counters: names are bounded, with any labels."""

from __future__ import annotations

from moldau.telemetry import Telemetry


def test_past_the_bound_new_labels_are_counted_together() -> None:
    telemetry = Telemetry(max_series=2)
    for label in ("a", "b", "c", "d", "a"):
        telemetry.count("requests", label)
    assert telemetry.value("requests", "a") == 2
    assert telemetry.value("requests", "c") == 0
    assert telemetry.value("requests", "(other)") == 2
    assert len(telemetry.counters) == 3


def test_a_gauge_shows_what_was_set_last() -> None:
    telemetry = Telemetry()
    telemetry.set("offline", 1)
    telemetry.set("offline", 0)
    assert telemetry.value("offline") == 0
    assert telemetry.value("never set") == 0
