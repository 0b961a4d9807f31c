"""The replication throttles of this broker, with the rates in force (KIP-73)."""

from __future__ import annotations

from moldau.core.quotas.rates import Windows
from moldau.core.replication.follower import Follower
from moldau.core.replication.partition import Partition
from moldau.core.replication.throttles import ReplicationThrottle
from moldau.shell.broker.own_node import OwnNode


class ReplicationThrottles:
    """The throttles as leader and as follower. Used from the broker's loop only."""

    def __init__(self, node: OwnNode) -> None:
        self._node = node
        view, now_ms = node.settings.view, node.clock.monotonic_ms()
        windows = Windows(view.replication_quota_window_num, view.replication_quota_window_size_seconds * 1_000)
        self._as_leader = ReplicationThrottle(windows, now_ms)
        self._as_follower = ReplicationThrottle(windows, now_ms)

    def holds_back_from(self, replica_id: int, partition: Partition) -> bool:
        """Whether this leader now sends the follower no records of the partition."""
        leader = partition.leader
        if leader is None or not leader.is_held_back(replica_id, partition.topic_partition.partition):
            return False
        limit = self._node.settings.view.leader_replication_throttled_rate
        return self._as_leader.is_exceeded(limit, self._node.clock.monotonic_ms())

    def sent(self, partition: Partition, size: int) -> None:
        """Records `size` bytes sent to a follower."""
        if partition.topic_partition.partition in partition.replica.settings.throttled_at_leader:
            self._as_leader.record(size, self._node.clock.monotonic_ms())

    def holds_back(self, partition: Partition) -> bool:
        """Whether this follower now leaves the partition out of its requests."""
        role = partition.replica.role
        if not isinstance(role, Follower) or not role.lag or not self._is_throttled_here(partition):
            return False
        limit = self._node.settings.view.follower_replication_throttled_rate
        return self._as_follower.is_exceeded(limit, self._node.clock.monotonic_ms())

    def copied(self, partition: Partition, size: int) -> None:
        """Records `size` bytes received from the leader."""
        if self._is_throttled_here(partition):
            self._as_follower.record(size, self._node.clock.monotonic_ms())

    @staticmethod
    def _is_throttled_here(partition: Partition) -> bool:
        return partition.topic_partition.partition in partition.replica.settings.throttled_at_follower
