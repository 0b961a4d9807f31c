"""The web console with users' own names: by delegation tokens, visible in what the cluster shows each user."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.client.admin.tokens import create_token, describe_tokens, expire_token
from moldau.products.service.logins.tokens import Token
from moldau.testing import allow
from moldau.testing.cluster import Cluster
from moldau.transport.access import open_admin
from tests.support.web_console import WebBrowser, console_of, token_in

USERS = {name: f"PLANTED-{name}-secret" for name in ("alice", "bob", "carol", "console")}
SETTINGS = {
    "delegation.token.secret.key": "the key of all tokens",
    "connection.failed.authentication.delay.ms": 0,
}
ROLES = '[roles]\nadmin = ["alice"]\nviewer = ["*"]\n'


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    acls = [
        allow("alice", "read", "describe", "describe_configs", topic="orders"),
        allow("bob", "describe", topic="orders"),
        allow("bob", "read", "describe", topic="returns"),
        allow("console", "read", "describe", topic="*"),
    ]
    with Cluster(security="sasl_plaintext", users=USERS, acls=acls, settings=SETTINGS) as cluster:
        for topic in ("orders", "returns", "salaries"):
            cluster.create_topic(topic)
            cluster.produce(topic, *(f"{topic} {number}" for number in range(5)))
        yield cluster


@pytest.fixture
def console(cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    with console_of(cluster.access("console"), tmp_path, ROLES) as address:
        yield address


def logged_in(console: str, name: str) -> WebBrowser:
    browser = WebBrowser(console)
    assert browser.log_in(name, USERS[name])[0] == 200
    return browser


def tokens_of(cluster: Cluster, name: str) -> list[str]:
    with open_admin(cluster.access(name)) as admin:
        return [each.token_id for each in describe_tokens(admin, [f"User:{name}"])]


def test_each_person_sees_what_the_cluster_lets_this_person_see(console: str) -> None:
    seen = {}
    for name in ("alice", "bob", "carol"):
        _, page = logged_in(console, name).get("/topics")
        seen[name] = [topic for topic in ("orders", "returns", "salaries") if f">{topic}<" in page]
    assert seen == {"alice": ["orders"], "bob": ["orders", "returns"], "carol": []}


def test_records_are_shown_to_who_may_read_them(console: str) -> None:
    alice, bob = logged_in(console, "alice"), logged_in(console, "bob")
    _, page = alice.get("/topics/orders/records")
    assert "orders 4" in page
    assert "acts as" not in page
    status, page = bob.get("/topics/orders/records")
    assert status == 502
    assert "orders 4" not in page
    assert "uthoriz" in page
    assert bob.get("/topics/orders/records.jsonl")[0] == 502
    assert "returns 4" in bob.get("/topics/returns/tail")[1]
    assert alice.get("/topics/returns")[0] == 404


def test_the_token_of_a_session_is_the_persons_and_gone_after_log_out(cluster: Cluster, console: str) -> None:
    before = tokens_of(cluster, "alice")
    browsers = [logged_in(console, "alice") for _ in range(2)]
    assert len(tokens_of(cluster, "alice")) == len(before) + 2
    with open_admin(cluster.access("alice")) as admin:
        newest = max(describe_tokens(admin, ["User:alice"]), key=lambda token: token.issued_ms)
    assert (newest.owner, newest.requester, newest.renewers) == ("User:alice", "User:alice", ("User:console",))
    assert newest.max_ms - newest.issued_ms == 12 * 3_600_000
    _, page = browsers[0].get("/me")
    assert base64.b64encode(newest.hmac).decode() not in page
    browsers[0].post("/logout-everywhere", {"csrf": token_in(page)})
    cluster.wait_for(lambda: len(tokens_of(cluster, "alice")) <= len(before))


def test_the_service_renews_a_token_in_the_second_half_of_its_time(cluster: Cluster) -> None:
    now_s = [0.0]
    with open_admin(cluster.access("alice")) as admin:
        made = create_token(admin, renewers=["User:console"])
        token = Token(made, cluster.access("alice"), cluster.access("console"), lambda: now_s[0])

        def expires_ms() -> int:
            [found] = [each for each in describe_tokens(admin, ["User:alice"]) if each.token_id == made.token_id]
            return found.expires_ms

        now_s[0] = token.lasts_s / 7 * 0.4  # a token is valid for a day, and for a week with its renewals
        assert token.renew()
        assert expires_ms() == made.expires_ms
        now_s[0] = token.lasts_s / 7 * 0.6
        assert token.renew()
        assert expires_ms() > made.expires_ms
        token.end()
        assert made.token_id not in tokens_of(cluster, "alice")
        now_s[0] *= 2
        assert not token.renew()


def test_a_service_that_stops_gives_its_tokens_back(cluster: Cluster, tmp_path: Path) -> None:
    before = tokens_of(cluster, "carol")
    with console_of(cluster.access("console"), tmp_path, ROLES) as address:
        logged_in(address, "carol")
        assert len(tokens_of(cluster, "carol")) == len(before) + 1
    assert tokens_of(cluster, "carol") == before


def test_a_person_whose_token_was_removed_at_the_cluster_sees_nothing_more(cluster: Cluster, console: str) -> None:
    browser = logged_in(console, "alice")
    with open_admin(cluster.access("alice")) as admin:
        for token in describe_tokens(admin, ["User:alice"]):
            expire_token(admin, token.hmac, -1)
    status, page = browser.get("/topics/orders/records")
    assert status == 502
    assert "orders 4" not in page
