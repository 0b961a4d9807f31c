"""A real broker inside your test: no container, no JVM, gone without a trace.

    from moldau.testing import Cluster

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

With pytest, the fixture `moldau_cluster` gives a started Cluster that the whole session shares.
"""

from moldau.testing.cluster import Cluster

__all__ = ["Cluster"]
