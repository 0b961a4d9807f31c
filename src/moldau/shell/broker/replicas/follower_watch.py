"""Tracks the changed partitions of a follower's fetch session, to avoid a look at each of them.

A follower of thousands of partitions sends a request after each record of any of them, and twice a second without news.
Partitions that a request does not name have not moved at the follower. Those that change at the leader are noted here.

Leaders read the time of the last request from here, to judge whether the follower is in sync. Several times within
`replica.lag.time.max.ms` a request also counts as naming some partitions without news: those whose log start moved,
since retention does not report that, and those where the follower may join the in-sync replicas. While requests keep
coming and no news is found, one such look within that time is enough.
"""

from __future__ import annotations

from typing import Protocol

from moldau.core.replication.fetch_session import CachedPartition, FetchSession, PartitionKey
from moldau.core.replication.partition import Partition
from moldau.core.replication.steps import Asking
from moldau.shell.broker.waits import PartitionWaits
from moldau.wire.protocol.fast_fetch import FetchEntry, FetchResult

LOOKS_WITHIN_LAG = 6
"""The number of looks at overlooked partitions within the time after which a follower is out of sync."""
QUIET_LOOKS = 6
"""Without news, a look follows after this many intervals: looks at thousands of quiet partitions were much of the work
of an idle broker."""
MIN_LOOK_INTERVAL_MS = 500


class Parked(Protocol):
    """A waiting fetch."""

    def partition_changed(self, partition: Partition) -> None:
        """`partition` has news: the fetch checks whether it can be answered."""
        ...


def is_watched(session: FetchSession | None) -> bool:
    """Whether a FollowerWatch tracks the changes of `session`."""
    return session is not None and isinstance(session.watch, FollowerWatch)


class FollowerWatch:
    """Watches the partitions of one session, from its second request to its end. Used from the broker's loop only."""

    def __init__(
        self, waits: PartitionWaits, session: FetchSession, follower_id: int, replica_lag_time_max_ms: int
    ) -> None:
        self.asking = Asking(0)
        self._waits = waits
        self._follower_id = follower_id
        self._look_interval_ms = max(MIN_LOOK_INTERVAL_MS, replica_lag_time_max_ms // LOOKS_WITHIN_LAG)
        self._session = session
        self._partitions: dict[PartitionKey, Partition] = {}
        self._keys: dict[int, PartitionKey] = {}
        """By partition number."""
        self._changed: dict[PartitionKey, None] = {}
        self._parked: Parked | None = None
        self._look_ms = 0
        self._could_join = False
        session.watch_by(self)

    def asked(self, now_ms: int, *, may_join: bool) -> list[FetchEntry]:
        """Notes a request, and returns entries to handle as if it named them too. `may_join`: the follower may be in
        sync. When that becomes true, all its caught-up partitions join at once."""
        was_away = now_ms - self.asking.asked_ms > self._look_interval_ms
        self.asking.again(now_ms)
        is_new = may_join and not self._could_join
        self._could_join = may_join
        if now_ms < self._look_ms and not is_new and not was_away:
            return []
        self._look_ms = now_ms + QUIET_LOOKS * self._look_interval_ms
        return [cached.entry for key, cached in self._session.partitions.items() if self._is_overlooked(key, cached)]

    def _is_overlooked(self, key: PartitionKey, cached: CachedPartition) -> bool:
        partition = self._partitions.get(key)
        if partition is None or partition.leader is None:
            return True
        is_in_sync = self._follower_id in partition.leader.partition.isr
        return not is_in_sync or cached.log_start_offset != partition.log.log_start_offset

    def follow(self, key: PartitionKey, partition: Partition) -> None:
        """The session contains `partition` under `key`."""
        known = self._partitions.get(key)
        if known is not partition:
            if known is not None:
                self._leave(known)
            self._partitions[key] = partition
            self._keys[partition.number] = key
            self._waits.add((partition,), self)

    def named(self, entries: list[FetchEntry]) -> None:
        """The request names these entries, which may have news."""
        for entry in entries:
            self._changed[entry[:2]] = None
        if entries:
            self._look_soon()

    def changed(self) -> list[FetchEntry]:
        """The entries of all partitions that may have news."""
        return self._session.entries_of(self._changed)

    def asked_of(self, partition: Partition) -> FetchEntry:
        """The session's entry of a partition that it follows."""
        return self._session.partitions[self._keys[partition.number]].entry

    def told(self, results: list[FetchResult]) -> None:
        """The follower gets these results. Partitions with records or errors, which it will name again, and partitions
        of which it has all records have no more news."""
        for result in results:
            key = result[:2]
            cached, partition = self._session.partitions.get(key), self._partitions.get(key)
            is_all = cached is None or partition is None or cached.entry[3] >= partition.log.log_end_offset
            if result[7] or result[6] or result[2] or is_all:
                self._changed.pop(key, None)

    def is_high_watermark_news(self, results: list[FetchResult]) -> bool:
        """Whether one of these results has a new high watermark for the follower."""
        partitions = self._session.partitions
        return any(
            not result[2] and (cached := partitions.get(result[:2])) is not None and cached.high_watermark != result[3]
            for result in results
        )

    def park(self, fetch: Parked) -> None:
        """Calls `fetch` at each change of a partition, until `leave`."""
        self._parked = fetch

    def leave(self, fetch: Parked) -> None:
        """The fetch is no longer parked. Without effect if another fetch is parked."""
        if self._parked is fetch:
            self._parked = None

    def partition_changed(self, partition: Partition) -> None:
        """See Waiter."""
        key = self._keys[partition.number]
        is_asked = key in self._session.partitions
        if partition.is_deleted or not is_asked:
            self._leave(partition)
            del self._partitions[key]
        if not is_asked:
            self._changed.pop(key, None)
            return
        self._changed[key] = None
        self._look_soon()
        if self._parked is not None:
            self._parked.partition_changed(partition)

    def _look_soon(self) -> None:
        """There is news: looks earlier at the overlooked partitions."""
        self._look_ms = min(self._look_ms, self.asking.asked_ms + self._look_interval_ms)

    def end(self) -> None:
        """The session has ended."""
        self._waits.remove(list(self._partitions.values()), self)
        self._partitions, self._keys, self._changed = {}, {}, {}

    def _leave(self, partition: Partition) -> None:
        del self._keys[partition.number]
        self._waits.remove((partition,), self)
