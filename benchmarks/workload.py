"""One row of the benchmark table, as its file in `workloads/` describes it."""

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
    "idle_queries",
    "idle_tasks",
)
"""Kinds without a running broker: they have limits, not ratios, or start one for each program."""


class Workload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What runs, how much, and the target of each figure. Fields that a kind does not use are 0 or empty."""

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
        "idle_queries",
        "connectors",
        "idle_tasks",
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
    """The brokers whose topics they read, one row for each; by default the last peer's."""
    rate: int = 0
    """Records per second."""
    warm_up: int = 0
    """Records at that rate before the measurement."""
    connections: int = 0
    each_of_connections: tuple[int, ...] = ()
    """Numbers of connections; each is measured in turn."""
    request: Literal["", "fetch", "produce"] = ""
    request_bytes: int = 0
    """Bytes of records, in a Fetch of each partition."""
    in_flight: int = 1
    """Requests that a connection sends before it waits for a response."""
    requests: int = 0
    transactions: int = 0
    interval_ms: int = 0
    """How long a transaction accepts records; 0: one record. Of queries: the interval of the trigger."""
    each_of_queries: tuple[int, ...] = ()
    """Numbers of running queries; each is measured in turn."""
    is_sql: bool = False
    """Of queries: statements of `moldau sql`."""
    has_tls: bool = False
    """Of the brokers: rows with TLS are measured with their own brokers."""
    handshakes: int = 0
    acls: int = 0
    seconds: float = 0
    """The duration of each part."""
    rounds: int = 0
    """Of a kind without a peer."""
    targets: dict[str, dict[Rule, float]] = {}
    """By figure; a ratio is ours divided by the peer's."""

    def over(self, broker: str) -> Workload:
        """The row for one of `brokers`."""
        return msgspec.structs.replace(self, name=f"{self.name}, over {broker}", brokers=(broker,))

    @property
    def needs_peers(self) -> bool:
        return self.kind not in ALONE


def read_workload(name: str) -> Workload:
    """Reads `workloads/<name>.yaml`. Raises msgspec.ValidationError for unknown or wrong fields."""
    return msgspec.yaml.decode((WORKLOADS / f"{name}.yaml").read_bytes(), type=Workload)
