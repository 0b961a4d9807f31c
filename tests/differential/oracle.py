"""An Apache Kafka to compare with: the one named, or a fresh one from its jars on loopback."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import CACHE, ApacheKafka, fetch_kafka


@contextmanager
def running_kafka(bootstrap_servers: str | None) -> Iterator[str]:
    if bootstrap_servers is not None:
        yield bootstrap_servers
        return
    with tempfile.TemporaryDirectory(prefix="moldau-differential-") as folder:
        peer = ApacheKafka("apache", Path(folder), libraries=fetch_kafka(CACHE))
        peer.start()
        try:
            yield peer.bootstrap_servers
        finally:
            peer.stop()
