"""The web console with logins at an OpenID Connect issuer."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.client.protocol.access import ClusterAccess
from moldau.testing.cluster import Cluster
from moldau.wire.protocol.jaas import BEARER_MODULE
from tests.support.certificates import authority
from tests.support.held_port import held_port, port_of
from tests.support.issuer import AUDIENCE, Client, Fault, Issuer, Person
from tests.support.json_web_tokens import Forgery
from tests.support.running_broker import RunningBroker
from tests.support.web_console import WebBrowser, console_of, sentence_in

FILE = """
[login]
source = "oidc"
without_tokens = "service"

[roles]
viewer = ["alice"]

[oidc]
issuer = "{issuer}"
client.id = "console"
client.secret = {{file = "oidc-secret"}}
ca = "{ca}"
"""
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
NOT_VALID = "The token of the issuer is not valid."


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer.running(tls=True) as issuer:
        issuer.clients["console"] = Client("PLANTED-client-secret")
        issuer.people["bob"] = Person("bob-password")
        yield issuer


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture
def console(cluster: Cluster, issuer: Issuer, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "oidc-secret").write_text("PLANTED-client-secret\n")
    ca = authority().write(tmp_path)
    with console_of(cluster.access(), tmp_path, FILE.format(issuer=issuer.url, ca=ca)) as address:
        yield address


def browser_of(console: str, tmp_path: Path) -> WebBrowser:
    return WebBrowser(console, ssl.create_default_context(cafile=str(authority().write(tmp_path))))


def log_in(
    browser: WebBrowser, issuer: Issuer, name: str = "alice", change: Callable[[str], str] = str
) -> tuple[int, str]:
    """As a user does: to the issuer, its form, and back. `change`: changes the address to which the issuer
    redirects."""
    _, page = browser.get("/login/oidc?next=/topics")
    fields = dict(re.findall('name="([^"]+)" value="([^"]*)"', page))
    code = issuer.code_for({**fields, "username": name, "password": f"{name}-password"})
    back = f"/login/oidc/back?{urlencode({'code': code, 'state': fields['state']})}"
    return browser.get(change(back))


def test_a_person_logs_in_at_the_issuer_and_comes_back(console: str, issuer: Issuer, tmp_path: Path) -> None:
    browser = browser_of(console, tmp_path)
    status, page = browser.get("/topics")
    assert "Log in with OpenID Connect" in page
    status, page = log_in(browser, issuer)
    assert (status, browser.url) == (200, f"{console}/topics")
    assert "orders" in page
    assert "User:alice" in page
    assert "PLANTED" not in page + str(browser.cookies)
    [form] = issuer.forms
    assert form["grant_type"] == "authorization_code"
    assert len(form["code_verifier"]) == 43


def test_what_is_sent_to_the_issuer_has_a_challenge_a_state_and_a_nonce(
    console: str, issuer: Issuer, tmp_path: Path
) -> None:
    browser = browser_of(console, tmp_path)
    asked = []
    for _ in range(2):
        browser.get("/login/oidc")
        asked.append({name: value[0] for name, value in parse_qs(urlsplit(browser.url).query).items()})
    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name]
    assert asked[0]["code_challenge_method"] == "S256"
    assert asked[0]["redirect_uri"] == f"{console}/login/oidc/back"


@pytest.mark.parametrize("forgery", get_args(Forgery))
def test_a_forged_id_token_lets_nobody_in(console: str, issuer: Issuer, tmp_path: Path, forgery: Forgery) -> None:
    issuer.forgery = forgery
    browser = browser_of(console, tmp_path)
    status, page = log_in(browser, issuer)
    assert (status, sentence_in(page)) == (403, NOT_VALID)
    assert browser.get("/topics", accept="text/plain")[0] == 401


@pytest.mark.parametrize(
    "change",
    [
        lambda back: back.replace("state=", "state=a"),
        lambda back: re.sub("&state=.*", "", back),
        lambda back: re.sub("code=[^&]*", "error=access_denied", back),
        lambda back: re.sub("code=[^&]*", "code=guessed", back),
    ],
)
def test_an_answer_that_is_not_the_issuers_lets_nobody_in(
    console: str, issuer: Issuer, tmp_path: Path, change: Callable[[str], str]
) -> None:
    browser = browser_of(console, tmp_path)
    assert log_in(browser, issuer, change=change)[0] == 403
    assert browser.get("/topics", accept="text/plain")[0] == 401


def test_a_login_that_another_browser_began_is_refused(console: str, issuer: Issuer, tmp_path: Path) -> None:
    victim = browser_of(console, tmp_path)
    victim.get("/login/oidc")
    backs: list[str] = []

    def note(back: str) -> str:
        backs.append(back)
        return "/login"

    log_in(browser_of(console, tmp_path), issuer, change=note)
    assert victim.get(backs[0])[0] == 403
    assert victim.get("/topics", accept="text/plain")[0] == 401


def test_an_answer_that_is_sent_twice_lets_nobody_in(console: str, issuer: Issuer, tmp_path: Path) -> None:
    browser, backs = browser_of(console, tmp_path), list[str]()
    log_in(browser, issuer, change=lambda back: backs.append(back) or back)  # type: ignore[func-returns-value]
    thief = browser_of(console, tmp_path)
    for cookie in browser.cookies:
        if "oidc" in cookie.name:
            thief.cookies.set_cookie(cookie)
    assert thief.get(backs[0])[0] == 403


def test_who_has_no_role_is_not_let_in(console: str, issuer: Issuer, tmp_path: Path) -> None:
    status, page = log_in(browser_of(console, tmp_path), issuer, "bob")
    assert (status, sentence_in(page)) == (403, "bob has no role here: see [roles] in the file of --login.")


@pytest.mark.parametrize("fault", ["redirect", "huge", "not_json", "empty_object", "failed", "closed"])
@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks", "/token"])
def test_an_issuer_in_trouble_gets_one_clear_answer_and_no_session(
    console: str, issuer: Issuer, tmp_path: Path, path: str, fault: Fault
) -> None:
    browser = browser_of(console, tmp_path)
    if path.startswith("/."):
        issuer.faults[path] = fault
        status, page = browser.get("/login/oidc")
    else:
        issuer.faults[path] = fault
        status, page = log_in(browser, issuer)
    assert status in (403, 503)
    assert sentence_in(page)
    assert browser.get("/topics", accept="text/plain")[0] == 401
    issuer.faults.clear()
    assert log_in(browser, issuer)[0] == 200


@pytest.mark.slow
def test_the_token_is_passed_on_to_the_cluster_where_the_person_acts(issuer: Issuer, tmp_path: Path) -> None:
    (tmp_path / "jwks.json").write_text(json.dumps(issuer.jwks()))
    (tmp_path / "token").write_text(issuer.token("console"))
    (tmp_path / "oidc-secret").write_text("PLANTED-client-secret\n")
    prefix = "listener.name.oauth.oauthbearer.sasl"
    with held_port() as plain, held_port() as bearer:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port_of(plain)},OAUTH://127.0.0.1:{port_of(bearer)}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT",
            "log.dirs": str(tmp_path / "data"),
            "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.jaas.config": f"{BEARER_MODULE} required;",
            f"{prefix}.server.callback.handler.class": HANDLER,
            "sasl.oauthbearer.jwks.endpoint.url": f"file:{tmp_path / 'jwks.json'}",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": issuer.url,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
        }
        config = tmp_path / "node.properties"
        config.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))
        broker = RunningBroker("--no-console", "--config", str(config)).wait_until_ready()
        try:
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port_of(plain)}"})
            admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(60)
            producer = Producer({"bootstrap.servers": f"127.0.0.1:{port_of(plain)}"})
            producer.produce("orders", b"coffee")
            assert producer.flush(60) == 0
            access = ClusterAccess.from_properties(
                {
                    "bootstrap.servers": f"127.0.0.1:{port_of(bearer)}",
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "OAUTHBEARER",
                    "sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path / 'token'}",
                }
            )
            text = FILE.format(issuer=issuer.url, ca=authority().write(tmp_path))
            text = text.replace('without_tokens = "service"\n', "").replace('"alice"', '"*"')
            with console_of(access, tmp_path, text) as address:
                alice, bob = browser_of(address, tmp_path), browser_of(address, tmp_path)
                status, page = log_in(alice, issuer)
                assert (status, "acts as" in page) == (200, False)
                assert "coffee" in alice.get("/topics/orders/records")[1]
                assert log_in(bob, issuer, "bob")[0] == 200
                assert bob.get("/topics/orders/records")[0] == 404  # no ACL lets bob see it
        finally:
            broker.stop()
