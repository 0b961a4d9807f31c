"""Where the states of connectors and tasks are kept: a topic that every worker writes, or the memory of a worker
alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from moldau.client.protocol.access import ClusterAccess
from moldau.products.connect.core.configs import Record
from moldau.products.connect.core.statuses import StatusState
from moldau.products.connect.followed_topic import FollowedTopic

T = TypeVar("T")


class Statuses(Protocol):
    """Thread-safe."""

    def look(self, ask: Callable[[StatusState], T]) -> T:
        """The answer of a quick question; the state does not change meanwhile."""
        ...

    def put(self, records: Sequence[Record]) -> None:
        """Keeps the records, in their order. `look` shows them soon, in every worker."""
        ...

    def close(self) -> None: ...


class StatusTopic:
    def __init__(self, access: ClusterAccess, topic: str, partitions: int, replicas: int | None) -> None:
        """Creates the topic if it is missing, and returns when the state includes all of it. Raises TopicError."""
        self._state = StatusState()
        self._topic = FollowedTopic(access, topic, self._state.apply, partitions=partitions, replicas=replicas)

    def look(self, ask: Callable[[StatusState], T]) -> T:
        with self._topic.changed:
            return ask(self._state)

    def put(self, records: Sequence[Record]) -> None:
        self._topic.send(records)

    def close(self) -> None:
        self._topic.close()


class StatusMemory:
    """The memory of a worker alone (`--standalone`)."""

    def __init__(self) -> None:
        self._state = StatusState()
        self._lock = threading.Lock()

    def look(self, ask: Callable[[StatusState], T]) -> T:
        with self._lock:
            return ask(self._state)

    def put(self, records: Sequence[Record]) -> None:
        with self._lock:
            for key, value in records:
                self._state.apply(key, value)

    def close(self) -> None:
        return
