"""Keeps clients between the tasks of a process, so that a micro-batch opens no connections.

Spark reuses a Python worker for many tasks (`spark.python.worker.reuse`). After a task, its client stays here with its
connections and cluster metadata, until another task asks for one with the same access. The metadata may be old: a
RangeReader refreshes it when a response shows that.

A forked child does not use its parent's clients, because two processes on one connection would read each other's
responses. When a client is taken, connections that the broker has closed meanwhile are dropped.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.protocol.access import ClusterAccess
from moldau.transport.access import open_client

MOST_IDLE_CLIENTS = 8
"""One for each combination of cluster and options that tasks of this process use at a time; each has at most two
connections to a broker."""


class ClientPool:
    """Idle clients of clusters that have answered before, at most `most_idle`; the one that has been idle longest is
    closed first. Thread-safe."""

    def __init__(self, most_idle: int = MOST_IDLE_CLIENTS) -> None:
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._idle: list[tuple[ClusterAccess, ClusterClient]] = []

    @contextmanager
    def borrow(self, access: ClusterAccess) -> Iterator[ClusterClient]:
        """A client for exclusive use. It returns to the pool at the end, or is closed after an error."""
        client = self._take(access) or open_client(access, had_contact=True)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._keep(access, client)

    def close(self) -> None:
        """Closes the idle clients."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, client in idle:
            client.close()

    def _take(self, access: ClusterAccess) -> ClusterClient | None:
        if self._process_id != os.getpid():
            # the parent's lock may stay locked; its connections remain open, and only our descriptors are closed
            self._lock = threading.Lock()
            self._process_id = os.getpid()
            self.close()
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place][0] == access:
                    client = self._idle.pop(place)[1]
                    break
            else:
                return None
        client.close_ended_connections()
        return client

    def _keep(self, access: ClusterAccess, client: ClusterClient) -> None:
        with self._lock:
            self._idle.append((access, client))
            surplus = self._idle.pop(0)[1] if len(self._idle) > self._most_idle else None
        if surplus is not None:
            surplus.close()
