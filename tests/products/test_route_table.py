"""Who may call which route of which service: the table, and every row called over HTTP as each role.

A route that is not in the table fails the test. `least`: the role that a row needs; `of`: whether a role on the subject
of the path is enough (SUBJECT), a role on any subject (ANY), or none but a role for everything (ALL).
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode

import pytest

from moldau.client.protocol.access import ClusterAccess
from moldau.products.console.service import Console
from moldau.products.pipelines.looking.board.pages import BoardPages
from moldau.products.pipelines.looking.board.state import BoardState
from moldau.products.pipelines.page.page import parse_page
from moldau.products.service.logins.opened import Opening, callers_entrance, read_opening
from moldau.products.service.people import Role
from moldau.products.service.routes import ANY_SUBJECT, ServedFiles, ServedRoute
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread
from moldau.testing import Cluster
from moldau.transport.http_authorization import new_secret
from tests.support.schema_registry import SchemaRegistry

NOBODY, VIEWER, EDITOR, ADMIN = Role
SUBJECT, ANY, ALL = "a role on the subject", "a role on any subject", "a role for everything"
S, V = "/subjects/{subject:path}", "/subjects/{subject:path}/versions/{version}"
SCHEMA = {"schema": '"string"'}
WAIT_S = 60


@dataclass(frozen=True)
class Row:
    """`path`: as it is called, where it is not the route's; `body`: of a POST or PUT, as JSON or as a form."""

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
NAMES |= {"pipeline": "p"}


def pages(service: str, *routes: str, path: str = "") -> list[Row]:
    return [Row(service, "GET", route, VIEWER, ALL, path) for route in routes]


TABLE = [
    # the web console
    *pages("console", "/", "/topics", "/topics/{topic}", "/topics/{topic}/tail", "/topics/{topic}/records"),
    *pages("console", "/topics/{topic}/records.jsonl", "/topics/{topic}/stream", "/groups", "/groups/{group:any}"),
    *pages("console", "/pipelines", "/pipelines/{pipeline:any}", "/brokers", "/brokers/{broker}", "/live", "/metrics"),
    Row("console", "GET", "/me", NOBODY),
    Row("console", "GET", "/login", NOBODY),
    Row("console", "POST", "/login", NOBODY, body={"name": "x", "password": "y"}),
    Row("console", "POST", "/logout", NOBODY),
    Row("console", "POST", "/logout-everywhere", NOBODY),
    Row("console", "GET", "/static", NOBODY, path="/static/style.css"),
    # the board of a pipeline
    *pages("board", "/", "/live", "/status.json", "/metrics"),
    Row("board", "GET", "/static", NOBODY, path="/static/style.css"),
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
]
SERVICES = ("console", "board", "registry")
WHO = {"nobody": NOBODY, "viewer": VIEWER, "editor": EDITOR, "admin": ADMIN}
USERS = {name: f"{name}'s" for name in WHO if name != "nobody"}
TOKENS = {name: new_secret() for name in (*USERS, "prefixed")}
"""Of machines: a secret, and what the file has of it."""
PEOPLE = '[login]\nwithout_tokens = "service"\nmechanism = "SCRAM-SHA-512"\n[roles]\n'
PEOPLE += "".join(f'{name} = ["{name}"]\n' for name in USERS)
PEOPLE += "".join(f'[machines.{name}]\nrole = "{name}"\nsha256 = "{TOKENS[name][1]}"\n' for name in USERS)
PEOPLE += f'[machines.prefixed]\nsubjects = {{"orders-" = "admin"}}\nsha256 = "{TOKENS["prefixed"][1]}"\n'


