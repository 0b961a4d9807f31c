"""The cluster for tests of plain Kafka clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from moldau.testing import Cluster


@contextmanager
def cluster_under_test() -> Iterator[str]:
    """The addresses of a broker of ours, or of the cluster in MOLDAU_TEST_CLUSTER, for the same tests."""
    given = os.environ.get("MOLDAU_TEST_CLUSTER")
    if given:
        yield given
        return
    with Cluster() as cluster:
        yield cluster.bootstrap_servers
