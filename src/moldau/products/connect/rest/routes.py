"""Paths, methods and codes of Kafka Connect's REST interface. Answers are JSON, errors `{"error_code", "message"}`.

Reading needs a viewer. Pausing, resuming, stopping and restarting need an editor. Everything that brings code, settings
or offsets needs an admin: a connector runs with the rights of the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from urllib.parse import unquote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from moldau.products.connect.core import refusals
from moldau.products.connect.core.configs import Target
from moldau.products.connect.requests import Requests
from moldau.products.connect.rest.bodies import (
    changes_of,
    config_of,
    creation_of,
    object_of,
    read_body,
    whole_config,
)
from moldau.products.connect.rest.forwarding import PARAMETER, Forwarded, Peers
from moldau.products.connect.rest.progress import PROGRESS, Gathering
from moldau.products.connect.worker import Worker
from moldau.products.service.people import Role
from moldau.products.service.routes import ServedRoute

JSON = "application/json"
VIEWER, EDITOR, ADMIN = Role.VIEWER, Role.EDITOR, Role.ADMIN
CONNECTOR = "/connectors/{name}"
TASK = "/connectors/{name}/tasks/{task:int}"
HEALTHY = {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
STARTING = {"status": "starting", "message": "Worker is still starting up."}


class Asked(msgspec.Struct, frozen=True):
    """A request. `path`: the parameters of the path; `body`: empty if there is none."""

    method: str
    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: bytes
    raw_path: str
    raw_query: str
    authorization: str | None

    @property
    def name(self) -> str:
        return self.path["name"]

    @property
    def task(self) -> int:
        return int(self.path["task"])

    @property
    def may_forward(self) -> bool:
        return self.query.get(PARAMETER) != ["false"]

    def says(self, name: str, default: bool = False) -> bool:
        return self.query.get(name, [str(default)])[0].lower() == "true"


class Told(msgspec.Struct, frozen=True):
    """An answer. `content`: None is no body."""

    content: object = None
    status: int = 200


Act = Callable[[Asked], Told | Forwarded]


class Routes:
    def __init__(self, worker: Worker) -> None:
        """Raises WorkerSettingsError."""
        self._worker = worker
        self._peers = Peers(worker.peers_ca)
        self._requests = Requests(worker)
        self._gathering = Gathering(worker, self._requests, self._peers)

    def routes(self) -> list[ServedRoute]:
        return [*self._of_server(), *self._of_connectors(), *self._of_plugins()]

    def _of_server(self) -> list[ServedRoute]:
        return [
            _route("GET", "/", VIEWER, lambda _: Told(self._requests.about())),
            _route("GET", "/health", Role.NOBODY, self._health),
            _route("GET", "/admin/loggers", VIEWER, lambda _: Told(self._worker.loggers.every())),
            _route("GET", "/admin/loggers/{name}", VIEWER, lambda asked: Told(self._worker.loggers.one(asked.name))),
            _route("PUT", "/admin/loggers/{name}", ADMIN, self._set_level),
        ]

    def _of_connectors(self) -> list[ServedRoute]:
        ask = self._requests
        return [
            _route("GET", "/connectors", VIEWER, self._connectors),
            _route("POST", "/connectors", ADMIN, self._led(self._create)),
            _route("GET", CONNECTOR, VIEWER, lambda asked: Told(ask.info(asked.name))),
            _route("DELETE", CONNECTOR, ADMIN, self._led(self._delete)),
            _route("GET", f"{CONNECTOR}/config", VIEWER, lambda asked: Told(ask.config(asked.name))),
            _route("PUT", f"{CONNECTOR}/config", ADMIN, self._led(self._replace)),
            _route("PATCH", f"{CONNECTOR}/config", ADMIN, self._led(self._patch)),
            _route("GET", f"{CONNECTOR}/status", VIEWER, lambda asked: Told(ask.status(asked.name))),
            _route("GET", f"{CONNECTOR}/tasks", VIEWER, lambda asked: Told(ask.tasks(asked.name))),
            _route("GET", f"{CONNECTOR}/progress", VIEWER, self._progress),
            _route("GET", f"{TASK}/status", VIEWER, lambda asked: Told(ask.task_status(asked.name, asked.task))),
            _route("POST", f"{TASK}/restart", EDITOR, self._restart_task),
            _route("GET", f"{CONNECTOR}/topics", VIEWER, lambda asked: Told(ask.topics(asked.name))),
            _route("PUT", f"{CONNECTOR}/topics/reset", EDITOR, self._reset_topics),
            _route("PUT", f"{CONNECTOR}/pause", EDITOR, self._led(partial(self._retarget, Target.PAUSED, 202))),
            _route("PUT", f"{CONNECTOR}/resume", EDITOR, self._led(partial(self._retarget, Target.STARTED, 202))),
            _route("PUT", f"{CONNECTOR}/stop", EDITOR, self._led(partial(self._retarget, Target.STOPPED, 204))),
            _route("POST", f"{CONNECTOR}/restart", EDITOR, self._led(self._restart)),
            _route("GET", f"{CONNECTOR}/offsets", VIEWER, lambda asked: Told(ask.offsets(asked.name))),
            _route("PATCH", f"{CONNECTOR}/offsets", ADMIN, self._led(self._alter_offsets)),
            _route("DELETE", f"{CONNECTOR}/offsets", ADMIN, self._led(self._reset_offsets)),
        ]

    def _of_plugins(self) -> list[ServedRoute]:
        ask, plugin = self._requests, "/connector-plugins/{name}/config"
        return [
            _route(
                "GET",
                "/connector-plugins",
                VIEWER,
                lambda asked: Told(ask.plugins(only_connectors=asked.says("connectorsOnly", True))),
            ),
            _route("GET", plugin, VIEWER, lambda asked: Told(ask.plugin_settings(asked.name))),
            # a validation reads the references of the configuration, and imports the class
            _route("PUT", f"{plugin}/validate", ADMIN, self._validate),
        ]

    # -- the server

    def _health(self, _: Asked) -> Told:
        return Told(HEALTHY) if self._worker.is_ready else Told(STARTING, 503)

    def _set_level(self, asked: Asked) -> Told | Forwarded:
        level = object_of(asked.body).get("level")
        if asked.query.get("scope", ["worker"])[0].lower() != "cluster":
            return Told(self._requests.set_level(asked.name, level))

        def everywhere(_: Asked) -> Told:
            self._requests.set_level_everywhere(asked.name, level)
            return Told(status=204)

        return self._led(everywhere)(asked)

    # -- connectors

    def _create(self, asked: Asked) -> Told:
        return Told(self._requests.create(*creation_of(object_of(asked.body))), 201)

    def _replace(self, asked: Asked) -> Told:
        is_new, answer = self._requests.replace(asked.name, whole_config(object_of(asked.body)))
        return Told({**answer, "tasks": []}, 201) if is_new else Told(answer)

    def _patch(self, asked: Asked) -> Told:
        return Told(self._requests.patch(asked.name, config_of(object_of(asked.body))))

    def _delete(self, asked: Asked) -> Told:
        self._requests.delete(asked.name)
        return Told(status=204)

    def _retarget(self, target: Target, status: int, asked: Asked) -> Told:
        self._requests.retarget(asked.name, target)
        return Told(status=status)

    def _restart(self, asked: Asked) -> Told:
        tasks, failed = asked.says("includeTasks"), asked.says("onlyFailed")
        answer = self._requests.restart(asked.name, include_tasks=tasks, only_failed=failed)
        return Told(answer, 202) if tasks or failed else Told(status=204)

    def _restart_task(self, asked: Asked) -> Told | Forwarded:
        self._requests.require_task(asked.name, asked.task)
        if not self._worker.runs_task(asked.name, asked.task):
            return self._forwarded(asked, lambda: self._worker.owner_of_task(asked.name, asked.task))
        self._requests.restart_task(asked.name, asked.task)
        return Told(status=204)

    def _connectors(self, asked: Asked) -> Told:
        expand = asked.query.get("expand", [])
        found = self._requests.connectors(expand)
        if PROGRESS in expand and isinstance(found, dict):
            tasks = self._gathering.of(list(found), asked.authorization, may_ask=asked.may_forward)
            found = {name: {**one, PROGRESS: tasks[name]} for name, one in found.items()}
        return Told(found)

    def _progress(self, asked: Asked) -> Told:
        self._requests.tasks(asked.name)  # raises Refusal for a connector that does not exist
        tasks = self._gathering.of([asked.name], asked.authorization, may_ask=asked.may_forward)
        delivery = self._requests.delivery(asked.name)
        return Told({"name": asked.name, "delivery": delivery, "tasks": tasks[asked.name]})

    def _reset_topics(self, asked: Asked) -> Told:
        self._requests.reset_topics(asked.name)
        return Told(status=202)

    def _alter_offsets(self, asked: Asked) -> Told:
        return Told(self._requests.alter_offsets(asked.name, changes_of(object_of(asked.body))))

    def _reset_offsets(self, asked: Asked) -> Told:
        return Told(self._requests.reset_offsets(asked.name))

    def _validate(self, asked: Asked) -> Told:
        return Told(self._requests.validate(asked.name, config_of(object_of(asked.body))))

    # -- the leader

    def _led(self, act: Callable[[Asked], Told]) -> Act:
        """The leader acts; other workers forward the request to it."""

        def led(asked: Asked) -> Told | Forwarded:
            if self._worker.is_leader():
                return act(asked)
            return self._forwarded(asked, self._worker.owner_of_leader)

        return led

    def _forwarded(self, asked: Asked, find: Callable[[], str]) -> Forwarded:
        if not asked.may_forward:
            raise refusals.moving()
        address = find().rstrip("/")
        if address == self._worker.address.rstrip("/"):
            raise refusals.moving()
        url = f"{address}{asked.raw_path}"
        return self._peers.forward(asked.method, url, asked.raw_query, asked.body, asked.authorization)


def _route(method: str, path: str, needs: Role, act: Act) -> ServedRoute:
    async def endpoint(request: Request) -> Response:
        try:
            body = await read_body(request) if method in ("POST", "PUT", "PATCH") else b""
            query = {name: request.query_params.getlist(name) for name in request.query_params}
            asked = Asked(
                method,
                {name: unquote(str(value)) for name, value in request.path_params.items()},
                query,
                body,
                request.scope["path"],
                request.url.query,
                request.headers.get("authorization"),
            )
            found = await run_in_threadpool(act, asked)
        except refusals.Refusal as refusal:
            return error(refusal.status, str(refusal))
        if isinstance(found, Forwarded):
            return Response(found.body, found.status, media_type=JSON)
        content = b"" if found.content is None else msgspec.json.encode(found.content)
        return Response(content, found.status, media_type=JSON)

    return ServedRoute(path, endpoint, needs=needs, methods=[method])


def with_encoded_paths(app: ASGIApp) -> ASGIApp:
    """The application with paths as they were sent: the name of a connector may have a slash, as %2F. A slash at the
    end of a path does not count."""

    async def encoded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path = scope["raw_path"].decode("latin-1")
            scope = {**scope, "path": path.rstrip("/") or "/"}
        await app(scope, receive, send)

    return encoded


async def not_found(request: Request, _: Exception) -> Response:
    return error(404, "HTTP 404 Not Found")


def error(status: int, message: str) -> Response:
    if status == 405:
        message = "HTTP 405 Method Not Allowed"
    return Response(msgspec.json.encode({"error_code": status, "message": message}), status, media_type=JSON)
