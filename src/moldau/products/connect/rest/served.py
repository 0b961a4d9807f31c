"""A worker over HTTP, until a signal ends it."""

from __future__ import annotations

import socket
from functools import partial

from starlette.types import ASGIApp

from moldau.client.protocol.access import ClusterAccess
from moldau.products.connect.rest.metrics import metrics_of
from moldau.products.connect.rest.routes import Routes, error, not_found, with_encoded_paths
from moldau.products.connect.worker import Worker
from moldau.products.service import serving
from moldau.products.service.logins.opened import Opening, callers_entrance
from moldau.products.service.service import Service


def serve(worker: Worker, listening: socket.socket, access: ClusterAccess, opening: Opening) -> None:
    """Starts the worker. Returns after SIGINT or SIGTERM, when its tasks have stopped. `access`: where logins are
    tried. Raises LoginFileError."""
    service = Service("connect", callers_entrance(opening, access).admit)
    app = application(worker, service)
    worker.start()
    serving.serve(service, app, listening, worker.close, tls=opening.tls)


def application(worker: Worker, service: Service) -> ASGIApp:
    return with_encoded_paths(service.app(Routes(worker).routes(), not_found, partial(metrics_of, worker), error))
