"""How often repeated denials are written."""

from __future__ import annotations

from moldau.core.auditing.repeated import ALL_LINES, CLIENT_LINES, MAX_CLIENTS, WINDOW_MS, RepeatedRefusals

MALLORY = "10.0.0.9", "User:mallory"


def test_a_client_that_is_refused_too_often_is_counted() -> None:
    refusals = RepeatedRefusals()
    assert [refusals.admit(MALLORY, 0) for _ in range(CLIENT_LINES + 3)] == [0] * CLIENT_LINES + [None] * 3
    assert refusals.admit(("10.0.0.8", "User:ann"), 0) == 0
    assert refusals.admit(MALLORY, WINDOW_MS) == 3
    assert refusals.admit(MALLORY, WINDOW_MS) == 0


def test_what_no_line_has_counted_is_told_when_the_window_is_over() -> None:
    refusals = RepeatedRefusals()
    for _ in range(CLIENT_LINES + 3):
        refusals.admit(MALLORY, 0)
    assert refusals.ended(WINDOW_MS - 1) == []
    assert refusals.ended(WINDOW_MS) == [(MALLORY, 3)]
    assert refusals.ended(WINDOW_MS) == []


def test_many_clients_together_are_held_to_a_bound_of_their_own() -> None:
    refusals = RepeatedRefusals()
    admitted = [refusals.admit((f"10.0.{place >> 8}.{place & 255}", ""), 0) for place in range(ALL_LINES * 2)]
    assert admitted == [0] * ALL_LINES + [None] * ALL_LINES


def test_only_so_many_clients_are_remembered_and_none_is_lost_of_the_count() -> None:
    refusals = RepeatedRefusals()
    for place in range(MAX_CLIENTS + ALL_LINES + 5):
        refusals.admit((str(place), ""), 0)
    counted = sum(count for _, count in refusals.ended(WINDOW_MS)) + refusals.take_forgotten()
    assert counted == MAX_CLIENTS + 5
