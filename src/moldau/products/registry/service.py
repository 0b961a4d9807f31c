"""The registry as a service: its topic, and its paths."""

from __future__ import annotations

import socket

from moldau.products.registry.routes import Routes, error, not_found
from moldau.products.registry.topic import SchemasTopic
from moldau.products.service import serving
from moldau.products.service.admission import this_machine
from moldau.products.service.service import Service


def serve(topic: SchemasTopic, listening: socket.socket) -> None:
    """Returns after SIGINT or SIGTERM."""
    service = Service("registry", this_machine)
    serving.serve(service, service.app(Routes(topic).routes(), not_found, error=error), listening, topic.close)
