"""Every route that a browser opens, in a real browser, without login and as viewer, editor and admin.

Routes that no browser opens as a page are left out: streams (they do not end), files to save, and the registry's
writes. No page sends such a write, and a form of another site is rejected. `tests/products/test_route_table.py` calls
all rows over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from moldau.testing import Cluster
from tests.browser.conftest import WAIT_S
from tests.support.route_table import NOBODY, TABLE, TOKENS, USERS, WHO, WITH_PAGES, Row, Running

pytestmark = pytest.mark.slow
NO_PAGES = ("/topics/{topic}/records.jsonl", "/topics/{topic}/stream", "/live", "/static")
"""Routes that a browser saves, or that never end."""
STATUS = "return performance.getEntriesByType('navigation')[0].responseStatus"


def opened(service: str) -> list[Row]:
    return [row for row in TABLE if row.service == service and row.method == "GET" and row.route not in NO_PAGES]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Cluster(security="sasl_plaintext", users=USERS) as cluster, ExitStack() as life:
        cluster.create_topic("orders")
        yield Running(cluster, tmp_path_factory.mktemp("people"), life)


@pytest.fixture
def fresh(running: Running, browser: Chrome) -> Iterator[Chrome]:
    """Without cookies, and without an Authorization header."""
    browser.get(f"http://127.0.0.1:{running.ports['console']}/login")
    browser.delete_all_cookies()
    yield browser
    send_with_each_request(browser, {})


def send_with_each_request(browser: Chrome, headers: Mapping[str, str]) -> None:
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": dict(headers)})


def is_at_login(browser: Chrome) -> bool:
    return "/login?next=" in browser.current_url


def log_in(browser: Chrome, address: str, who: str) -> None:
    browser.get(f"{address}/login")
    browser.find_element(By.NAME, "name").send_keys(who)
    browser.find_element(By.NAME, "password").send_keys(USERS[who])
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    WebDriverWait(browser, WAIT_S).until(lambda _: "/login" not in browser.current_url)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("service", WITH_PAGES)
def test_a_browser_sees_the_pages_that_the_role_allows(running: Running, fresh: Chrome, service: str, who: str) -> None:
    address = f"http://127.0.0.1:{running.ports[service]}"
    if who != "nobody":
        log_in(fresh, address, who)
        assert f"User:{who}" in fresh.find_element(By.TAG_NAME, "body").text
        assert fresh.execute_script("return document.cookie") == ""  # no script can read the session
    for row in opened(service):
        fresh.get(f"{address}{row.called}")
        assert fresh.find_element(By.TAG_NAME, "body").text, row
        if row.least is not NOBODY:
            assert is_at_login(fresh) == (who == "nobody"), row
            assert (fresh.execute_script(STATUS) == 403) == (who != "nobody" and WHO[who] < row.least), row
    if who != "nobody":
        fresh.get(f"{address}/me")
        fresh.find_element(By.CSS_SELECTOR, 'form[action="/logout"] button').click()
        WebDriverWait(fresh, WAIT_S).until(lambda _: "/login" in fresh.current_url)
        fresh.get(address)
        assert is_at_login(fresh)


@pytest.mark.parametrize("who", WHO)
def test_a_browser_with_a_token_reads_of_the_registry_what_the_role_allows(
    running: Running, fresh: Chrome, who: str
) -> None:
    if who != "nobody":
        send_with_each_request(fresh, {"authorization": f"Bearer {TOKENS[who][0]}"})
    allowed = set()
    for row in opened("registry"):
        fresh.get(f"http://127.0.0.1:{running.ports['registry']}{row.called}")
        status = fresh.execute_script(STATUS)
        if status not in (401, 403):
            assert fresh.find_element(By.TAG_NAME, "body").text, row
            allowed.add(str(row))
        else:
            assert status == (401 if who == "nobody" else 403), row
    assert allowed == {str(row) for row in opened("registry") if WHO[who] >= row.least}


def test_a_browser_logs_in_at_the_registry_by_a_password(running: Running, fresh: Chrome) -> None:
    """Basic authentication by an address with name and password; later requests of the browser have both."""
    host = f"127.0.0.1:{running.ports['registry']}"
    fresh.get(f"http://viewer:{USERS['viewer']}@{host}/subjects")
    assert (fresh.execute_script(STATUS), fresh.find_element(By.TAG_NAME, "body").text.strip()) == (200, "[]")
    fresh.get(f"http://{host}/schemas/types")
    assert fresh.execute_script(STATUS) == 200
