"""Replication throttles (KIP-73): a reassignment leaves bandwidth for clients. In-sync replicas are not throttled.

Leaders and followers each have a rate (`leader.replication.throttled.rate`, `follower...`) for the replicas that the
topic names. As in Kafka, in-sync replicas are never delayed, but their bytes count.
"""

from __future__ import annotations

import msgspec

from moldau.core.quotas.rates import PromptRate, Windows

LEADER_THROTTLED = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED = "follower.replication.throttled.replicas"
EVERY_REPLICA = "*"
UNLIMITED = 2**63 - 1


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """The throttled partition indexes of one topic on one broker."""

    indexes: frozenset[int] = frozenset()
    is_every: bool = False

    def __contains__(self, index: int) -> bool:
        return self.is_every or index in self.indexes


NO_REPLICAS = ThrottledReplicas()


def throttled_replicas(text: str, broker_id: int) -> ThrottledReplicas:
    """The replicas of a broker in `leader.replication.throttled.replicas` or `follower...` of a topic,
    `PARTITION:BROKER,...`."""
    if text.strip() == EVERY_REPLICA:
        return ThrottledReplicas(is_every=True)
    pairs = (each.strip().partition(":") for each in text.split(","))
    indexes = frozenset(int(index) for index, _, broker in pairs if broker == str(broker_id) and index.isdecimal())
    return ThrottledReplicas(indexes) if indexes else NO_REPLICAS


class ReplicationThrottle:
    """The throttle of one broker, as leader or as follower."""

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._rate = PromptRate(windows, now_ms)

    def is_exceeded(self, limit: int, now_ms: int) -> bool:
        """Whether throttled replicas use more than `limit` bytes a second."""
        return limit < UNLIMITED and self._rate.measure(now_ms)[0] > limit

    def record(self, size: int, now_ms: int) -> None:
        """Counts `size` bytes of a throttled replica."""
        self._rate.record(size, now_ms)
