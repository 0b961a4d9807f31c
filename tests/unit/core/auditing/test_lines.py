"""Lines of the audit log: one for each event, with any names of clients and things."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from moldau.core.auditing.lines import AUTHORIZATION, DENIED, MAX_TEXT, Event, Origin, line_of

TEXTS = st.text(st.characters(codec=None), max_size=50)


def event(name: str = "t", client_id: str = "app", **changes: str) -> Event:
    origin = Origin(changes.get("principal", "User:ann"), "10.0.0.7", "SASL", client_id)
    return Event(1_700_000_000_123, AUTHORIZATION, origin, "Write", "topic", name, DENIED, "PRODUCE")


def test_a_line_says_who_did_what_from_where_and_what_came_of_it() -> None:
    assert json.loads(line_of(event(), 1)) == {
        "time": "2023-11-14T22:13:20.123Z",
        "node": 1,
        "event": "authorization",
        "principal": "User:ann",
        "address": "10.0.0.7",
        "listener": "SASL",
        "client_id": "app",
        "operation": "Write",
        "resource_type": "topic",
        "resource": "t",
        "result": "denied",
        "detail": "PRODUCE",
    }


@given(TEXTS, TEXTS, TEXTS)
def test_no_text_ends_a_line_or_reaches_a_terminal(name: str, client_id: str, principal: str) -> None:
    line = line_of(event(name, client_id, principal=principal), 1)
    assert line.count(b"\n") == 1
    assert all(32 <= byte < 127 for byte in line[:-1])
    assert json.loads(line).get("resource", "") == name


def test_a_long_text_is_cut() -> None:
    assert json.loads(line_of(event("n" * 40_000), 1))["resource"] == "n" * MAX_TEXT + "..."
