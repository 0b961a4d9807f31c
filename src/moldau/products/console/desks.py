"""The pages of each person, filled with the person's own access to the cluster.

People of a service without logins share one desk, and so do people for whom the service acts under its own name. A desk
without a viewer sends the cluster no requests.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.cluster import Cluster
from moldau.products.console.connect_pages import connect_act
from moldau.products.console.connect_server import ConnectServer
from moldau.products.console.routes import Pages
from moldau.products.console.sampler import Sampler
from moldau.products.console.sql_pages import sql_editor, sql_run
from moldau.products.console.sql_server import SqlServer
from moldau.products.registered_values import RegisteredValues
from moldau.products.service.look.pages import STATIC
from moldau.products.service.people import Person, Role, person_of
from moldau.products.service.routes import ServedRoute, ServiceRoute
from moldau.products.service.service import Service

MAX_DESKS = 50
"""How many people with their own access have a desk. A further one closes the least recently used desk; its charts
start again."""

Answer = Callable[[Pages, Request], Awaitable[Response]]
ROUTES: tuple[tuple[str, Answer], ...] = (
    ("/", Pages.page),
    ("/topics", Pages.page),
    ("/topics/{topic}", Pages.page),
    ("/topics/{topic}/tail", Pages.page),
    ("/topics/{topic}/records", Pages.records),
    ("/topics/{topic}/records.jsonl", Pages.download),
    ("/topics/{topic}/stream", Pages.stream),
    ("/groups", Pages.page),
    ("/groups/{group:any}", Pages.page),
    ("/pipelines", Pages.page),
    ("/pipelines/{pipeline:any}", Pages.page),
    ("/sql", Pages.page),
    ("/sql/queries/{query}", Pages.page),
    ("/connectors", Pages.page),
    ("/connectors/{connector:any}", Pages.page),
    ("/brokers", Pages.page),
    ("/brokers/{broker}", Pages.page),
    ("/live", Pages.live),
)
"""These routes need only the viewer role: the cluster decides what a person may read."""
EDITOR_ROUTES: tuple[tuple[str, str, Answer], ...] = (
    ("GET", "/sql/editor", sql_editor),
    ("POST", "/sql/run", sql_run),
    ("POST", "/connect-actions", connect_act),
)
"""These need an editor: they act with the rights of the SQL service, and of the workers of connectors."""


class Desks:
    """Use from the loop of the service; `close` from any thread. `acts_as`: the principal of the service itself."""

    def __init__(
        self,
        service: Service,
        access: ClusterAccess,
        values: RegisteredValues | None = None,
        acts_as: str = "",
        sql: SqlServer | None = None,
        connect: ConnectServer | None = None,
    ) -> None:
        self._service = service
        self._sql, self._connect = sql, connect
        self._values = values
        self._acts_as = acts_as
        self._lock = threading.Lock()
        self._shared = self._desk(access)
        self._own: dict[ClusterAccess, Pages] = {}
        """The least recently used desk comes first."""

    def routes(self) -> list[ServiceRoute]:
        looks = (self._route(path, answer) for path, answer in ROUTES)
        runs = (self._route(path, answer, method, Role.EDITOR) for method, path, answer in EDITOR_ROUTES)
        return [*looks, *runs, STATIC]

    def of(self, person: Person) -> Pages:
        if person.access is None:
            return self._shared
        with self._lock:
            pages = self._own.pop(person.access, None)
            if pages is None:
                if len(self._own) >= MAX_DESKS:
                    self._own.pop(next(iter(self._own))).close()
                pages = self._desk(person.access)
            self._own[person.access] = pages
            return pages

    def left(self, person: Person) -> None:
        """Closes the desk of a person whose session has ended, with its access."""
        with self._lock:
            pages = None if person.access is None else self._own.pop(person.access, None)
        if pages is not None:
            pages.close()

    async def no_such_page(self, request: Request, error: Exception) -> Response:
        return await self.of(person_of(request)).no_such_page(request, error)

    def wake(self) -> None:
        """Wakes all waiting streams."""
        with self._lock:
            for pages in (self._shared, *self._own.values()):
                pages.sampler.close()

    def close(self) -> None:
        with self._lock:
            for pages in (self._shared, *self._own.values()):
                pages.close()

    def _desk(self, access: ClusterAccess) -> Pages:
        cluster = Cluster(access)
        return Pages(self._service, cluster, Sampler(cluster), self._values, self._acts_as, self._sql, self._connect)

    def _route(self, path: str, answer: Answer, method: str = "GET", needs: Role = Role.VIEWER) -> ServedRoute:
        async def answered(request: Request) -> Response:
            return await answer(self.of(person_of(request)), request)

        return ServedRoute(path, answered, needs=needs, methods=[method])
