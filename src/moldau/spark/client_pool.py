"""Clients that a process keeps from one task to the next, so that a micro-batch opens no connection.

Spark reuses a Python worker for task after task (`spark.python.worker.reuse`). A client that a task is done with stays
here with its connections and with what it knows of the cluster, until another task asks for one with the same settings.
What it knows may be old: a RangeReader asks again when an answer says so.

A child that was forked has none of its parent's clients: two processes on one connection would read each other's
answers. A connection that the broker has closed in the meantime is noticed and left out when its client is taken.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from moldau.client.blocking.cluster import ClusterClient
from moldau.spark.options import ClientOptions
from moldau.transport.tcp import TCP

MOST_IDLE_CLIENTS = 8
"""One for each cluster and each set of options that tasks of this process read with at a time; each has at most two
connections to a broker."""


class ClientSettings(ClientOptions, frozen=True):
    """The arguments of a ClusterClient: clients with equal ones are interchangeable."""

    had_contact: bool = False

    def connect(self) -> ClusterClient:
        """A client of its own; it connects at first use."""
        return ClusterClient(TCP, **msgspec.structs.asdict(self))


def client_settings(options: ClientOptions, *, had_contact: bool = False) -> ClientSettings:
    """What the options of a source or of a sink say of its clients."""
    said = {name: getattr(options, name) for name in ClientOptions.__struct_fields__}
    return ClientSettings(**said, had_contact=had_contact)


class ClientPool:
    """Idle clients, at most `most_idle`; the one that has been idle for longest makes room. For all threads."""

    def __init__(self, most_idle: int = MOST_IDLE_CLIENTS) -> None:
        self._most_idle = most_idle
        self._lock = threading.Lock()
        self._process_id = os.getpid()
        self._idle: list[tuple[ClientSettings, ClusterClient]] = []

    @contextmanager
    def borrow(self, settings: ClientSettings) -> Iterator[ClusterClient]:
        """A client for this caller alone. It goes back at the end, or is closed if that was an error."""
        client = self._take(settings) or settings.connect()
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._keep(settings, client)

    def close(self) -> None:
        """Closes what is idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for _, client in idle:
            client.close()

    def _take(self, settings: ClientSettings) -> ClusterClient | None:
        if self._process_id != os.getpid():
            # the parent's lock may be held for ever; its connections stay its own, only our descriptors are closed
            self._lock = threading.Lock()
            self._process_id = os.getpid()
            self.close()
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place][0] == settings:
                    client = self._idle.pop(place)[1]
                    break
            else:
                return None
        client.close_ended_connections()
        return client

    def _keep(self, settings: ClientSettings, client: ClusterClient) -> None:
        with self._lock:
            self._idle.append((settings, client))
            surplus = self._idle.pop(0)[1] if len(self._idle) > self._most_idle else None
        if surplus is not None:
            surplus.close()
