"""An Apache Kafka to compare with: the one named, or a fresh one from its jars on loopback."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers import CACHE, ApacheKafka, fetch_kafka
from moldau.wire.protocol.messages.cluster import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.wire import RawConnection


def refuse_consumer_groups(bootstrap_servers: str) -> None:
    """Takes `group.version` back to 0, as it is with us: groups of KIP-848 are answered 35."""
    safe_downgrade = 2
    asked = FeatureUpdateKey("group.version", 0, upgrade_type=safe_downgrade)
    with RawConnection(bootstrap_servers) as connection:
        answer = connection.ask(UpdateFeaturesRequest(feature_updates=(asked,)), 2)
    assert answer.error_code == 0, answer


@contextmanager
def running_kafka(bootstrap_servers: str | None) -> Iterator[str]:
    if bootstrap_servers is not None:
        yield bootstrap_servers
        return
    with tempfile.TemporaryDirectory(prefix="moldau-differential-") as folder:
        peer = ApacheKafka("apache", Path(folder), libraries=fetch_kafka(CACHE))
        peer.start()
        try:
            refuse_consumer_groups(peer.bootstrap_servers)
            yield peer.bootstrap_servers
        finally:
            peer.stop()
