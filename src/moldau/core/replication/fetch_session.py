"""Fetch sessions (KIP-227): the broker remembers a reader's partitions, so messages have only changes.

A full fetch (epoch 0) is answered in full and, if a slot is free, opens a session with an id. Every later request of
the session has the next epoch, new partitions, partitions with a new offset, and partitions to forget. It asks for all
partitions of the session, and the response leaves out those without news. News are records, an error, a diverging
epoch, or a new high watermark or log start offset. Epoch -1 closes the session.

The order gives fairness: a partition with records in an incremental response moves to the end, so that with a small
`max_bytes` every partition is served.

If `max.incremental.fetch.session.cache.slots` are used: a session unused for two minutes is evicted first. Else one
that is older than two minutes, the smallest first, makes room for a larger one. A replica may evict a consumer at once.
Apache Kafka divides its cache into eight shards and bounds the number of sessions only. This cache is one, and also
bounds their memory (`moldau.fetch.session.memory.bytes`).

A request in progress keeps its session object. If another one advanced or closed the session, the epochs differ.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from moldau.errors import ERROR_CODES, invariant
from moldau.telemetry import BOUND_REACHED, Telemetry
from moldau.wire.protocol.fast_fetch import FetchEntry, FetchResult, ForgottenPartition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_SESSION_ID: Final = 0
MAX_EPOCH: Final = 2**31 - 1
MAX_SESSION_ID: Final = 2**31 - 1
EVICTION_MS: Final = 120_000
MEMORY_BOUND: Final = "moldau.fetch.session.memory.bytes"

PARTITION_MEMORY_BYTES: Final = 400
"""The memory of one partition of a session, without its topic name: entry, key and share of the dict. Rounded up from
the measured 280 bytes."""
SESSION_MEMORY_BYTES: Final = 1_000

FETCH_SESSION_ID_NOT_FOUND: Final = ERROR_CODES["FETCH_SESSION_ID_NOT_FOUND"]
INVALID_FETCH_SESSION_EPOCH: Final = ERROR_CODES["INVALID_FETCH_SESSION_EPOCH"]
FETCH_SESSION_TOPIC_ID_ERROR: Final = ERROR_CODES["FETCH_SESSION_TOPIC_ID_ERROR"]

PartitionKey = tuple[bytes, int]
EvictableKey = tuple[bool, int, int]
"""(of a replica, number of partitions, session id). The smallest is evicted first."""

_UNKNOWN: Final = -1


def next_epoch(epoch: int) -> int:
    """The epoch of the next request. It wraps to 1, because 0 requests a full fetch."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


class SessionWatch(Protocol):
    """An object that keeps data for a session."""

    def end(self) -> None:
        """The session has ended."""


class CachedPartition:
    """One partition of a session: the last request and the last result."""

    __slots__ = ("entry", "high_watermark", "log_start_offset")

    def __init__(self, entry: FetchEntry) -> None:
        self.entry = entry
        self.high_watermark = _UNKNOWN
        self.log_start_offset = _UNKNOWN

    def has_news(self, result: FetchResult) -> bool:
        """Whether `result` must be sent. Remembers it as sent."""
        _, _, error_code, high_watermark, _, log_start_offset, diverging, records, _ = result
        is_news = bool(records) or high_watermark != self.high_watermark or log_start_offset != self.log_start_offset
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        if error_code or diverging is not None:
            # the partition is sent again after the error
            self.high_watermark = _UNKNOWN
            return True
        return is_news


