"""What all requests share: the cluster, its sampler, and how many watch at once."""

from __future__ import annotations

import time

from moldau.products.console.cluster import Cluster
from moldau.products.console.sampler import Sampler

MAX_STREAMS = 20
"""Live updates and live tails together; one more gets 503."""


class Console:
    """One per page server; used from its loop, but for what the cluster and the sampler do in threads."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.cluster = Cluster(bootstrap_servers)
        self.sampler = Sampler(self.cluster)
        self.streams = 0
        self.is_closed = False
        self._last_request_s = time.monotonic()

    def seen(self) -> None:
        """A request came, or a stream still has its viewer."""
        self._last_request_s = time.monotonic()

    def is_idle(self, idle_s: float) -> bool:
        return self.streams == 0 and time.monotonic() - self._last_request_s >= idle_s

    def close(self) -> None:
        self.is_closed = True
        self.sampler.close()
        self.cluster.close()
