"""The web console with logins, over HTTP, with a cluster that has users."""

from __future__ import annotations

import http.client
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moldau.products.service.logins.sessions import MAX_OF_ONE
from moldau.testing.cluster import Cluster
from tests.support.web_console import ROLES, WebBrowser, console_of, sentence_in, token_in

USERS = {name: f"{name}-secret" for name in ("alice", "bob", "carol", "dave", "console")}
AT_ONCE = {"connection.failed.authentication.delay.ms": 0}
"""The broker answers wrong passwords without its delay."""
WRONG = "The name or the password is wrong."


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(security="sasl_plaintext", users=USERS, settings=AT_ONCE) as cluster:
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture
def console(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    with console_of(cluster.access("console"), tmp_path) as address:
        yield address


def test_nobody_sees_a_page_and_a_person_comes_back_to_the_one_that_was_asked_for(console: str) -> None:
    browser = WebBrowser(console)
    status, page = browser.get("/topics?q=ord")
    assert (status, browser.url) == (200, f"{console}/login?next=%2Ftopics%3Fq%3Dord")
    assert "orders" not in page
    assert browser.get("/topics", accept="application/json")[0] == 401
    assert browser.headers["www-authenticate"] == 'Bearer realm="moldau"'
    status, page = browser.log_in("alice", "alice-secret", "/topics?q=ord")
    assert (status, browser.url) == (200, f"{console}/topics?q=ord")
    assert "orders" in page
    assert 'User:alice</a> <small>admin</small> <small class="acts">acts as User:console' in page


def test_who_has_no_role_or_no_right_password_is_not_let_in(console: str) -> None:
    browser = WebBrowser(console)
    refused = {"alice": WRONG, "nobody": WRONG, "dave": "dave has no role here: see [roles] in the file of --login."}
    for name, sentence in refused.items():
        status, page = browser.log_in(name, "dave-secret")
        assert (status, sentence_in(page)) == (403, sentence)
    assert browser.get("/topics", accept="text/plain")[0] == 401


def test_a_cookie_is_for_scripts_of_no_page_and_a_new_one_at_each_login(console: str) -> None:
    browser = WebBrowser(console)
    browser.get("/login")
    browser.log_in("alice", "alice-secret")
    [first] = [each for each in browser.cookies if "form" not in each.name]
    assert first.has_nonstandard_attr("HttpOnly")
    assert first.get_nonstandard_attr("SameSite") == "lax"
    assert len(first.value or "") == 43
    browser.log_in("alice", "alice-secret")
    [second] = [each for each in browser.cookies if "form" not in each.name]
    assert first.value != second.value
    old = WebBrowser(console)
    old.cookies.set_cookie(first)
    assert old.get("/topics", accept="text/plain")[0] == 401


def test_a_stolen_cookie_is_worth_nothing_after_log_out(console: str) -> None:
    browser, thief = WebBrowser(console), WebBrowser(console)
    browser.log_in("alice", "alice-secret")
    for cookie in browser.cookies:
        thief.cookies.set_cookie(cookie)
    status, page = thief.get("/topics")
    assert (status, thief.url) == (200, f"{console}/topics")
    browser.post("/logout", {"csrf": token_in(page)})
    assert thief.get("/topics", accept="text/plain")[0] == 401
    assert browser.get("/topics", accept="text/plain")[0] == 401


def test_logging_out_everywhere_ends_what_other_browsers_have(console: str) -> None:
    browsers = [WebBrowser(console) for _ in range(3)]
    for browser, name in zip(browsers, ("alice", "alice", "bob"), strict=True):
        browser.log_in(name, f"{name}-secret")
    _, page = browsers[0].get("/me")
    assert browsers[0].post("/logout-everywhere", {"csrf": token_in(page)})[0] == 200
    assert [browser.get("/", accept="text/plain")[0] for browser in browsers] == [401, 401, 200]


@pytest.mark.parametrize("way", ["/logout", "/logout-everywhere"])
def test_an_open_stream_ends_with_its_session(cluster: Cluster, console: str, way: str) -> None:
    """The stream of a session that continues shows the new topic."""
    browser, other = WebBrowser(console), WebBrowser(console)
    browser.log_in("alice", "alice-secret")
    other.log_in("bob", "bob-secret")
    with browser.stream("/live?path=/topics") as ended, other.stream("/live?path=/topics") as goes_on:
        for stream in (ended, goes_on):
            assert any(line == b"event: main\n" for line in iter(stream.readline, b""))
        assert browser.post(way, {"csrf": token_in(browser.get("/me")[1])})[0] == 200
        topic = cluster.topic("told-later").encode()
        assert not any(topic in line for line in iter(ended.readline, b""))
        assert any(topic in line for line in iter(goes_on.readline, b""))


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({}, {}),
        ({"csrf": "a"}, {}),
        ({"csrf": "TOKEN"}, {"origin": "https://example.org"}),
        ({"csrf": "TOKEN"}, {"origin": "null"}),
        ({"csrf": "TOKEN"}, {"sec-fetch-site": "cross-site"}),
    ],
)
def test_a_form_of_another_site_logs_nobody_out(console: str, fields: dict[str, str], headers: dict[str, str]) -> None:
    browser = WebBrowser(console)
    browser.log_in("alice", "alice-secret")
    _, page = browser.get("/me")
    sent = {name: token_in(page) if value == "TOKEN" else value for name, value in fields.items()}
    assert browser.post("/logout-everywhere", sent, **headers)[0] == 403
    assert browser.get("/me")[0] == 200


