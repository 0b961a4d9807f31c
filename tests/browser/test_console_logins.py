"""The web console with logins in a real browser: login, wrong login, logout, a stolen cookie, a form of another
site."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from moldau.testing.cluster import Cluster
from tests.support.web_console import console_of

pytestmark = pytest.mark.slow
WAIT_S = 30
USERS = {"alice": "alice-secret", "console": "console-secret"}
SETTINGS = {"delegation.token.secret.key": "the key of all tokens", "connection.failed.authentication.delay.ms": 0}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Cluster(security="sasl_plaintext", users=USERS, settings=SETTINGS) as cluster:
        cluster.create_topic("orders")
        directory = tmp_path_factory.mktemp("people")
        with console_of(cluster.access("console"), directory, '[roles]\nviewer = ["*"]\n') as address:
            yield address


def log_in(browser: Chrome, password: str) -> None:
    """On the open login page; waits for the next page."""
    form = browser.find_element(By.CSS_SELECTOR, "section.login form")
    for name, text in (("name", "alice"), ("password", password)):
        form.find_element(By.NAME, name).send_keys(text)
    press(browser, "section.login button")


def press(browser: Chrome, selector: str) -> None:
    page = browser.find_element(By.TAG_NAME, "html").id
    browser.find_element(By.CSS_SELECTOR, selector).click()
    WebDriverWait(browser, WAIT_S, 0.1).until(lambda _: browser.find_element(By.TAG_NAME, "html").id != page)


def text_of(browser: Chrome) -> str:
    return browser.find_element(By.TAG_NAME, "body").text


@pytest.fixture
def fresh(console: str, browser: Chrome) -> Chrome:
    browser.get(console)
    browser.delete_all_cookies()
    return browser


def test_a_person_logs_in_sees_who_that_is_and_logs_out(console: str, fresh: Chrome) -> None:
    fresh.get(f"{console}/topics")
    assert fresh.current_url == f"{console}/login?next=%2Ftopics"
    log_in(fresh, "wrong")
    assert "The name or the password is wrong." in text_of(fresh)
    assert "orders" not in text_of(fresh)
    log_in(fresh, "alice-secret")
    fresh.get(f"{console}/topics")
    assert "orders" in text_of(fresh)
    assert "User:alice viewer" in text_of(fresh)
    assert fresh.execute_script("return document.cookie") == ""
    press(fresh, "form.leave button")
    assert fresh.current_url == f"{console}/login"
    fresh.back()
    fresh.get(f"{console}/topics")
    assert "orders" not in text_of(fresh)


def test_the_live_page_is_live_with_a_session(console: str, fresh: Chrome, wait: Callable[[Chrome, str], None]) -> None:
    fresh.get(f"{console}/login")
    log_in(fresh, "alice-secret")
    fresh.get(f"{console}/topics")
    wait(fresh, "orders")
    WebDriverWait(fresh, WAIT_S, 0.1).until(lambda _: fresh.find_elements(By.CSS_SELECTOR, "#state.on"))


def test_a_stolen_cookie_shows_nothing_after_log_out(console: str, fresh: Chrome) -> None:
    fresh.get(f"{console}/login")
    log_in(fresh, "alice-secret")
    fresh.get(f"{console}/topics")
    stolen = fresh.get_cookies()
    press(fresh, "form.leave button")
    fresh.delete_all_cookies()
    for cookie in stolen:
        fresh.add_cookie(cookie)
    fresh.get(f"{console}/topics")
    assert fresh.current_url.startswith(f"{console}/login")
    assert "orders" not in text_of(fresh)


def test_a_form_of_another_site_changes_nothing(console: str, fresh: Chrome) -> None:
    fresh.get(f"{console}/login")
    log_in(fresh, "alice-secret")
    fresh.get(f"{console}/me")
    token = fresh.find_element(By.NAME, "csrf").get_attribute("value")
    with elsewhere(
        f'<form method="post" action="{console}/logout-everywhere"><input name="csrf" value="{token}">'
    ) as site:
        fresh.get(site)
        press(fresh, "button")
    assert "does not answer requests from other sites" in text_of(fresh)
    fresh.get(f"{console}/me")
    assert "User:alice" in text_of(fresh)


@contextmanager
def elsewhere(form: str) -> Iterator[str]:
    """A page of another site, with a form and its button. A browser takes `localhost` for another site than
    127.0.0.1."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f"<!doctype html>{form}<button>Win</button></form>".encode())

        def log_message(self, *_: object) -> None:
            """Silent: the test itself reports the failure."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
