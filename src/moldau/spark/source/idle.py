"""Lets an idle stream wait for its next record at the broker, in place of Spark's looks each 10 ms.

With a trigger of 0 seconds Spark asks a stream without new records for its offsets a hundred times a second, and each
answer costs two requests. So the second such question in a row waits for a record, at most IDLE_WAIT_MS, and looks at
the offsets then. Every answer is as fresh as without the wait.

Spark asks the streams of one query one after the other: while one waits, no other is asked. So only the first of them
waits, and its wait ends for the records of every stream that may belong to the same query. This takes a process that
answers for all streams of the session (`session.worker_sources`); in any other process no stream waits. Spark's own
sources are not seen: their rows may come up to IDLE_WAIT_MS later if the query also reads an idle topic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.reader import Isolation
from moldau.types import TopicPartition

IDLE_WAIT_MS = 1_000
ASKED_AGAIN_S = 0.1
"""A question within this time after an empty answer is one of Spark's looks, not the next trigger of an interval."""

WaitForRecords = Callable[[Mapping[TopicPartition, int], int], None]
"""Waits for records after these offsets, at most so many ms."""


class Streams:
    """The streams for which this process answers, and which of them may belong to one query.

    Spark asks each stream of a query once in each trigger. So two streams belong to different queries if one is asked
    twice and the other not in between, or if both are asked at the same time. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = 0
        self._standings: dict[IdleStream, _Standing] = {}

    def asked(self, stream: IdleStream) -> None:
        """Spark asks for the latest offset of this stream."""
        with self._lock:
            self._turn += 1
            mine = self._standings.get(stream)
            if mine is None:
                mine = _Standing(self._turn, set(self._standings))
                for other in self._standings.values():
                    other.companions.add(stream)
                self._standings[stream] = mine
            for name in tuple(mine.companions):
                other = self._standings[name]
                if other.is_asked or other.turn < mine.turn:
                    mine.companions.discard(name)
                    other.companions.discard(stream)
            mine.turn, mine.is_asked = self._turn, True

    def answered(self, stream: IdleStream) -> None:
        """The question of `asked` has its answer."""
        with self._lock:
            if stream in self._standings:
                self._standings[stream].is_asked = False

    def ended(self, stream: IdleStream) -> None:
        """Its query has stopped."""
        with self._lock:
            self._standings.pop(stream, None)
            for other in self._standings.values():
                other.companions.discard(stream)

    def companions(self, stream: IdleStream) -> list[IdleStream]:
        """The other streams that may belong to the same query."""
        with self._lock:
            return list(self._standings[stream].companions)

    def is_first(self, stream: IdleStream) -> bool:
        """Whether Spark asks none of its companions before it in a trigger: the order of a query's streams stays."""
        with self._lock:
            mine = self._standings[stream]
            return all(self._standings[other].first_turn > mine.first_turn for other in mine.companions)


class _Standing:
    """`first_turn` and `turn`: of the first and the last question."""

    __slots__ = ("companions", "first_turn", "is_asked", "turn")

    def __init__(self, first_turn: int, companions: set[IdleStream]) -> None:
        self.companions = companions
        self.first_turn = first_turn
        self.turn = 0
        self.is_asked = False


_streams: Streams | None = None
"""In a process that answers for all streams of a session."""


def answer_for_all() -> None:
    """Says that this process answers for all streams of a session, before the first one."""
    global _streams
    _streams = Streams()


class IdleStream:
    """The idle times of one stream. `access`: None for a stream that is no topic, and never waits here."""

    def __init__(self, access: ClusterAccess | None = None, isolation: Isolation = "read_committed") -> None:
        self._access, self._isolation = access, isolation
        self._offsets: Mapping[TopicPartition, int] = {}
        self._empty_s: float | None = None

    @contextmanager
    def asked(self) -> Iterator[None]:
        """For the time in which `latestOffset` runs."""
        streams = _streams
        if streams is None:
            yield
            return
        streams.asked(self)
        try:
            yield
        finally:
            streams.answered(self)

    def wait(self, wait_for_records: WaitForRecords) -> None:
        """Call this before a look at the latest offsets. Waits if the last answer was empty and Spark asks again."""
        if _streams is None or self._empty_s is None or time.monotonic() - self._empty_s > ASKED_AGAIN_S:
            return
        if not _streams.is_first(self):
            return
        watched = dict(self._offsets)
        for one in _streams.companions(self):
            if (one._access, one._isolation) != (self._access, self._isolation):
                return
            watched.update(one._offsets)
        wait_for_records(watched, IDLE_WAIT_MS)

    def is_empty(self, offsets: Mapping[TopicPartition, int]) -> None:
        """The look at these latest offsets gives an empty answer."""
        self._offsets, self._empty_s = offsets, time.monotonic()

    def has_records(self) -> None:
        """The answer is not empty, or a batch has ended: the next empty answer comes at once."""
        self._empty_s = None

    def end(self) -> None:
        """The query has stopped."""
        if _streams is not None:
            _streams.ended(self)
