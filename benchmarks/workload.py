"""One row of the table of benchmarks, as its page in `workloads/` describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

WORKLOADS = Path(__file__).parent / "workloads"

Rule = Literal["at_least", "at_most", "ratio_at_least", "ratio_at_most"]


ALONE = (
    "task",
    "pages",
    "python_start",
    "recovery",
    "compaction",
    "many_topics",
    "producer_ids",
    "authorization",
    "strangers",
)
"""Kinds that need no running broker: they have limits instead of ratios, or start one for each program."""


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is run, how much of it, and what each figure is to reach. What a kind does not use stays 0 or empty."""

    name: str
    kind: Literal[
        "throughput",
        "latency",
        "one_record",
        "canned",
        "large",
        "transactions",
        "memory",
        "start",
        "readers",
        "spark",
        "task",
        "pages",
        "python_start",
        "recovery",
        "compaction",
        "many_topics",
        "producer_ids",
        "handshakes",
        "authorization",
        "strangers",
    ]
    records: int = 0
    value_bytes: int = 0
    keys: int = 0
    topics: int = 0
    partitions: int = 1
    producers: int = 0
    settings: dict[str, object] = {}
    """Of the producer."""
    readers: tuple[str, ...] = ()
    """Ours first, its peer second."""
    task: str = ""
    """Of `benchmarks.tasks`."""
    brokers: tuple[str, ...] = ()
    """Whose topics they read, one row for each; by default the last peer's."""
    rate: int = 0
    """Records a second."""
    warm_up: int = 0
    """Records at that rate that are not counted."""
    connections: int = 0
    each_of_connections: tuple[int, ...] = ()
    """Measured with each of these numbers of connections, one after the other."""
    request: Literal["", "fetch", "produce"] = ""
    request_bytes: int = 0
    """Of records, in a Fetch of each partition."""
    in_flight: int = 1
    """Requests that a connection sends before it waits."""
    requests: int = 0
    transactions: int = 0
    interval_ms: int = 0
    """How long a transaction takes records; 0: one record."""
    has_tls: bool = False
    """Of the brokers: those that such rows are measured with are brokers of their own."""
    handshakes: int = 0
    acls: int = 0
    seconds: float = 0
    """How long each part of it takes."""
    rounds: int = 0
    """Of a kind that has no peer."""
    targets: dict[str, dict[Rule, float]] = {}
    """By figure; a ratio is ours divided by the peer's."""

    def over(self, broker: str) -> Workload:
        """The row of one of `brokers`."""
        return msgspec.structs.replace(self, name=f"{self.name}, over {broker}", brokers=(broker,))

    @property
    def needs_peers(self) -> bool:
        return self.kind not in ALONE


def read_workload(name: str) -> Workload:
    """The page `workloads/<name>.yaml`. Raises msgspec.ValidationError for what it may not say."""
    return msgspec.yaml.decode((WORKLOADS / f"{name}.yaml").read_bytes(), type=Workload)