class Running:
    """All services over one cluster. `routes`: as each service has them, by method and path."""

    def __init__(self, cluster: Cluster, directory: Path, life: ExitStack) -> None:
        self.routes: dict[str, dict[tuple[str, str], ServedRoute | ServedFiles]] = {}
        self.ports: dict[str, int] = {}
        self.cookies: dict[str, str] = {}
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

    def _serve_board(self, opening: Opening, access: ClusterAccess, directory: Path) -> None:
        page = "name: p\nbootstrap_servers: 127.0.0.1:9092\nsources: {o: {topic: o, format: json, schema: a int}}\n"
        page += "flows: {f: select * from o}\ntargets: {t: {from: f, path: out}}\n"
        state = BoardState(parse_page(page, file_name="p.yaml", directory=directory))
        service = Service("board", callers_entrance(opening, access).admit)
        service.wake_at_close(state.close)
        self._serve("board", service, BoardPages(service, state).app())

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
        """The status and the headers. Of a stream nothing is read."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[service], timeout=WAIT_S)
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, {name.lower(): text for name, text in answer.getheaders()}
        finally:
            connection.close()

    def page(self, path: str, headers: Mapping[str, str]) -> tuple[str, str]:
        """The text, and the cookies that come with it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports["console"], timeout=WAIT_S)
        connection.request("GET", path, headers=dict(headers))
        answer = connection.getresponse()
        text = answer.read().decode()
        cookies = [value.partition(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
        connection.close()
        return text, "; ".join(cookies)

    def log_in(self, name: str) -> str:
        """The cookie of a new session."""
        page, form_cookie = self.page("/login", {})
        body = urlencode({"name": name, "password": USERS[name], "csrf": token_in(page), "next": "/"})
        status, headers = self.ask("console", "POST", "/login", {**FORM, "cookie": form_cookie}, body.encode())
        assert status == HTTPStatus.SEE_OTHER
        return headers["set-cookie"].partition(";")[0]

    def call(self, row: Row, who: str) -> int:
        """The status of the row's request as this one."""
        headers: dict[str, str] = {}
        body = None
        if row.service != "console":
            if who != "nobody":
                headers["authorization"] = f"Bearer {TOKENS[who][0]}"
            body = json.dumps(row.body).encode() if row.body else None
        else:
            fields = dict(row.body)
            if who != "nobody":
                headers["cookie"] = self.session(who)
                if row.route.startswith("/logout"):
                    del self.cookies[who]
                fields["csrf"] = token_in(self.page("/me", headers)[0])
            if row.method == "POST":
                headers |= FORM
                body = urlencode(fields).encode()
        return self.ask(row.service, row.method, row.called, headers, body)[0]

    def session(self, who: str) -> str:
        if who not in self.cookies:
            self.cookies[who] = self.log_in(who)
        return self.cookies[who]


FORM = {"content-type": "application/x-www-form-urlencoded"}


def token_in(page: str) -> str:
    found = re.search('name="csrf" value="([^"]+)"', page)
    assert found is not None, page
    return found[1]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Cluster(security="sasl_plaintext", users=USERS) as cluster, ExitStack() as life:
        cluster.create_topic("orders")
        yield Running(cluster, tmp_path_factory.mktemp("people"), life)


def is_let_in(status: int) -> bool:
    return status not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@pytest.mark.parametrize("service", SERVICES)
def test_every_route_stands_in_the_table(running: Running, service: str) -> None:
    rows = {(row.method, row.route): row for row in TABLE if row.service == service}
    assert set(running.routes[service]) == set(rows)
    for key, route in running.routes[service].items():
        subject = route.subject if isinstance(route, ServedRoute) else None
        of = ALL if subject is None else ANY if subject == ANY_SUBJECT else SUBJECT
        assert (route.needs, of) == (rows[key].least, rows[key].of), key


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("service", SERVICES)
def test_exactly_the_rows_of_the_table_are_allowed(running: Running, service: str, who: str) -> None:
    ask: Callable[[Row], bool] = lambda row: is_let_in(running.call(row, who))  # noqa: E731
    rows: Sequence[Row] = [row for row in TABLE if row.service == service]
    # the wrong login of the table's POST /login is refused as one, and not as a stranger: by its status it is 403
    rows = [row for row in rows if (row.method, row.route) != ("POST", "/login")]
    assert {str(row) for row in rows if ask(row)} == {str(row) for row in rows if WHO[who] >= row.least}


def test_a_role_on_a_prefix_is_one_for_its_subjects(running: Running) -> None:
    rows = [row for row in TABLE if row.service == "registry"]
    for subject, allowed in (("orders-value", (SUBJECT, ANY)), ("stock-value", (ANY,))):
        called = [Row(**{**vars(row), "path": row.called.replace("orders-value", subject)}) for row in rows]
        # an id is read by whom one of its subjects is: of an id that is not there nothing is told
        let_in = {str(row) for row in called if is_let_in(running.call(row, "prefixed"))}
        assert let_in == {str(row) for row in called if row.of in allowed}


@pytest.mark.parametrize("service", SERVICES)
def test_other_paths_and_methods_are_for_those_who_logged_in(running: Running, service: str) -> None:
    for method, path in (("GET", "/nothing"), ("TRACE", "/metrics"), ("DELETE", "/metrics"), ("OPTIONS", "/")):
        row = Row(service, method, path, VIEWER)
        assert running.call(row, "nobody") in (401, 403)
        # a browser's session sends no form with these methods, so they are refused as forms of other sites
        assert running.call(row, "viewer") in (404, 405) or service == "console"


def test_a_browser_is_led_to_the_login_and_a_tool_is_told(running: Running) -> None:
    for row in TABLE:
        if row.service == "console" and row.method == "GET" and row.least is not NOBODY:
            status, headers = running.ask("console", "GET", row.called, {"accept": "text/html"})
            assert (status, headers["location"].partition("?")[0]) == (303, "/login"), row
            assert running.ask("console", "GET", row.called, {"accept": "*/*"})[0] == 401, row


def test_a_form_needs_the_session_s_token_and_its_origin(running: Running) -> None:
    for row in TABLE:
        if row.service != "console" or row.method == "GET" or row.route == "/login":
            continue
        cookie = running.log_in("admin")
        headers = {**FORM, "cookie": cookie, "host": f"127.0.0.1:{running.ports['console']}"}
        token = token_in(running.page("/me", headers)[0])
        good = urlencode({**row.body, "csrf": token}).encode()
        for bad in (b"", b"csrf=", urlencode({"csrf": token[:-1]}).encode(), urlencode({"csrf": "x" * 64}).encode()):
            assert running.ask("console", row.method, row.called, headers, bad)[0] == 403
        for origin in ("https://elsewhere.example", "null", f"https://127.0.0.1:{running.ports['console']}"):
            assert running.ask("console", row.method, row.called, {**headers, "origin": origin}, good)[0] == 403
        own = f"http://127.0.0.1:{running.ports['console']}"
        assert running.ask("console", row.method, row.called, {**headers, "origin": own}, good)[0] == 303


def test_the_registry_takes_no_write_from_another_site(running: Running) -> None:
    body = json.dumps(SCHEMA).encode()
    headers = {"authorization": f"Bearer {TOKENS['admin'][0]}"}
    path = "/subjects/origins-value/versions"
    for foreign in ({"origin": "https://elsewhere.example"}, {"sec-fetch-site": "cross-site"}):
        assert running.ask("registry", "POST", path, {**headers, **foreign}, body)[0] == 403
    assert running.ask("registry", "POST", path, headers, body)[0] == 200


def test_a_stolen_cookie_is_worth_nothing_after_log_out(running: Running) -> None:
    cookie = running.log_in("viewer")
    assert running.ask("console", "GET", "/topics", {"cookie": cookie})[0] == 200
    token = token_in(running.page("/me", {"cookie": cookie})[0])
    body = urlencode({"csrf": token}).encode()
    assert running.ask("console", "POST", "/logout", {**FORM, "cookie": cookie}, body)[0] == 303
    for row in TABLE:
        if row.service == "console" and row.method == "GET" and row.least is not NOBODY:
            assert running.ask("console", "GET", row.called, {"cookie": cookie})[0] == 401


def test_machines_read_the_metrics_alone_of_the_web_console(running: Running) -> None:
    for row in TABLE:
        if row.service == "console" and row.method == "GET":
            headers = {"authorization": f"Bearer {TOKENS['admin'][0]}"}
            expected = 200 if row.route == "/metrics" else 403
            assert running.ask("console", "GET", row.called, headers)[0] == expected, row
