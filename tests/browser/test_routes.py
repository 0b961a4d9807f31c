"""The pages of the web console in a real browser, as nobody, viewer, editor and admin: those that the table allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from moldau.testing import Cluster
from tests.browser.conftest import WAIT_S
from tests.support.route_table import NOBODY, TABLE, USERS, WHO, Running

DOWNLOADS = ("/topics/{topic}/records.jsonl", "/topics/{topic}/stream", "/live", "/static")
"""What is no page: a browser saves it, or waits for more of it."""
PAGES = [row for row in TABLE if row.service == "console" and row.method == "GET" and row.route not in DOWNLOADS]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with Cluster(security="sasl_plaintext", users=USERS) as cluster, ExitStack() as life:
        cluster.create_topic("orders")
        yield Running(cluster, tmp_path_factory.mktemp("people"), life)


def is_at_login(browser: Chrome) -> bool:
    return "/login?next=" in browser.current_url


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
def test_a_browser_sees_the_pages_that_the_role_allows(running: Running, browser: Chrome, who: str) -> None:
    address = f"http://127.0.0.1:{running.ports['console']}"
    browser.get(f"{address}/login")
    browser.delete_all_cookies()
    browser.get(f"{address}/login")
    if who != "nobody":
        browser.find_element(By.NAME, "name").send_keys(who)
        browser.find_element(By.NAME, "password").send_keys(USERS[who])
        browser.find_element(By.CSS_SELECTOR, "main form button").click()
        WebDriverWait(browser, WAIT_S).until(lambda _: "/login" not in browser.current_url)
        assert f"User:{who}" in browser.find_element(By.TAG_NAME, "body").text
        assert browser.execute_script("return document.cookie") == ""  # no script reads the session
    for row in PAGES:
        browser.get(f"{address}{row.called}")
        text = browser.find_element(By.TAG_NAME, "body").text
        is_allowed = WHO[who] >= row.least
        assert text, row
        if row.least is not NOBODY:
            assert is_at_login(browser) != is_allowed, row
    if who != "nobody":
        browser.get(f"{address}/me")
        browser.find_element(By.CSS_SELECTOR, 'form[action="/logout"] button').click()
        WebDriverWait(browser, WAIT_S).until(lambda _: "/login" in browser.current_url)
        browser.get(f"{address}/topics")
        assert is_at_login(browser)
