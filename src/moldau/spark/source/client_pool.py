"""Keeps clients between tasks of a process, so that a micro-batch opens no connection.

Spark reuses a Python worker for task after task (`spark.python.worker.reuse`). A client that a task is done with stays
here with its connections and with what it knows of the cluster, until another task asks for one with the same access.
What it knows may be old: a RangeReader asks again when an answer says so.

A child that was forked has none of its parent's clients: two processes on one connection would read each other's
answers. A connection that the broker has closed in the meantime is noticed and left out when its client is taken.
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
"""One for each cluster and each set of options that tasks of this process read with at a time; each has at most two
connections to a broker."""


class ClientPool:
    """Idle clients of clusters that answered somebody before, at most `most_idle`; the one that has been idle for
    longest makes room. For all threads."""

    def __init__(self, most_idle: int = MOST_IDLE_CLIENTS) -> None:
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._idle: list[tuple[ClusterAccess, ClusterClient]] = []

    @contextmanager
    def borrow(self, access: ClusterAccess) -> Iterator[ClusterClient]:
        """A client for this caller alone. It goes back at the end, or is closed if that was an error."""
        client = self._take(access) or open_client(access, had_contact=True)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._keep(access, client)

    def close(self) -> None:
        """Closes what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, client in idle:
            client.close()

    def _take(self, access: ClusterAccess) -> ClusterClient | None:
        if self._process_id != os.getpid():
            # the parent's lock may be held for ever; its connections stay its own, only our descriptors are closed
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
