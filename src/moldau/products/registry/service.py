"""The registry as a service: its topic, and its paths."""

from __future__ import annotations

import socket

from moldau.client.protocol.access import ClusterAccess
from moldau.products.registry.routes import Routes, error, not_found
from moldau.products.registry.topic import SchemasTopic
from moldau.products.service import serving
from moldau.products.service.logins.opened import Opening, callers_entrance
from moldau.products.service.service import Service


def serve(
    topic: SchemasTopic,
    listening: socket.socket,
    access: ClusterAccess,
    opening: Opening,
    *,
    is_child: bool = False,
    idle_exit_s: float = 0,
) -> None:
    """Returns after SIGINT or SIGTERM; see `serving.serve`. `access`: where logins are tried. Raises LoginFileError."""
    service = Service("registry", callers_entrance(opening, access).admit)
    app = service.app(Routes(topic).routes(), not_found, error=error)
    serving.serve(service, app, listening, topic.close, tls=opening.tls, is_child=is_child, idle_exit_s=idle_exit_s)
