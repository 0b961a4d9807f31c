"""Counters and gauges for every floor: one registry for each node, names fixed at registration.

The bound on series limits memory if a text from a client (a client id, a topic) becomes a label.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_SERIES = 100_000

BOUND_REACHED = "moldau.server:type=BoundReached"
"""Counts how often a bound held something back or ended it; the label is its setting, or what else it is called."""


class Telemetry:
    """The counters of a node, by (name, label). Not thread-safe: for the node's loop."""

    __slots__ = ("counters", "held", "max_series")

    def __init__(self, max_series: int = MAX_SERIES) -> None:
        self.max_series = max_series
        self.counters: dict[tuple[str, str], int] = {}
        self.held: dict[str, Callable[[], tuple[int, int]]] = {
            "moldau_metric_series": lambda: (len(self.counters), self.max_series)
        }
        """What each bound counts and its limit, by the name of its setting with `_` for `.`: the code that keeps a
        bound enters it here, and `/metrics` shows both."""

    def count(self, name: str, label: str = "", amount: int = 1) -> None:
        """Adds `amount`. A new series above the bound counts under the label "(other)"."""
        key = (name, label)
        if key not in self.counters and len(self.counters) >= self.max_series:
            key = (name, "(other)")
        self.counters[key] = self.counters.get(key, 0) + amount

    def set(self, name: str, value: int, label: str = "") -> None:
        """Sets the counter `name`. The bound on series does not apply, so the label must not come from a client."""
        self.counters[(name, label)] = value

    def labels_of(self, name: str) -> list[tuple[str, int]]:
        """The labels of one name, with their counts."""
        return [(label, count) for (found, label), count in self.counters.items() if found == name]

    def value(self, name: str, label: str = "") -> int:
        """The counter; 0 if nothing was counted."""
        return self.counters.get((name, label), 0)