def test_another_site_logs_nobody_in(console: str) -> None:
    browser = WebBrowser(console)
    _, page = browser.get("/login")
    fields = {"name": "alice", "password": "alice-secret", "csrf": token_in(page)}
    assert WebBrowser(console).post("/login", fields)[0] == 403  # the token of another browser's form
    assert browser.post("/login", fields, origin="https://example.org")[0] == 403
    assert browser.post("/login", fields, origin=console)[0] == 200


def test_wrong_passwords_are_slowed_down(console: str) -> None:
    browser = WebBrowser(console)
    answers = [browser.log_in("alice", f"guess {number}")[0] for number in range(20)]
    assert answers[:5] == [403] * 5
    assert answers.count(429) >= 10
    assert int(browser.headers["retry-after"]) >= 1


def test_logins_of_one_address_at_the_same_time_all_get_in(console: str) -> None:
    browsers = {name: WebBrowser(console) for name in ("alice", "bob", "carol")}
    with ThreadPoolExecutor(len(browsers)) as threads:
        answers = [threads.submit(each.log_in, name, f"{name}-secret") for name, each in browsers.items()]
    assert [answer.result()[0] for answer in answers] == [200] * len(browsers)


@pytest.mark.slow
def test_a_thousand_wrong_passwords_from_ten_addresses_keep_nobody_out(console: str) -> None:
    _, host = console.split("//")
    answers: Counter[int] = Counter()
    for number in range(1_000):
        browser = WebBrowser(console)
        if number < 10:
            _, page = browser.get("/login")
            cookie = "; ".join(f"{each.name}={each.value}" for each in browser.cookies)
        body = urllib.parse.urlencode({"csrf": token_in(page), "name": "alice", "password": f"guess {number}"})
        connection = http.client.HTTPConnection(host, source_address=(f"127.0.1.{number % 10}", 0), timeout=60)
        headers = {"cookie": cookie, "content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", body, headers)
        answers[connection.getresponse().status] += 1
        connection.close()
    assert set(answers) == {403, 429}
    assert answers[403] < 150  # the others cost no login at the cluster
    assert WebBrowser(console).log_in("alice", "alice-secret")[0] == 200


def test_while_the_cluster_is_away_one_sentence_says_so_and_there_is_no_session(tmp_path: Path) -> None:
    with Cluster(security="sasl_plaintext", users=USERS) as cluster:
        access = cluster.access("console")
        with console_of(access, tmp_path) as address:
            cluster.stop()
            browser = WebBrowser(address)
            status, page = browser.log_in("alice", "alice-secret")
            assert (status, sentence_in(page)) == (503, "The cluster does not answer. Try again in a moment.")
            assert browser.get("/", accept="text/plain")[0] == 401


def test_a_cluster_without_delegation_tokens_lets_nobody_act_unless_the_file_says_so(
    cluster: Cluster, tmp_path: Path
) -> None:
    with console_of(cluster.access("console"), tmp_path, '[login]\nmechanism = "SCRAM-SHA-512"\n' + ROLES) as address:
        status, page = WebBrowser(address).log_in("alice", "alice-secret")
    assert status == 403
    assert sentence_in(page).startswith("This cluster has no delegation tokens")


def test_a_person_has_a_bounded_number_of_sessions_at_once(console: str) -> None:
    browsers = [WebBrowser(console) for _ in range(MAX_OF_ONE + 1)]
    for browser in browsers:
        browser.log_in("alice", "alice-secret")
    assert [browser.get("/", accept="text/plain")[0] for browser in browsers] == [401] + [200] * MAX_OF_ONE


def test_a_login_form_that_is_damaged_gets_an_answer(console: str) -> None:
    browser = WebBrowser(console)
    browser.get("/login")
    assert browser.post("/login", {"csrf": 20_000 * "a"})[0] == 400
    assert browser.post("/login", {str(number): "" for number in range(60)})[0] == 400
    assert browser.get(f"/login?{urllib.parse.urlencode({'next': '//example.org'})}")[0] == 200
    assert browser.get("/topics", cookie="moldau-page=\xff")[0] == 200
