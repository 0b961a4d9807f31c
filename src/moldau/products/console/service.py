"""The web console as a service: its admission, and the desks with its pages."""

from __future__ import annotations

import socket
from collections.abc import Callable

from starlette.types import ASGIApp

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.connect_server import ConnectServer
from moldau.products.console.desks import Desks
from moldau.products.console.sql_server import SqlServer
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.registered_values import RegisteredValues
from moldau.products.service import serving
from moldau.products.service.logins.opened import Opening, entrance_of
from moldau.products.service.people import Person
from moldau.products.service.service import Service


class Console:
    """`registry`: the registry with the schemas of keys and values; `sql`: the SQL service with the streams, tables and
    queries; `connect`: the workers of connectors. Raises MissingExtraError, LoginFileError."""

    def __init__(
        self,
        access: ClusterAccess,
        opening: Opening,
        *,
        registry: Registry | str | None = None,
        sql: SqlServer | None = None,
        connect: ConnectServer | None = None,
    ) -> None:
        self.opening = opening
        values = None if registry is None else RegisteredValues(registry)
        left: list[Callable[[Person], None]] = []
        entrance = entrance_of("console", opening, access, ended=lambda person: left[0](person))
        self.service = Service("console", entrance.admit)
        self.desks = Desks(self.service, access, values, entrance.acts_as, sql, connect)
        left.append(self.desks.left)
        entrance.join(self.service)
        self.service.wake_at_close(self.desks.wake)
        self._login_routes = entrance.routes

    def app(self) -> ASGIApp:
        return self.service.app([*self._login_routes, *self.desks.routes()], self.desks.no_such_page)

    def serve(self, listening: socket.socket, *, is_child: bool = False, idle_exit_s: float = 0) -> None:
        """Returns after SIGINT or SIGTERM; see `serving.serve`."""
        serving.serve(
            self.service,
            self.app(),
            listening,
            self.desks.close,
            tls=self.opening.tls,
            is_child=is_child,
            idle_exit_s=idle_exit_s,
        )
