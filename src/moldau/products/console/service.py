"""The page as a service: its cluster, its sampler and its pages."""

from __future__ import annotations

import socket

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.cluster import Cluster
from moldau.products.console.routes import Pages
from moldau.products.console.sampler import Sampler
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.registered_values import RegisteredValues
from moldau.products.service import serving
from moldau.products.service.admission import this_machine
from moldau.products.service.service import Service


def serve(
    access: ClusterAccess,
    listening: socket.socket,
    *,
    registry: Registry | str | None = None,
    is_child: bool = False,
    idle_exit_s: float = 0,
) -> None:
    """Returns after SIGINT or SIGTERM; see `serving.serve`. `registry`: of the schemas by which keys and values are
    shown. Raises MissingExtraError."""
    values = None if registry is None else RegisteredValues(registry)
    service = Service("page", this_machine)
    cluster = Cluster(access)
    sampler = Sampler(cluster)
    service.wake_at_close(sampler.close)

    app = Pages(service, cluster, sampler, values).app()
    serving.serve(service, app, listening, cluster.close, is_child=is_child, idle_exit_s=idle_exit_s)
