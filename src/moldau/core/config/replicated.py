"""What a cluster of several brokers sets that a broker alone does not: its topics have replicas."""

from __future__ import annotations

_FACTORS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
)
_MINIMA = ("min.insync.replicas", "transaction.state.log.min.isr")


def replicated(replicas: int) -> dict[str, str]:
    """Settings with which topics, internal ones too, have so many replicas. All but one of them must take a record: so
    one broker may be away, and writing goes on."""
    in_sync = max(1, replicas - 1)
    return {**dict.fromkeys(_FACTORS, str(replicas)), **dict.fromkeys(_MINIMA, str(in_sync))}
