"""`--print-metrics`: prints the metrics of a client in the table of Kafka's tools.

The client is librdkafka, so the metrics have the names of its statistics, not those of the Java client.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from moldau.cli.kafka.java_numbers import fixed

_INTERVAL_MS = 200
_WAIT_S = 2.0


class ClientMetrics:
    """Keeps the last statistics of one client."""

    def __init__(self) -> None:
        self._last: Mapping[str, Any] = {}
        self._count = 0

    def settings(self) -> dict[str, object]:
        return {"statistics.interval.ms": _INTERVAL_MS, "stats_cb": self._take}

    def _take(self, text: str) -> None:
        self._last = json.loads(text)
        self._count += 1

    def print_now(self, client: Any) -> None:
        """Polls `client` until the next statistics arrive, and prints them."""
        seen, deadline = self._count, time.monotonic() + _WAIT_S
        while self._count == seen and time.monotonic() < deadline:
            client.poll(0.05)
        for line in metric_lines(self._last):
            print(line)


def metric_lines(statistics: Mapping[str, Any]) -> list[str]:
    """The table, sorted by name; an empty line comes first."""
    rows = sorted(_metrics(statistics))
    width = max((len(name) for name, _ in rows), default=0)
    return ["", f"{'Metric Name':<{width}}   Value", *(f"{name:<{width}} : {value}" for name, value in rows)]


def _metrics(statistics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind, client_id = statistics.get("type", "client"), statistics.get("client_id", "")
    for name, value in _figures(statistics):
        yield f"{kind}-metrics:{name}:{{client-id={client_id}}}", value
    for broker in statistics.get("brokers", {}).values():
        for name, value in _figures(broker):
            yield f"{kind}-node-metrics:{name}:{{client-id={client_id}, node-id=node-{broker['nodeid']}}}", value


def _figures(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if isinstance(value, int | float) and name not in ("nodeid", "ts", "time"):
            yield name.replace("_", "-"), fixed(float(value), 3)
        elif isinstance(value, Mapping) and "avg" in value:
            for part in ("avg", "max", "p99"):
                yield f"{name}-{part}", fixed(float(value[part]), 3)
