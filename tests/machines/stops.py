"""How long producers stopped, from the history of acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from moldau.testing.history import Event, events


class Round(NamedTuple):
    """One cut, and the first seconds after it. `begin_ms`, `end_ms`: wall time."""

    kind: str
    begin_ms: int
    end_ms: int


def stops(told: Iterable[Event], rounds: Sequence[Round], topics: Sequence[str]) -> list[float]:
    """The longest time, in seconds, without an acknowledgement from a partition of the topics, for each round."""
    sent_to: dict[tuple[str, int], str] = {}
    acknowledged: dict[tuple[str, int], list[int]] = {}
    for event in told:
        if isinstance(event, events.Send) and event.topic in topics:
            sent_to[event.process, event.operation] = event.topic
        elif isinstance(event, events.Sent) and (topic := sent_to.pop((event.process, event.operation), None)):
            acknowledged.setdefault((topic, event.partition), []).append(event.at_ms)
    pauses = [pause for times in acknowledged.values() for pause in pairwise(sorted(times))]
    return [
        max((end - begin for begin, end in pauses if begin < each.end_ms and end > each.begin_ms), default=0) / 1_000
        for each in rounds
    ]
