"""All services over one cluster, and the table of their routes with the roles that may call them.

`least`: the role that a row needs. `of`: whether a role on the subject of the path is enough (SUBJECT), a role on any
subject (ANY), or only a role for everything (ALL).
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

from msgspec.structs import replace

from moldau.client.protocol.access import ClusterAccess
from moldau.products.connect.rest.served import application
from moldau.products.connect.settings import WorkerSettings
from moldau.products.connect.worker import Worker
from moldau.products.console.service import Console
from moldau.products.pipelines.looking.board.pages import open_board
from moldau.products.pipelines.looking.board.state import BoardState
from moldau.products.pipelines.spec.spec import parse_spec
from moldau.products.service.logins.opened import Opening, callers_entrance, read_opening
from moldau.products.service.people import Role
from moldau.products.service.routes import ServedFiles, ServedRoute
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread
from moldau.products.sql.serving.http.routes import error, not_found, sql_routes
from moldau.testing import Cluster
from moldau.transport.http_authorization import new_secret
from tests.support.connect_workers import TEST_PROGRAMS
from tests.support.schema_registry import SchemaRegistry

NOBODY, VIEWER, EDITOR, ADMIN = Role
SUBJECT, ANY, ALL = "a role on the subject", "a role on any subject", "a role for everything"
S, V = "/subjects/{subject:path}", "/subjects/{subject:path}/versions/{version}"
C = "/connectors/{name}"
SCHEMA = {"schema": '"string"'}
WAIT_S = 60


@dataclass(frozen=True)
class Row:
    """`path`: the called path, if it differs from the route; `body`: of a POST or PUT, as JSON or as a form."""

    service: str
    method: str
    route: str
    least: Role
    of: str = ALL
    path: str = ""
    body: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.service} {self.method} {self.route}"

    @property
    def called(self) -> str:
        return self.path or re.sub(r"\{(\w+)(:\w+)?\}", lambda found: NAMES[found[1]], self.route)


NAMES = {"subject": "orders-value", "version": "1", "id": "1", "topic": "orders", "group": "g", "broker": "1"}
NAMES |= {
    "pipeline": "p",
    "query": "CTAS_A_0",
    "kind": "stream",
    "name": "orders",
    "action": "create",
    "connector": "rows",
}


def pages(service: str, *routes: str) -> list[Row]:
    return [Row(service, "GET", route, VIEWER) for route in routes]


def login_pages(service: str) -> list[Row]:
    return [
        Row(service, "GET", "/me", NOBODY),
        Row(service, "GET", "/login", NOBODY),
        Row(service, "POST", "/login", NOBODY, body={"name": "x", "password": "y"}),
        Row(service, "POST", "/logout", NOBODY),
        Row(service, "POST", "/logout-everywhere", NOBODY),
        Row(service, "GET", "/static", NOBODY, path="/static/style.css"),
    ]


TABLE = [
    # the web console
    *pages("console", "/", "/topics", "/topics/{topic}", "/topics/{topic}/tail", "/topics/{topic}/records"),
    *pages("console", "/topics/{topic}/records.jsonl", "/topics/{topic}/stream", "/groups", "/groups/{group:any}"),
    *pages("console", "/pipelines", "/pipelines/{pipeline:any}", "/brokers", "/brokers/{broker}", "/live", "/metrics"),
    *pages("console", "/sql", "/sql/queries/{query}", "/connectors", "/connectors/{connector:any}"),
    Row("console", "GET", "/sql/editor", EDITOR),
    Row("console", "POST", "/sql/run", EDITOR, body={"sql": "SHOW STREAMS;"}),
    Row("console", "POST", "/connect-actions", EDITOR, body={"connector": "a", "action": "pause"}),
    *login_pages("console"),
    # the board of a pipeline
    *pages("board", "/", "/live", "/status.json", "/metrics"),
    *login_pages("board"),
    # the registry
    Row("registry", "GET", "/", VIEWER, ANY),
    Row("registry", "GET", "/contexts", VIEWER, ANY),
    Row("registry", "GET", "/subjects", VIEWER, ANY),
    Row("registry", "GET", f"{V}/schema", VIEWER, SUBJECT),
    Row("registry", "GET", f"{V}/referencedby", VIEWER, SUBJECT),
    Row("registry", "GET", V, VIEWER, SUBJECT),
    Row("registry", "DELETE", V, EDITOR, SUBJECT),
    Row("registry", "GET", f"{S}/versions", VIEWER, SUBJECT),
    Row("registry", "POST", f"{S}/versions", EDITOR, SUBJECT, body=SCHEMA),
    Row("registry", "POST", S, VIEWER, SUBJECT, body=SCHEMA),
    Row("registry", "DELETE", S, EDITOR, SUBJECT),
    Row("registry", "GET", "/schemas", VIEWER, ANY),
    Row("registry", "GET", "/schemas/types", VIEWER, ANY),
    Row("registry", "GET", "/schemas/ids/{id}/schema", VIEWER, ANY),
    Row("registry", "GET", "/schemas/ids/{id}/subjects", VIEWER, ANY),
    Row("registry", "GET", "/schemas/ids/{id}/versions", VIEWER, ANY),
    Row("registry", "GET", "/schemas/ids/{id}", VIEWER, ANY),
    Row("registry", "POST", f"/compatibility{V}", VIEWER, SUBJECT, body=SCHEMA),
    Row("registry", "POST", f"/compatibility{S}/versions", VIEWER, SUBJECT, body=SCHEMA),
    Row("registry", "GET", "/config", VIEWER, ANY),
    Row("registry", "PUT", "/config", ADMIN, body={"compatibility": "BACKWARD"}),
    Row("registry", "DELETE", "/config", ADMIN),
    Row("registry", "GET", "/config/{subject:path}", VIEWER, SUBJECT),
    Row("registry", "PUT", "/config/{subject:path}", ADMIN, SUBJECT, body={"compatibility": "NONE"}),
    Row("registry", "DELETE", "/config/{subject:path}", ADMIN, SUBJECT),
    Row("registry", "GET", "/mode", VIEWER, ANY),
    Row("registry", "GET", "/mode/{subject:path}", VIEWER, SUBJECT),
    Row("registry", "GET", "/metrics", VIEWER),
    # connectors
    Row("connect", "GET", "/", VIEWER),
    Row("connect", "GET", "/health", NOBODY),
    Row("connect", "GET", "/metrics", VIEWER),
    Row("connect", "GET", "/admin/loggers", VIEWER),
    Row("connect", "GET", "/admin/loggers/{name}", VIEWER),
    Row("connect", "PUT", "/admin/loggers/{name}", ADMIN, body={"level": "INFO"}),
    Row("connect", "GET", "/connectors", VIEWER),
    Row("connect", "POST", "/connectors", ADMIN, body={"name": "a"}),
    Row("connect", "GET", C, VIEWER),
    Row("connect", "DELETE", C, ADMIN),
    *(
        Row("connect", "GET", f"{C}/{part}", VIEWER)
        for part in ("config", "status", "tasks", "topics", "offsets", "progress")
    ),
    *(Row("connect", method, f"{C}/config", ADMIN) for method in ("PUT", "PATCH")),
    *(Row("connect", method, f"{C}/offsets", ADMIN) for method in ("PATCH", "DELETE")),
    *(Row("connect", "PUT", f"{C}/{part}", EDITOR) for part in ("pause", "resume", "stop", "topics/reset")),
    Row("connect", "POST", f"{C}/restart", EDITOR),
    Row("connect", "GET", f"{C}/tasks/{{task:int}}/status", VIEWER, path="/connectors/a/tasks/0/status"),
    Row("connect", "POST", f"{C}/tasks/{{task:int}}/restart", EDITOR, path="/connectors/a/tasks/0/restart"),
    Row("connect", "GET", "/connector-plugins", VIEWER),
    Row("connect", "GET", "/connector-plugins/{name}/config", VIEWER),
    Row("connect", "PUT", "/connector-plugins/{name}/config/validate", ADMIN),
    # the SQL service
    Row("sql", "GET", "/healthcheck", NOBODY),
    *pages("sql", "/info", "/clusterStatus", "/status", "/status/{kind}/{name:path}/{action}", "/metrics"),
    Row("sql", "GET", "/is_valid_property/{name}", VIEWER, path="/is_valid_property/sql.dialect"),
    Row("sql", "POST", "/ksql", VIEWER, body={"ksql": "SHOW STREAMS;"}),
    Row("sql", "POST", "/query", VIEWER, body={"ksql": "SELECT * FROM orders;"}),
    Row("sql", "POST", "/query-stream", VIEWER, body={"ksql": "SELECT * FROM orders;"}),
    Row("sql", "POST", "/close-query", VIEWER, body={"queryId": "a"}),
    Row("sql", "POST", "/inserts-stream", EDITOR, body={"target": "orders"}),
]
WITH_PAGES = ("console", "board")
"""Users log in there by a form."""
SERVICES = (*WITH_PAGES, "registry", "sql", "connect")
WHO = {"nobody": NOBODY, "viewer": VIEWER, "editor": EDITOR, "admin": ADMIN}
USERS = {name: f"{name}'s" for name in WHO if name != "nobody"}
TOKENS = {name: new_secret() for name in (*USERS, "prefixed")}
"""Of machines: the secret, and its entry in the file. A machine hides the user of the same name."""
PEOPLE = '[login]\nwithout_tokens = "service"\nmechanism = "SCRAM-SHA-512"\n[roles]\n'
PEOPLE += "".join(f'{name} = ["{name}"]\n' for name in USERS)
PEOPLE += "".join(f'[machines.{name}-program]\nrole = "{name}"\nsha256 = "{TOKENS[name][1]}"\n' for name in USERS)
PEOPLE += f'[machines.prefixed]\nsubjects = {{"orders-" = "admin"}}\nsha256 = "{TOKENS["prefixed"][1]}"\n'


class WaitingInstance:
    """Of a SQL service: another instance runs its statements."""

    service_id, engine, leader_address = "shop", None, "http://other:8088"


class Running:
    """All services over one cluster. `routes`: of each service, by method and path."""

    def __init__(self, cluster: Cluster, directory: Path, life: ExitStack) -> None:
        self.routes: dict[str, dict[tuple[str, str], ServedRoute | ServedFiles]] = {}
        self.ports: dict[str, int] = {}
        self.cookies: dict[tuple[str, str], str] = {}
        self._life = life
        login = directory / "people.toml"
        login.write_text(PEOPLE)
        login.chmod(0o600)
        opening = read_opening("127.0.0.1", login)
        console = Console(cluster.access(), opening)
        self._serve("console", console.service, console.app())
        life.callback(console.desks.close)
        self._serve_board(opening, cluster.access(), directory)
        registry = SchemaRegistry(cluster.access(), login=login)
        life.callback(registry.close)
        self.ports["registry"] = int(registry.url.rpartition(":")[2])
        self._note("registry", registry.service)
        sql = Service("sql", callers_entrance(opening, cluster.access()).admit)
        self._serve("sql", sql, sql.app(sql_routes(WaitingInstance(), sql, "cluster"), not_found, error=error))
        # it is not started: the roles come before everything else
        worker = Worker(cluster.access(), WorkerSettings({}), TEST_PROGRAMS, "http://127.0.0.1:1", is_standalone=True)
        life.callback(worker.close)
        connect = Service("connect", callers_entrance(opening, cluster.access()).admit)
        self._serve("connect", connect, application(worker, connect))

    def _serve_board(self, opening: Opening, access: ClusterAccess, directory: Path) -> None:
        text = "name: p\nbootstrap_servers: 127.0.0.1:9092\nsources: {o: {topic: o, format: json, schema: a int}}\n"
        text += "flows: {f: select * from o}\ntargets: {t: {from: f, path: out}}\n"
        page = replace(parse_spec(text, file_name="p.yaml", directory=directory), access=access)
        self._serve("board", *open_board(BoardState(page), opening))

    def _serve(self, name: str, service: Service, app: object) -> None:
        listening = self._life.enter_context(socket.create_server(("127.0.0.1", 0)))
        listening.setblocking(False)
        self.ports[name] = listening.getsockname()[1]
        self._life.enter_context(served_in_thread(service, app, listening))  # type: ignore[arg-type]
        self._note(name, service)

    def _note(self, name: str, service: Service) -> None:
        found = self.routes[name] = {}
        for route in service.routes:
            methods = {"GET"} if isinstance(route, ServedFiles) else (route.methods or set()) - {"HEAD"}
            found |= {(method, route.path): route for method in methods}

    def ask(
        self, service: str, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> tuple[int, Mapping[str, str]]:
        """The status and the headers. A stream is not read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[service], timeout=WAIT_S)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, {name.lower(): text for name, text in answer.getheaders()}
        finally:
            connection.close()

    def page(self, service: str, path: str, headers: Mapping[str, str]) -> tuple[str, str]:
        """The text, and its cookies."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[service], timeout=WAIT_S)
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        text = answer.read().decode()
        cookies = [value.partition(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
        connection.close()
        return text, "; ".join(cookies)

    def log_in(self, service: str, name: str) -> str:
        """The cookie of a new session."""
        page, form_cookie = self.page(service, "/login", {})
        body = urlencode({"name": name, "password": USERS[name], "csrf": token_in(page), "next": "/"})
        status, headers = self.ask(service, "POST", "/login", {**FORM, "cookie": form_cookie}, body.encode())
        assert status == HTTPStatus.SEE_OTHER
        return headers["set-cookie"].partition(";")[0]

    def call(self, row: Row, who: str) -> int:
        """The status of the row's request with this login."""
        headers: dict[str, str] = {}
        body = None
        if row.service not in WITH_PAGES:
            if who != "nobody":
                headers["authorization"] = f"Bearer {TOKENS[who][0]}"
            body = json.dumps(row.body).encode() if row.body else None
        else:
            fields = dict(row.body)
            if who != "nobody":
                headers["cookie"] = self.session(row.service, who)
                if row.route.startswith("/logout"):
                    del self.cookies[row.service, who]
                fields["csrf"] = token_in(self.page(row.service, "/me", headers)[0])
            if row.method == "POST":
                headers |= FORM
                body = urlencode(fields).encode()
        return self.ask(row.service, row.method, row.called, headers, body)[0]

    def session(self, service: str, who: str) -> str:
        """The cookie of a session, opened at the first call."""
        if (service, who) not in self.cookies:
            self.cookies[service, who] = self.log_in(service, who)
        return self.cookies[service, who]


FORM = {"content-type": "application/x-www-form-urlencoded"}


def token_in(page: str) -> str:
    found = re.search('name="csrf" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]
