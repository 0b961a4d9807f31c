"""The service over HTTP, until a signal ends it."""

from __future__ import annotations

import socket

from moldau.client.protocol.access import ClusterAccess
from moldau.products.service import serving
from moldau.products.service.logins.opened import Opening, callers_entrance
from moldau.products.service.service import Service
from moldau.products.sql.serving.http.routes import error, not_found, sql_routes
from moldau.products.sql.serving.service import SqlService


def serve(sql: SqlService, listening: socket.socket, access: ClusterAccess, opening: Opening) -> None:
    """Starts the instance. Returns after SIGINT or SIGTERM, when its queries have stopped and another instance may
    lead. `access`: where logins are tried. Raises LoginFileError."""
    service = Service("sql", callers_entrance(opening, access).admit)
    app = service.app(sql_routes(sql, service, sql.cluster_id), not_found, error=error)
    sql.start()
    serving.serve(service, app, listening, sql.close, tls=opening.tls)
