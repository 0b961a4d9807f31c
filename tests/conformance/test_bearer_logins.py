"""Logins by OAUTHBEARER: the tokens that Moldau and Apache Kafka accept, and the length of the session."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.wire.protocol.jaas import BEARER_MODULE
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, apache_kafka, free_port
from tests.support.bearer_logins import GENERIC, INVALID, exchange, log_in, rows, stricter_rows
from tests.support.certificates import authority
from tests.support.held_port import held_port, port_of
from tests.support.issuer import Fault, Issuer
from tests.support.json_web_tokens import Kind
from tests.support.running_broker import RunningBroker
from tests.support.wire import Closed, RawConnection

pytestmark = pytest.mark.slow
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
PATIENCE_S = 20


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer.running() as running:
        yield running


def settings_of(issuer: Issuer, url: str) -> dict[str, str]:
    """Of a listener OAUTH, for Apache Kafka too."""
    return {
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{BEARER_MODULE} required;",
        "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": HANDLER,
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": "kafka,other",
        "sasl.oauthbearer.expected.issuer": issuer.url,
        "connection.failed.authentication.delay.ms": "0",
    }


@contextmanager
def moldau(scratch: Path, settings: dict[str, str]) -> Iterator[str]:
    """Gives the address of the listener OAUTH."""
    with held_port() as plain, held_port() as bearer:
        address = f"127.0.0.1:{port_of(bearer)}"
        own = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port_of(plain)},OAUTH://{address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT",
            "log.dirs": str(scratch / "data"),
        }
        config = scratch / "node.properties"
        config.write_text("\n".join(f"{name}={text}" for name, text in (own | settings).items()))
        broker = RunningBroker("--no-console", "--config", str(config)).wait_until_ready()
        try:
            yield address
        finally:
            broker.stop()


def assert_ends(connection: RawConnection) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            connection.assert_alive()
        except Closed:
            return
    pytest.fail("the session goes on after its token")


@pytest.mark.parametrize("kind", ["RSA", "EC"])
def test_the_tokens_of_the_table_are_told_apart(kind: Kind, tmp_path: Path) -> None:
    with Issuer.running(kind=kind) as issuer:
        settings = settings_of(issuer, issuer.jwks_url) | {"moldau.oauthbearer.allowed.urls": issuer.jwks_url}
        with moldau(tmp_path, settings) as servers:
            table = rows(issuer, issuer.keys[-1]) | stricter_rows(issuer)
            outcomes = {name: log_in(servers, row.token) for name, row in table.items()}
        assert {name: found.is_admitted for name, found in outcomes.items()} == {
            name: row.is_admitted for name, row in table.items()
        }
        told = {found.told for found in outcomes.values() if not found.is_admitted}
        assert {text.partition(" (")[0] for text in told} == {
            *(INVALID, GENERIC, "Authentication failed: Client requested an authorization id")
        }
        assert len(issuer.requests) == 1, "unknown keys are asked for once in 10 s"


@pytest.mark.parametrize("mark", [pytest.param(0, marks=NEEDS_APACHE_KAFKA)])
def test_apache_kafka_tells_the_same_tokens_apart(mark: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Issuer.running(kind="RSA") as issuer:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.jwks_url}"
        monkeypatch.setenv("JDK_JAVA_OPTIONS", f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {allowed}")
        protocols = {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,OAUTH:SASL_PLAINTEXT"}
        address = f"127.0.0.1:{free_port()}"
        settings = settings_of(issuer, issuer.jwks_url) | protocols
        with apache_kafka(tmp_path / "scratch", tmp_path / "data", settings, listeners=[f"OAUTH://{address}"]):
            table = rows(issuer, issuer.keys[-1])
            outcomes = {name: log_in(address, row.token) for name, row in table.items()}
            stricter = [log_in(address, row.token) for row in stricter_rows(issuer).values()]
        assert {name: found.is_admitted for name, found in outcomes.items()} == {
            name: row.is_admitted for name, row in table.items()
        }
        assert all(each.is_admitted for each in stricter), "these are where Moldau is stricter"
        told = {found.told for found in outcomes.values() if not found.is_admitted}
        assert {text.partition(" (")[0] for text in told} == {
            *(INVALID, GENERIC, "Authentication failed: Client requested an authorization id")
        }


def test_a_session_ends_with_its_token_unless_a_new_one_comes(issuer: Issuer, tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(issuer.jwks()))
    with moldau(tmp_path, settings_of(issuer, f"file:{path}")) as servers:
        now = int(time.time())
        with RawConnection(servers) as going, RawConnection(servers) as ending, RawConnection(servers) as other:
            for each in (going, ending, other):
                outcome = exchange(each, issuer.token("alice", exp=now + 3))
                assert 0 < outcome.lifetime_ms <= 3_000
                each.assert_alive()
            assert_ends(ending)
            assert exchange(going, issuer.token("alice")).lifetime_ms > 3_000_000
            going.assert_alive()
            assert "Cannot change principals" in exchange(other, issuer.token("bob")).told
            other.assert_closed()


def test_keys_come_over_tls_from_an_authority_of_the_settings(tmp_path: Path) -> None:
    with Issuer.running(tls=True) as issuer:
        store = authority().write(tmp_path)
        module = f'{BEARER_MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="{store}";'
        settings = settings_of(issuer, issuer.jwks_url) | {
            "listener.name.oauth.oauthbearer.sasl.jaas.config": module,
            "moldau.oauthbearer.allowed.urls": f"https://other.example/jwks,{issuer.jwks_url}",
        }
        with moldau(tmp_path, settings) as servers:
            assert log_in(servers, issuer.token("alice")).is_admitted


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("hang", "did not answer in time"),
        ("redirect", "redirects are not followed"),
        ("huge", "more than 1048576 bytes"),
        ("not_json", "no JSON object"),
        ("empty_object", 'with a list "keys"'),
        ("failed", "HTTP 500"),
    ],
)
def test_a_start_without_keys_is_refused(issuer: Issuer, fault: Fault, words: str, tmp_path: Path) -> None:
    issuer.faults["/jwks"] = fault
    settings = settings_of(issuer, issuer.jwks_url) | {"moldau.oauthbearer.allowed.urls": issuer.jwks_url}
    with pytest.raises(AssertionError) as refused, moldau(tmp_path, settings):
        pass
    assert words in str(refused.value)


def test_a_start_with_a_url_that_is_not_allowed_is_refused(issuer: Issuer, tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as refused, moldau(tmp_path, settings_of(issuer, issuer.jwks_url)):
        pass
    assert "add it to moldau.oauthbearer.allowed.urls" in str(refused.value)
    assert issuer.requests == []
