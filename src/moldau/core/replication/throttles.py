"""How fast replicas that are not in sync yet are copied (KIP-73), so that a reassignment leaves room for clients.

Leaders and followers each keep to a rate of their own (`leader.replication.throttled.rate`, `follower...`), for the
replicas that the topic names. Who is in sync is never held back; what it copies counts all the same, as in Kafka.
"""

from __future__ import annotations

import msgspec

from moldau.core.quotas.rates import PromptRate, Windows

LEADER_THROTTLED = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED = "follower.replication.throttled.replicas"
EVERY_REPLICA = "*"
UNLIMITED = 2**63 - 1


class ThrottledReplicas(msgspec.Struct, frozen=True):
    """The indexes of the partitions of one topic whose replica on one broker is throttled."""

    indexes: frozenset[int] = frozenset()
    is_every: bool = False

    def __contains__(self, index: int) -> bool:
        return self.is_every or index in self.indexes


NO_REPLICAS = ThrottledReplicas()


def throttled_replicas(text: str, broker_id: int) -> ThrottledReplicas:
    """What `leader.replication.throttled.replicas` or `follower...` of a topic, `PARTITION:BROKER,...`, says of a
    broker."""
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
        """More than `limit` bytes a second were copied of throttled replicas."""
        return limit < UNLIMITED and self._rate.measure(now_ms)[0] > limit

    def record(self, size: int, now_ms: int) -> None:
        """`size` bytes of a throttled replica were copied."""
        self._rate.record(size, now_ms)
