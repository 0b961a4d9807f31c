"""Routes and HTML of the pipeline board. Works without JavaScript; `/live` streams changes of the main part."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp

from moldau.products.pipelines.looking.board.state import BoardState
from moldau.products.pipelines.looking.picture import boxes_and_edges
from moldau.products.service.logins.opened import OPEN_HERE, Entrance, Opening, entrance_of
from moldau.products.service.look.charts import Chart, draw
from moldau.products.service.look.pages import STATIC, render_main, templates_in
from moldau.products.service.look.plan import Box, Edge, draw_plan
from moldau.products.service.look.words import show_count, show_rate
from moldau.products.service.people import Person, Role, person_of
from moldau.products.service.routes import ServedRoute, ServiceRoute
from moldau.products.service.service import Service, event
from moldau.products.service.serving import served_in_thread
from moldau.spark.queries.supervised_state import SupervisedState
from moldau.spark.session.query_states import metrics_page

HEARTBEAT_S = 10.0
_TEMPLATES = Path(__file__).parent / "templates"


def serve_board(state: BoardState, listening: socket.socket, opening: Opening) -> AbstractContextManager[None]:
    """Serves the board within its `with`. Raises LoginFileError."""
    return served_in_thread(*open_board(state, opening), listening, opening.tls)


def open_board(state: BoardState, opening: Opening) -> tuple[Service, ASGIApp]:
    """The board shows the run's state, and asks the cluster nothing for its users. Raises LoginFileError."""
    entrance = entrance_of("pipeline", opening, state.spec.access, asks_cluster=False)
    service = Service("pipeline", entrance.admit)
    entrance.join(service)
    service.wake_at_close(state.close)
    return service, BoardPages(service, state, entrance).app()


class BoardPages:
    """The board's HTML, event stream and numbers."""

    def __init__(self, service: Service, state: BoardState, entrance: Entrance = OPEN_HERE) -> None:
        self._entrance = entrance
        self._service = service
        self._state = state
        self._templates = templates_in(_TEMPLATES)

    def app(self) -> ASGIApp:
        routes: list[ServiceRoute] = [
            *self._entrance.routes,
            ServedRoute("/", self.page, needs=Role.VIEWER),
            ServedRoute("/live", self.live, needs=Role.VIEWER),
            ServedRoute("/status.json", self.status, needs=Role.VIEWER),
            STATIC,
        ]
        return self._service.app(routes, self.no_such_page, lambda: metrics_page(self._state.reports()))

    async def page(self, request: Request) -> Response:
        return HTMLResponse(await run_in_threadpool(self._render, person_of(request)))

    async def no_such_page(self, request: Request, _: Exception) -> Response:
        return PlainTextResponse("there is no such page; / is the board", 404)

    async def status(self, _: Request) -> Response:
        """The content of the HTML, as JSON for programs."""
        body = {
            "pipeline": self._state.spec.name,
            "uptime_s": round(time.time() - self._state.began_s, 1),
            "queries": [_status_of(state) for state in self._state.queries()],
            "troubles": msgspec.to_builtins(self._state.troubles()),
        }
        return Response(msgspec.json.encode(body), media_type="application/json")

    async def live(self, request: Request) -> Response:
        return self._service.stream(request, self._updates())

    async def _updates(self) -> AsyncGenerator[str]:
        version = -1
        while not self._service.is_closed:
            newer = await run_in_threadpool(self._state.newer_than, version, HEARTBEAT_S)
            if newer == version:
                yield ": still here\n\n"
                continue
            version = newer
            yield event("main", json.dumps(await run_in_threadpool(self._render_main)))

    def _render(self, person: Person) -> str:
        who = {"person": person, "service_principal": self._entrance.acts_as}
        return self._templates.get_template("board.html").render(self._values() | who)

    def _render_main(self) -> str:
        return render_main(self._templates, "board.html", self._values())

    def _values(self) -> dict[str, object]:
        queries = self._state.queries()
        lags = [state.lag for state in queries if state.lag is not None]
        return {
            "cluster": str(self._state.spec.access),
            "live": "/",
            "spec": self._state.spec,
            "uptime_s": int(time.time() - self._state.began_s),
            "queries": queries,
            "records": sum(state.records_read for state in queries),
            "lag": sum(lags) if len(lags) == len(queries) else None,
            "plan": draw_plan(*self._plan(queries)),
            "troubles": self._state.troubles(),
            "rate_of": self._rate,
            "chart": self._chart,
            "when": _when,
        }

    def _plan(self, queries: list[SupervisedState]) -> tuple[list[Box], list[Edge]]:
        """The plan with current activity: rates on the lines into targets, lag at their boxes, and marks for
        trouble."""
        boxes, edges = boxes_and_edges(self._state.spec)
        by_target = {query.step.target.name: query.name for query in self._state.spec.queries}
        states = {state.name: state for state in queries}
        for place, box in enumerate(boxes):
            state = states.get(by_target[box.name]) if box.kind == "target" else None
            if state is not None:
                behind = "lag ?" if state.lag is None else f"lag {show_count(state.lag)}"
                boxes[place] = Box(box.name, box.kind, f"{state.state}, {behind}", state.trouble is not None)
        for place, edge in enumerate(edges):
            box = boxes[edge.end]
            if box.kind == "target":
                edges[place] = Edge(edge.start, edge.end, f"{show_rate(self._rate(by_target[box.name]))}/s")
        return boxes, edges

    def _rate(self, query: str) -> float | None:
        with self._state.series(f"records:{query}") as series:
            return series.rate()

    def _chart(self, kind: str, query: str) -> Chart:
        with self._state.series(f"{kind}:{query}") as series:
            values = series.rates() if kind == "records" else series.values()
            return draw(values, width=600, height=120, slots=30, span_s=series.span_s)


def _status_of(state: SupervisedState) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(msgspec.structs.replace(state, report=None))
    del found["report"]
    report = state.report
    if report is not None:
        found["phases_ms"] = report.phases_ms
        found["state_rows"] = report.state_rows
        found["state_bytes"] = report.state_bytes
        found["late_rows"] = report.late_rows
        found["offsets_behind_latest"] = {str(one): bounds.behind for one, bounds in report.partitions.items()}
    return found


def _when(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(seconds))
