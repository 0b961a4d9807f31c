"""The roles that may call each route of each service: every row of the table, called over HTTP as each role.

A route that is missing in the table (`tests/support/route_table.py`) fails the test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from urllib.parse import urlencode

import pytest

from moldau.products.service.routes import ANY_SUBJECT, ServedRoute
from moldau.testing import Cluster
from tests.support.route_table import (
    ALL,
    ANY,
    FORM,
    NOBODY,
    SCHEMA,
    SERVICES,
    SUBJECT,
    TABLE,
    TOKENS,
    USERS,
    VIEWER,
    WHO,
    WITH_PAGES,
    Row,
    Running,
    token_in,
)


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
    # the wrong login of the table's POST /login is rejected as such, not as unauthenticated: its status is 403
    rows = [row for row in rows if (row.method, row.route) != ("POST", "/login")]
    assert {str(row) for row in rows if ask(row)} == {str(row) for row in rows if WHO[who] >= row.least}


def test_a_role_on_a_prefix_is_one_for_its_subjects(running: Running) -> None:
    rows = [row for row in TABLE if row.service == "registry"]
    for subject, allowed in (("orders-value", (SUBJECT, ANY)), ("stock-value", (ANY,))):
        called = [Row(**{**vars(row), "path": row.called.replace("orders-value", subject)}) for row in rows]
        # an id is readable with a role for one of its subjects: of a missing id nothing is shown
        let_in = {str(row) for row in called if is_let_in(running.call(row, "prefixed"))}
        assert let_in == {str(row) for row in called if row.of in allowed}


@pytest.mark.parametrize("service", SERVICES)
def test_other_paths_and_methods_are_for_those_who_logged_in(running: Running, service: str) -> None:
    for method, path in (("GET", "/nothing"), ("TRACE", "/metrics"), ("DELETE", "/metrics"), ("OPTIONS", "/")):
        row = Row(service, method, path, VIEWER)
        assert running.call(row, "nobody") in (401, 403)
        # a browser's session sends no form with these methods, so they are rejected as forms of other sites
        assert running.call(row, "viewer") in (404, 405) or service in WITH_PAGES


def test_a_browser_is_led_to_the_login_and_a_tool_is_told(running: Running) -> None:
    for row in TABLE:
        if row.service in WITH_PAGES and row.method == "GET" and row.least is not NOBODY:
            status, headers = running.ask(row.service, "GET", row.called, {"accept": "text/html"})
            assert (status, headers["location"].partition("?")[0]) == (303, "/login"), row
            assert running.ask(row.service, "GET", row.called, {"accept": "*/*"})[0] == 401, row


def test_a_form_needs_the_session_s_token_and_its_origin(running: Running) -> None:
    for row in TABLE:
        if row.service not in WITH_PAGES or row.method == "GET" or row.route == "/login":
            continue
        cookie, host = running.log_in(row.service, "admin"), f"127.0.0.1:{running.ports[row.service]}"
        headers = {**FORM, "cookie": cookie, "host": host}
        token = token_in(running.page(row.service, "/me", headers)[0])
        good = urlencode({**row.body, "csrf": token}).encode()
        for bad in (b"", b"csrf=", urlencode({"csrf": token[:-1]}).encode(), urlencode({"csrf": "x" * 64}).encode()):
            assert running.ask(row.service, row.method, row.called, headers, bad)[0] == 403
        for origin in ("https://elsewhere.example", "null", f"https://{host}"):
            assert running.ask(row.service, row.method, row.called, {**headers, "origin": origin}, good)[0] == 403
        own = {**headers, "origin": f"http://{host}"}
        is_named = row.route not in ("/sql/run", "/connect-actions")  # no such service is named there
        expected = 303 if is_named else 404
        assert running.ask(row.service, row.method, row.called, own, good)[0] == expected


def test_the_registry_takes_no_write_from_another_site(running: Running) -> None:
    body = json.dumps(SCHEMA).encode()
    headers = {"authorization": f"Bearer {TOKENS['admin'][0]}"}
    path = "/subjects/origins-value/versions"
    for foreign in ({"origin": "https://elsewhere.example"}, {"sec-fetch-site": "cross-site"}):
        assert running.ask("registry", "POST", path, {**headers, **foreign}, body)[0] == 403
    assert running.ask("registry", "POST", path, headers, body)[0] == 200


@pytest.mark.parametrize("service", WITH_PAGES)
def test_a_stolen_cookie_is_worth_nothing_after_log_out(running: Running, service: str) -> None:
    cookie = running.log_in(service, "viewer")
    assert running.ask(service, "GET", "/", {"cookie": cookie})[0] == 200
    token = token_in(running.page(service, "/me", {"cookie": cookie})[0])
    body = urlencode({"csrf": token}).encode()
    assert running.ask(service, "POST", "/logout", {**FORM, "cookie": cookie}, body)[0] == 303
    for row in TABLE:
        if row.service == service and row.method == "GET" and row.least is not NOBODY:
            assert running.ask(service, "GET", row.called, {"cookie": cookie})[0] == 401


def test_machines_read_the_metrics_alone_of_services_with_pages(running: Running) -> None:
    for row in TABLE:
        if row.service in WITH_PAGES and row.method == "GET":
            headers = {"authorization": f"Bearer {TOKENS['admin'][0]}"}
            expected = 200 if row.route == "/metrics" else 403
            assert running.ask(row.service, "GET", row.called, headers)[0] == expected, row
