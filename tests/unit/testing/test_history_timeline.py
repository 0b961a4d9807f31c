"""The timeline of a history: the amounts written and read over time, and the faults of the cluster."""

from __future__ import annotations

from xml.etree import ElementTree

from moldau.testing.history import Event, events, judge, timeline

STORY: list[Event] = [
    events.Send(process="p", operation=1, topic="orders", record="a", partition=0, at_ms=1000),
    events.Sent(process="p", operation=1, partition=0, offset=0, at_ms=1100),
    events.Fault(process="operator", text="kill -9 of <broker 1>", at_ms=2000),
    events.Send(process="p", operation=2, topic="orders", record="b", partition=0, at_ms=2100),
    events.Unknown(process="p", operation=2, at_ms=4000),
    events.Assign(process="c", positions={"orders-0": 0}, at_ms=4100),
    events.Poll(process="c", records={"orders-0": ((0, "a"), (1, "b"), (2, "b"))}, at_ms=6000),
]


def words_of(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter() if element.tag.endswith("text")]


def test_a_picture_counts_and_names_what_was_done() -> None:
    words = words_of(timeline(STORY))
    assert {"acknowledged: 1", "read: 3", "failed or unknown: 1", "1.  1.0 s  kill -9 of <broker 1>"} <= set(words)


def test_a_picture_shows_where_a_finding_was_seen() -> None:
    words = words_of(timeline(STORY, judge(STORY)))
    assert any(word.startswith("2.  5.0 s  duplicate: b was sent once") for word in words), words


def test_an_empty_history_has_a_picture() -> None:
    assert "acknowledged: 0" in words_of(timeline([]))
