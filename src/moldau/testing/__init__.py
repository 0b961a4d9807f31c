"""Runs a real broker inside your test, without a container or a JVM, and leaves nothing behind.

    from moldau.testing import Cluster

    with Cluster() as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})

With pytest, the fixture `moldau_cluster` gives a started Cluster that the whole session shares. docs/use/testing.md
shows the rest: faults, time travel, records, lag.

cluster: `Cluster`
connect: tests of connectors
contents: topics, records and groups of a cluster
error_responses: an error answer to any request
faults: `cluster.faults`
formatting: directories of a new cluster
history/: recorded histories and their judge
injector: injects faults into requests
inside: questions to a broker, on its loop
links: the network between brokers
member: one broker of a cluster
members: all brokers of a cluster
partitioning: the partition of a keyed record
pipelines: tests of pipelines under pytest
ports: ports that a cluster keeps
pytest_plugin: the pytest plugin
rights: `allow` and `deny`
runtime: a node in a thread
security: TLS, logins and ACLs of a test
tracebacks: short tracebacks
troubles: `cluster.troubles`
waiting: `wait_for`
writing: `cluster.produce`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moldau.testing.cluster import Cluster
    from moldau.testing.faults import Fault, Faults, Happened, Script
    from moldau.testing.inside import GroupView, Record
    from moldau.testing.rights import allow, deny
    from moldau.testing.troubles import Trouble
    from moldau.testing.waiting import NotReachedError

__all__ = [
    "Cluster",
    "Fault",
    "Faults",
    "GroupView",
    "Happened",
    "NotReachedError",
    "Record",
    "Script",
    "Trouble",
    "allow",
    "deny",
]

_MODULES = {
    "Cluster": "cluster",
    "Fault": "faults",
    "Faults": "faults",
    "GroupView": "inside",
    "Happened": "faults",
    "NotReachedError": "waiting",
    "Record": "inside",
    "Script": "faults",
    "Trouble": "troubles",
    "allow": "rights",
    "deny": "rights",
}


def __dir__() -> list[str]:
    """The names that `help` and completion show."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Imports a name on first use. Every pytest run loads the plugin, and most tests need only Cluster."""
    import importlib

    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'moldau.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"moldau.testing.{module}"), name)