class FetchSession:
    """The partitions of one reader, in the order of service."""

    __slots__ = (
        "counted_memory_bytes",
        "counted_size",
        "created_ms",
        "epoch",
        "is_evictable_by_all",
        "is_evictable_by_replicas",
        "is_replica",
        "last_used_ms",
        "memory_bytes",
        "partitions",
        "session_id",
        "uses_topic_ids",
        "watch",
    )

    def __init__(self, session_id: int, is_replica: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.is_replica = is_replica
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.last_used_ms = now_ms
        self.epoch = next_epoch(INITIAL_EPOCH)
        """The epoch that the next request must have."""
        self.partitions: dict[PartitionKey, CachedPartition] = {}
        self.memory_bytes = SESSION_MEMORY_BYTES
        self.counted_size = 0
        """The number of partitions (and below, the memory) that the cache counted at the last use of the session."""
        self.counted_memory_bytes = 0
        self.is_evictable_by_all = False
        self.is_evictable_by_replicas = False
        self.watch: SessionWatch | None = None

    def watch_by(self, watch: SessionWatch) -> None:
        """Tells `watch` when the session ends."""
        self.watch = watch

    @property
    def evictable_key(self) -> EvictableKey:
        """The sort key of the cache. The smallest is evicted first: consumers before replicas, then few partitions
        before many."""
        return self.is_replica, self.counted_size, self.session_id

    def entries(self) -> list[FetchEntry]:
        """The requested partitions, in order."""
        return [partition.entry for partition in self.partitions.values()]

    def entries_of(self, keys: Iterable[PartitionKey]) -> list[FetchEntry]:
        """As `entries`, for those of `keys` in the session."""
        partitions = self.partitions
        return [partitions[key].entry for key in keys if key in partitions]

    def update(self, entries: Iterable[FetchEntry], forgotten: Iterable[ForgottenPartition]) -> None:
        """Adds new partitions at the end, updates known ones in place, then removes the forgotten ones."""
        partitions = self.partitions
        for entry in entries:
            key = entry[:2]
            partition = partitions.get(key)
            if partition is None:
                partitions[key] = CachedPartition(entry)
                self.memory_bytes += PARTITION_MEMORY_BYTES + len(entry[0])
            else:
                partition.entry = entry
        for key in forgotten:
            if partitions.pop(key, None) is not None:
                self.memory_bytes -= PARTITION_MEMORY_BYTES + len(key[0])

    def news(self, results: Iterable[FetchResult]) -> list[FetchResult]:
        """The results that must be sent. A partition with records moves to the end."""
        partitions = self.partitions
        told: list[FetchResult] = []
        for result in results:
            key = result[:2]
            partition = partitions.get(key)
            if partition is None or not partition.has_news(result):
                continue
            told.append(result)
            if result[7]:
                del partitions[key]
                partitions[key] = partition
        return told


def memory_of(entries: Sequence[FetchEntry]) -> int:
    """The memory of a session with these partitions."""
    return SESSION_MEMORY_BYTES + sum([PARTITION_MEMORY_BYTES + len(entry[0]) for entry in entries])


class SessionAnswer:
    """Finishes the response of one request in a session. Created with the request, used once with the response."""

    __slots__ = ("_asked", "_cache", "_epoch", "_is_replica", "_uses_topic_ids", "session")

    def __init__(
        self,
        cache: FetchSessions,
        asked: list[FetchEntry],
        session: FetchSession | None,
        *,
        is_replica: bool = False,
        uses_topic_ids: bool = False,
    ) -> None:
        self._cache = cache
        self.session = session
        """None: it is opened with the answer, if there is room."""
        self._epoch = 0 if session is None else session.epoch
        self._is_replica = is_replica
        self._uses_topic_ids = uses_topic_ids
        self._asked = asked

    @property
    def entries(self) -> list[FetchEntry]:
        """The partitions to read, in order. Built at each call, because a list of thousands of entries would cost much
        of a fetch without news."""
        return self._asked if self.session is None else self.session.entries()

    @property
    def is_new(self) -> bool:
        """Whether this is a full fetch, whose session is not open yet."""
        return self.session is None

    def finish(self, results: list[FetchResult], now_ms: int) -> tuple[int, int, list[FetchResult]]:
        """Error code, session id and the results to send. A full fetch opens its session here, if a slot is free."""
        session = self.session
        if session is None:
            session = self._cache.open(
                self._asked, results, is_replica=self._is_replica, uses_topic_ids=self._uses_topic_ids, now_ms=now_ms
            )
            return 0, NO_SESSION_ID if session is None else session.session_id, results
        if session.epoch != self._epoch:
            return INVALID_FETCH_SESSION_EPOCH, session.session_id, []
        return 0, session.session_id, session.news(results)


class FetchSessions:
    """All sessions of a broker, the least recently used first."""

    __slots__ = (
        "_by_all",
        "_by_replicas",
        "_new_id",
        "_sessions",
        "evictions",
        "limit",
        "memory_bytes",
        "memory_limit_bytes",
        "partitions",
        "telemetry",
    )

    def __init__(self, limit: int, memory_limit_bytes: int, new_id: Callable[[int], int], telemetry: Telemetry) -> None:
        """`new_id(bound)` gives a random integer in [0, bound)."""
        self.limit = limit
        self.memory_limit_bytes = memory_limit_bytes
        self._new_id = new_id
        self._sessions: dict[int, FetchSession] = {}
        self._by_all: list[EvictableKey] = []
        self._by_replicas: list[EvictableKey] = []
        self.partitions = 0
        self.memory_bytes = 0
        self.evictions = 0
        self.telemetry = telemetry
        telemetry.held["moldau_fetch_sessions"] = lambda: (self.count, self.limit)
        telemetry.held["moldau_fetch_session_memory_bytes"] = lambda: (self.memory_bytes, self.memory_limit_bytes)

    @property
    def count(self) -> int:
        """The number of sessions."""
        return len(self._sessions)

    # -- requests

    def begin(
        self,
        session_id: int,
        epoch: int,
        entries: list[FetchEntry],
        forgotten: Sequence[ForgottenPartition],
        *,
        uses_topic_ids: bool,
        is_replica: bool,
        now_ms: int,
    ) -> SessionAnswer | int | None:
        """The answer of a request in a session, an error code, or None for a fetch of `entries` without a session.
        `entries` has each partition once."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self.close(session_id)
            if epoch == FINAL_EPOCH:
                return None
            return SessionAnswer(self, entries, None, is_replica=is_replica, uses_topic_ids=uses_topic_ids)
        session = self._sessions.get(session_id)
        if session is None:
            return FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return FETCH_SESSION_TOPIC_ID_ERROR
        session.update(entries, forgotten)
        if not session.partitions:
            self.close(session_id)
            return None
        if self.memory_bytes - session.counted_memory_bytes + session.memory_bytes > self.memory_limit_bytes:
            # the client sends a full request next, and gets a response without a session
            self.telemetry.count(BOUND_REACHED, MEMORY_BOUND)
            self.close(session_id)
            return FETCH_SESSION_ID_NOT_FOUND
        self._touch(session, now_ms)
        session.epoch = next_epoch(epoch)
        return SessionAnswer(self, entries, session)

    def open(
        self,
        entries: Sequence[FetchEntry],
        results: Sequence[FetchResult],
        *,
        is_replica: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """A session of `entries`, in the order of their `results`; None without a slot."""
        invariant(len(entries) == len(results), "a full fetch that does not answer each partition")
        if not self._make_room(is_replica, entries, now_ms):
            return None
        session_id = self._new_id(MAX_SESSION_ID) + 1
        while session_id in self._sessions:
            session_id = self._new_id(MAX_SESSION_ID) + 1
        session = FetchSession(session_id, is_replica, uses_topic_ids, now_ms)
        asked = {entry[:2]: entry for entry in entries}
        session.update([asked[result[:2]] for result in results], ())
        for partition, result in zip(session.partitions.values(), results, strict=True):
            partition.has_news(result)
        self._sessions[session_id] = session
        self._touch(session, now_ms)
        return session

    def close(self, session_id: int) -> None:
        """Removes the session of that id, if any."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._uncount(session)
            if session.watch is not None:
                session.watch.end()

    # -- room

    def _make_room(self, is_replica: bool, entries: Sequence[FetchEntry], now_ms: int) -> bool:
        memory_bytes = memory_of(entries)
        while self.memory_bytes + memory_bytes > self.memory_limit_bytes:
            if not self._evict_stale(now_ms):
                self.telemetry.count(BOUND_REACHED, MEMORY_BOUND)
                return False
        return len(self._sessions) < self.limit or self._evict_for(is_replica, len(entries), now_ms)

    def _evict_stale(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms <= EVICTION_MS:
            return False
        self._evict(oldest.session_id)
        return True

    def _evict_for(self, is_replica: bool, size: int, now_ms: int) -> bool:
        """Evicts a session for a new one of `size` partitions. False if none may be evicted."""
        if self._evict_stale(now_ms):
            return True
        keys = self._by_replicas if is_replica else self._by_all
        if not keys or (is_replica, size, 0) < keys[0]:
            return False
        self._evict(keys[0][2])
        return True

    def _evict(self, session_id: int) -> None:
        self.close(session_id)
        self.evictions += 1

    # -- counting

    def _touch(self, session: FetchSession, now_ms: int) -> None:
        """Marks the session as the most recently used, and counts it again."""
        sessions = self._sessions
        session_id = session.session_id
        del sessions[session_id]
        sessions[session_id] = session
        session.last_used_ms = now_ms
        if session.memory_bytes != session.counted_memory_bytes or len(session.partitions) != session.counted_size:
            self._uncount(session)
            session.counted_size = len(session.partitions)
            session.counted_memory_bytes = session.memory_bytes
            self.partitions += session.counted_size
            self.memory_bytes += session.memory_bytes
        is_old = now_ms - session.created_ms > EVICTION_MS
        if is_old and not session.is_evictable_by_all:
            session.is_evictable_by_all = True
            insort(self._by_all, session.evictable_key)
        if not session.is_evictable_by_replicas and (is_old or not session.is_replica):
            session.is_evictable_by_replicas = True
            insort(self._by_replicas, session.evictable_key)

    def _uncount(self, session: FetchSession) -> None:
        key = session.evictable_key
        if session.is_evictable_by_all:
            session.is_evictable_by_all = False
            del self._by_all[bisect_left(self._by_all, key)]
        if session.is_evictable_by_replicas:
            session.is_evictable_by_replicas = False
            del self._by_replicas[bisect_left(self._by_replicas, key)]
        self.partitions -= session.counted_size
        self.memory_bytes -= session.counted_memory_bytes
        session.counted_size = 0
        session.counted_memory_bytes = 0
