"""The registry as a service: its topic, and its paths."""

from __future__ import annotations

import socket

from moldau.products.registry.routes import Routes, error, not_found
from moldau.products.registry.topic import SchemasTopic
from moldau.products.service import serving
from moldau.products.service.admission import this_machine
from moldau.products.service.service import Service


def serve(topic: SchemasTopic, listening: socket.socket, *, is_child: bool = False, idle_exit_s: float = 0) -> None:
    """Returns after SIGINT or SIGTERM; see `serving.serve`."""
    service = Service("registry", this_machine)
    app = service.app(Routes(topic).routes(), not_found, error=error)
    serving.serve(service, app, listening, topic.close, is_child=is_child, idle_exit_s=idle_exit_s)
