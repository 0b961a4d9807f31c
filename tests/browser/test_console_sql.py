"""SQL in the console: the lists, and the editor. The SQL service runs real statements on rows from lists."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal

import pytest
from msgspec.structs import replace
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait

from moldau.products.console.service import Console
from moldau.products.console.sql_server import SqlServer
from moldau.products.service.admission import this_machine
from moldau.products.service.logins.opened import Opening
from moldau.products.service.service import Service
from moldau.products.service.serving import served_in_thread
from moldau.products.sql.engine.answers import ChangedRow, QueryStatus
from moldau.products.sql.engine.session import Session
from moldau.products.sql.language.parser.script import parse_script
from moldau.products.sql.serving.http.routes import error, not_found, sql_routes
from moldau.testing import Cluster
from tests.browser.conftest import ATTACK, WAIT_S, assert_nothing_ran
from tests.support.listed_sql import ListedRows, ListedSql

Wait = Callable[[Chrome, str], None]
SCRIPT = """
CREATE STREAM orders (id BIGINT KEY, name STRING) WITH (partitions = 1);
CREATE TABLE totals AS SELECT name, count(*) AS n FROM orders GROUP BY name;
"""
CELLS = "return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((row) => row.innerText)"


class Instance:
    service_id, leader_address = "shop", None

    def __init__(self, engine: ListedSql) -> None:
        self.engine = engine


class Shop:
    """A console with a SQL service. `page`: its address."""

    def __init__(self, page: str, engine: ListedSql) -> None:
        self.page, self.engine = page, engine

    def query_is(self, **more: object) -> None:
        for id, query in self.engine.catalog.queries.items():
            self.engine.states[id] = replace(QueryStatus(query=query, state="running"), **more)


@contextmanager
def served(service: Service, app: object) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        with served_in_thread(service, app, listening):  # type: ignore[arg-type]
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    engine, service = ListedSql(), Service("sql", this_machine)
    for parsed in parse_script(SCRIPT):
        engine.run(parsed, Session())
    app = service.app(sql_routes(Instance(engine), service, "cluster-1"), not_found, error=error)
    with Cluster() as cluster, served(service, app) as url:
        console = Console(cluster.access(), Opening(), sql=SqlServer(("http://127.0.0.1:1", url)))
        with served(console.service, console.app()) as page:
            yield Shop(page, engine)
        console.desks.close()


def wait_for_row(browser: Chrome, table: str, text: str) -> None:
    WebDriverWait(browser, WAIT_S, 0.1).until(
        lambda _: any(text in row for row in browser.execute_script(CELLS, table)), f"{text!r} in {table}"
    )


def run(browser: Chrome, text: str) -> None:
    browser.execute_script(
        "document.getElementById('sql').value = arguments[0]; document.getElementById('run').click()", text
    )


def test_the_lists_follow_the_queries(shop: Shop, browser: Chrome, wait: Wait) -> None:
    shop.query_is(records_read=1234, records_per_second=56.0, lag=7)
    browser.get(f"{shop.page}/")
    browser.find_element("link text", "SQL").click()
    browser.execute_script("window.wasLoadedOnce = true")
    wait_for_row(browser, "#queries", "CTAS_TOTALS_0")
    (row,) = browser.execute_script(CELLS, "#queries")
    assert row.split("\t")[1:6] == ["running", "totals", "1,234", "56", "7"]
    assert [row.split("\t")[:3] for row in browser.execute_script(CELLS, "#relations")] == [
        ["orders", "stream", "orders"],
        ["totals", "table", "totals"],
    ]
    shop.query_is(state="retrying", error=f"orders-0 offset 3: {ATTACK}")
    wait_for_row(browser, "#queries", "orders-0 offset 3: <img")
    assert browser.execute_script("return window.wasLoadedOnce") is True
    assert_nothing_ran(browser)
    shop.query_is()


def test_the_editor_runs_statements_and_shows_rows_as_they_come(shop: Shop, browser: Chrome, wait: Wait) -> None:
    rows = shop.engine.rows["orders"] = ListedRows([("id", "bigint"), ("name", "string")], is_live=True)
    browser.get(f"{shop.page}/sql/editor")
    run(browser, "DESCRIBE orders; SHOW QUERIES; CREATE TYPE money AS INT;")
    wait(browser, "type money is created")
    wait_for_row(browser, "#sql-answers table", "CTAS_TOTALS_0")
    run(browser, "SELECT * FROM orders EMIT CHANGES;")
    WebDriverWait(browser, WAIT_S, 0.1).until(lambda _: browser.find_elements("css selector", "#sql-answers th"))
    rows.put(ChangedRow((1, ATTACK)), ChangedRow((2, None)))
    wait_for_row(browser, "#sql-answers table", "2\tnull")
    rows.put(ChangedRow((2, None), is_deleted=True))
    WebDriverWait(browser, WAIT_S, 0.1).until(lambda _: browser.find_elements("css selector", "tr.deleted"))
    assert_nothing_ran(browser)
    browser.find_element("id", "stop").click()
    wait(browser, "stopped")
    assert rows.is_closed.wait(WAIT_S)


def test_a_fast_query_keeps_the_newest_rows_of_the_page(shop: Shop, browser: Chrome, wait: Wait) -> None:
    many = [ChangedRow((number, "x")) for number in range(3_000)]
    shop.engine.rows["orders"] = ListedRows([("id", "bigint"), ("name", "string")], many)
    browser.get(f"{shop.page}/sql/editor")
    run(browser, "SELECT * FROM orders;")
    wait(browser, "Query Completed")
    wait(browser, "3,000 rows, the last 500 shown · done")
    found = browser.execute_script(CELLS, "#sql-answers table")
    assert (len(found), found[-1]) == (500, "2999\tx")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELEC 1", "did you mean SELECT?"),
        ("SELECT * FROM nothing;", "there is no stream nothing"),
        ("", "no statement"),
    ],
)
def test_what_is_wrong_is_said(shop: Shop, browser: Chrome, wait: Wait, text: str, expected: str) -> None:
    browser.get(f"{shop.page}/sql/editor")
    run(browser, text)
    wait(browser, expected)


def test_it_is_whole_without_javascript(shop: Shop, browser_without_script: Chrome) -> None:
    browser = browser_without_script
    shop.engine.rows["orders"] = ListedRows(
        [("id", "bigint"), ("name", "string"), ("price", "decimal(4,2)")], [ChangedRow((5, ATTACK, Decimal("1.50")))]
    )
    browser.get(f"{shop.page}/sql")
    assert "CTAS_TOTALS_0" in browser.find_element("id", "queries").text
    browser.get(f"{shop.page}/sql/editor?sql=SELECT+*+FROM+orders;")
    assert browser.find_element("id", "sql").get_attribute("value") == "SELECT * FROM orders;"
    browser.find_element("id", "run").click()
    row = browser.find_element("css selector", "#sql-answers tbody").text
    assert row.startswith("5 <img")
    assert row.endswith("1.50")
    assert "Query Completed" in browser.find_element("id", "sql-answers").text
