"""What all requests share: the cluster, its sampler, and how many watch at once."""

from __future__ import annotations

import time

from moldau.products.console.cluster import Cluster
from moldau.products.console.sampler import Sampler

MAX_STREAMS = 20
"""Live updates and live tails together; one more gets 503."""


class Console:
    """One per page server; used from its loop. The cluster and the sampler work in threads."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.cluster = Cluster(bootstrap_servers)
        self.sampler = Sampler(self.cluster)
        self._streams = 0
        self.is_closed = False
        self._last_request_s = time.monotonic()

    def seen(self) -> None:
        """A request came, or a stream still has its viewer."""
        self._last_request_s = time.monotonic()

    def is_idle(self, idle_s: float) -> bool:
        return self._streams == 0 and time.monotonic() - self._last_request_s >= idle_s

    def begin_stream(self) -> bool:
        """False where there are as many as may be; else `end_stream` is due."""
        is_begun = self.has_room
        self._streams += is_begun
        return is_begun

    def end_stream(self) -> None:
        self._streams -= 1

    @property
    def has_room(self) -> bool:
        """For one more stream."""
        return self._streams < MAX_STREAMS

    def close(self) -> None:
        self.is_closed = True
        self.sampler.close()
        self.cluster.close()
