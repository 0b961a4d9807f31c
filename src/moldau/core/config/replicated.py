"""The replication settings of a cluster with several brokers."""

from __future__ import annotations

_FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
_MINIMA = ("min.insync.replicas", "transaction.state.log.min.isr")


def replicated(replicas: int) -> dict[str, str]:
    """Settings with so many replicas for each topic, internal ones too. All but one must acknowledge a record, so
    writing continues with one broker away."""
    in_sync = max(1, replicas - 1)
    return {**dict.fromkeys(_FACTORS, str(replicas)), **dict.fromkeys(_MINIMA, str(in_sync))}
