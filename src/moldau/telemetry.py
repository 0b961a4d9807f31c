"""Counters and gauges that every floor may count in: one registry a node, names fixed at registration.

The bound on names holds memory down when a foreign string (a client id, a topic) becomes a label.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_SERIES = 100_000

BOUND_REACHED = "moldau.server:type=BoundReached"
"""Counts how often a bound held something back or ended it; the label is its setting, or what else it is called."""


class Telemetry:
    """A node's counters, keyed by (name, label). Not thread-safe: used from the node's loop only."""

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
        """Adds `amount`; a new series past the bound is counted under the label "(other)"."""
        key = (name, label)
        if key not in self.counters and len(self.counters) >= self.max_series:
            key = (name, "(other)")
        self.counters[key] = self.counters.get(key, 0) + amount

    def set(self, name: str, value: int, label: str = "") -> None:
        """Gives the counter `name` this value, whatever it was; the bound on series does not hold for it, so that no
        foreign string may be its label."""
        self.counters[(name, label)] = value

    def labels_of(self, name: str) -> list[tuple[str, int]]:
        """The labels of one name, with their counts."""
        return [(label, count) for (found, label), count in self.counters.items() if found == name]

    def value(self, name: str, label: str = "") -> int:
        """The counter; 0 where nothing was counted."""
        return self.counters.get((name, label), 0)
