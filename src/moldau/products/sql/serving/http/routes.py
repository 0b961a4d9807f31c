"""Paths of the HTTP interface and their responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

import moldau
from moldau.errors import InvariantError, MoldauError
from moldau.products.service.people import Role, is_admitted, person_of
from moldau.products.service.routes import ServedRoute
from moldau.products.service.service import Service
from moldau.products.sql.engine.answers import Rows
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.statements import Print, RunQuery
from moldau.products.sql.serving.http.acks import AcksResponse, Parts
from moldau.products.sql.serving.http.bodies import decoded, lines_of, read_asked, read_object
from moldau.products.sql.serving.http.commands import known_commands, status_of
from moldau.products.sql.serving.http.errors import (
    BAD_REQUEST,
    BAD_STATEMENT,
    NOT_FOUND,
    NOT_READY,
    RejectedRequest,
    generic_error,
    statement_error,
    statement_text,
)
from moldau.products.sql.serving.http.forms import JSON, KSQL_JSON, QUERY_FORMS, STREAM_FORMS, Form, form_for
from moldau.products.sql.serving.http.live import LiveResponse, Sending
from moldau.products.sql.serving.http.statements import (
    Statements,
    check_script,
    read_script,
    run_script,
    session_for,
    set_property,
)
from moldau.products.sql.serving.http.values import encoded

MAX_RUNNING = 8
"""Requests whose statements run at once. Others wait, so that statements do not take the threads of those who read."""
COMPLETED, LIMIT_REACHED = "Query Completed", "Limit Reached"

Endpoint = Callable[[Request], Awaitable[Response]]


class ServedSql(Protocol):
    """An instance of the service. `service_id`: of all instances."""

    service_id: str

    @property
    def engine(self) -> Statements | None:
        """None while another instance runs the statements, or none yet."""

    @property
    def leader_address(self) -> str | None:
        """The URL of another instance that runs the statements; None if none is known."""


class _CloseQuery(msgspec.Struct, frozen=True):
    queryId: str  # noqa: N815 - the name in the request


class _Target(msgspec.Struct, frozen=True):
    target: str


def sql_routes(
    served: ServedSql, service: Service, cluster_id: str, sending: Sending | None = None
) -> list[ServedRoute]:
    """The routes of an instance. `cluster_id`: of the Kafka cluster. `sending`: with other bounds."""
    routes = _Routes(served, service, cluster_id, sending or Sending())
    return [
        _route("GET", "/info", routes.info),
        _route("GET", "/healthcheck", routes.health, needs=Role.NOBODY),
        _route("GET", "/clusterStatus", routes.cluster_status),
        _route("GET", "/status", routes.statuses),
        _route("GET", "/status/{kind}/{name:path}/{action}", routes.status),
        _route("GET", "/is_valid_property/{name}", routes.is_valid_property),
        _route("POST", "/ksql", routes.run),
        _route("POST", "/query", routes.query),
        _route("POST", "/query-stream", routes.query_stream),
        _route("POST", "/close-query", routes.close_query),
        _route("POST", "/inserts-stream", routes.insert, needs=Role.EDITOR),
    ]


class _Routes:
    def __init__(self, served: ServedSql, service: Service, cluster_id: str, sending: Sending) -> None:
        self._served = served
        self._service = service
        self._cluster_id = cluster_id
        self._sending = sending
        self._turns = asyncio.Semaphore(MAX_RUNNING)
        self._statements = 0

    # -- the instance

    async def info(self, request: Request) -> Response:
        """Every instance answers this."""
        found = {
            "version": moldau.__version__,
            "kafkaClusterId": self._cluster_id,
            "ksqlServiceId": self._served.service_id,
            "serverStatus": "RUNNING",
        }
        return _json(request, {"KsqlServerInfo": found})

    async def health(self, request: Request) -> Response:
        """An instance that waits to take over is healthy too. Without any that runs statements, none is."""
        runs = self._served.engine is not None
        is_healthy = runs or self._served.leader_address is not None
        found = {
            "isHealthy": is_healthy,
            "details": {name: {"isHealthy": is_healthy} for name in ("metastore", "kafka", "commandRunner")},
            "serverState": "READY" if runs else "WAITING",
        }
        return _json(request, found, 200 if is_healthy else 503)

    async def cluster_status(self, request: Request) -> Response:
        """Only the instance that runs the statements has queries."""
        statuses = await run_in_threadpool(self._engine().statuses)
        now_ms = time.time_ns() // 1_000_000
        parts = ("activeStores", "activePartitions", "standByStores", "standByPartitions")
        host = {
            "hostAlive": True,
            "lastStatusUpdateMs": now_ms,
            "activeStandbyPerQuery": {one.query.id: {part: [] for part in parts} for one in statuses},
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": now_ms},
        }
        return _json(request, {"clusterStatus": {request.headers.get("host", ""): host}})

    # -- statements

    async def run(self, request: Request) -> Response:
        """Runs the statements one after another. A script with one that does not belong here runs not at all."""
        asked, engine = await read_asked(request), self._engine()
        script = read_script(engine, asked)
        check_script(script, person_of(request))
        first, self._statements = self._statements, self._statements + len(script)

        def run() -> object:
            return run_script(engine, script, session_for(engine, asked), first)

        async with self._turns:
            return _json(request, await run_in_threadpool(run))

    async def statuses(self, request: Request) -> Response:
        found = {command: status["status"] for command, status in known_commands(self._engine().catalog).items()}
        return _json(request, {"commandStatuses": found})

    async def status(self, request: Request) -> Response:
        kind, name, action = (str(request.path_params[part]) for part in ("kind", "name", "action"))
        found = status_of(self._engine().catalog, kind, name, action)
        if found is None:
            raise RejectedRequest(NOT_FOUND, "Command not found")
        return _json(request, found)

    async def is_valid_property(self, request: Request) -> Response:
        name, engine = str(request.path_params["name"]), self._engine()
        await run_in_threadpool(set_property, engine, Session(), name, None)
        return _json(request, True)

    # -- rows

    async def query(self, request: Request) -> Response:
        return await self._rows(request, QUERY_FORMS)

    async def query_stream(self, request: Request) -> Response:
        return await self._rows(request, STREAM_FORMS)

    async def _rows(self, request: Request, forms: Sequence[Form]) -> Response:
        """Runs one SELECT or PRINT, and sends its rows until it ends."""
        asked, engine = await read_asked(request), self._engine()
        script = read_script(engine, asked)
        if len(script) != 1:
            raise RejectedRequest(BAD_STATEMENT, f"send one query, not {len(script)} statements", asked.sql)
        parsed = script[0]
        if not isinstance(parsed.statement, RunQuery | Print):
            told = "only SELECT and PRINT are sent here: send other statements to /ksql"
            raise RejectedRequest(BAD_STATEMENT, told, statement_text(parsed))
        statement = parsed.statement
        limit = statement.limit if isinstance(statement, Print) else statement.query.limit
        self._sending.take_place()
        try:
            async with self._turns:
                answer = await run_in_threadpool(lambda: engine.run(parsed, session_for(engine, asked)))
            if not isinstance(answer, Rows):
                raise InvariantError(f"{type(answer).__name__} answers a query")
        except BaseException as error:
            self._sending.give_back()
            if isinstance(error, RejectedRequest) or not isinstance(error, MoldauError):
                raise
            raise statement_error(parsed, error) from error
        return LiveResponse(
            self._sending,
            answer.stream,
            form_for(request.headers.get("accept", ""), forms),
            person_of(request),
            COMPLETED if limit is None else LIMIT_REACHED,
            self._may_go_on(request),
        )

    async def close_query(self, request: Request) -> Response:
        body = await read_object(request, _CloseQuery)
        self._sending.close(body.queryId, person_of(request))
        return Response()

    async def insert(self, request: Request) -> Response:
        """Rows come and acknowledgements go at the same time."""
        engine, parts = self._engine(), lines_of(request)
        first, parts = await _first_line(parts)
        target = decoded(first, _Target).target
        relation = engine.catalog.relations.get(target.strip("`").lower())
        if relation is None:
            near = engine.catalog.nearest_relation(target)
            hint = "" if near is None else f"; did you mean {near}?"
            raise RejectedRequest(BAD_REQUEST, f"there is no stream or table {target}{hint}")
        self._sending.take_place()
        return AcksResponse(self._sending, engine, relation, parts, self._may_go_on(request))

    def _engine(self) -> Statements:
        """Raises RejectedRequest."""
        engine = self._served.engine
        if engine is None:
            leader = self._served.leader_address
            where = "no other one is known to do so: try again" if leader is None else f"send it to {leader}"
            raise RejectedRequest(NOT_READY, f"this instance does not run statements: {where}")
        return engine

    def _may_go_on(self, request: Request) -> Callable[[], bool]:
        is_open = is_admitted(request)
        return lambda: is_open() and not self._service.is_closed


async def _first_line(parts: Parts) -> tuple[bytes, Parts]:
    """The first line of a request, and the parts after it. Raises RejectedRequest without a line."""
    async for lines in parts:
        if lines:
            return lines[0], _with_first(lines[1:], parts)
    raise RejectedRequest(BAD_REQUEST, 'the first line names the stream: {"target": "orders"}')


async def _with_first(first: list[bytes], parts: Parts) -> Parts:
    yield first
    async for lines in parts:
        yield lines


# --- HTTP ---


def _route(method: str, path: str, answer: Endpoint, *, needs: Role = Role.VIEWER) -> ServedRoute:
    async def endpoint(request: Request) -> Response:
        try:
            return await answer(request)
        except RejectedRequest as error:
            return _json(request, error.body, error.status)
        except ClientDisconnect:
            return Response(status_code=400)

    return ServedRoute(path, endpoint, needs=needs, methods=[method])


def _json(request: Request, found: object, status: int = 200) -> Response:
    media_type = KSQL_JSON if KSQL_JSON in request.headers.get("accept", "") else JSON
    return Response(encoded(found), status, media_type=media_type)


async def not_found(request: Request, _: Exception) -> Response:
    return error(404, f"there is no {request.method} {request.url.path}")


def error(status: int, sentence: str) -> Response:
    """Of the service, such as a request without a login."""
    return Response(encoded(generic_error(status * 100, sentence)), status, media_type=JSON)
