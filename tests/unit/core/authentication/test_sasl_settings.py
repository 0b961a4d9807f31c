"""The settings of SASL: their meaning, and rejected ones."""

from __future__ import annotations

import pytest

from moldau.client.protocol.bearer import AssertionKey, LoginTimes, bearer_login
from moldau.core.authentication.bearer_settings import KeySource, NodeBearer, TokenRules
from moldau.core.authentication.settings import login_at, sasl_settings
from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.errors import InvalidConfigError
from moldau.wire.protocol.jaas import BEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from moldau.wire.protocol.sasl_tokens import Credentials

SASL = {
    "listeners": "SASL://127.0.0.1:9092",
    "inter.broker.listener.name": "SASL",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
}
USERS = {"listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret" user_bob="b";'}
ENABLED = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512"}
THREE = {
    "listeners": "SASL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9193",
    "node.id": "1",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.controller.scram-sha-512.sasl.jaas.config": f'{SCRAM_MODULE} required username=c password="d";',
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username=a password="b" user_a="b";',
}


def parsed(*texts: dict[str, str]) -> BrokerSettings:
    return parse_broker_settings({name: value for part in (SASL, *texts) for name, value in part.items()})


def test_a_listener_offers_the_enabled_mechanisms_in_their_order() -> None:
    settings = sasl_settings("SASL", parsed(ENABLED, USERS))
    assert settings.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert settings.passwords == {"alice": "secret", "bob": "b"}
    assert "secret" not in repr(settings)


def test_a_listener_may_have_mechanisms_and_sessions_of_its_own() -> None:
    own = {
        "listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-256, SCRAM-SHA-512",
        "connections.max.reauth.ms": "1000",
        "listener.name.sasl.scram-sha-512.connections.max.reauth.ms": "2000",
    }
    settings = sasl_settings("SASL", parsed(ENABLED, own))
    assert settings.max_session_ms == {"SCRAM-SHA-256": 1_000, "SCRAM-SHA-512": 2_000}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "listener SASL: sasl.enabled.mechanisms: GSSAPI is not served (Kerberos is not served)"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARERS"}, "OAUTHBEARERS is not served; choose from PLAIN"),
        ({"sasl.enabled.mechanisms": ""}, "names no mechanism"),
        (ENABLED, "offers PLAIN and has no users: set listener.name.sasl.plain.sasl.jaas.config"),
        (ENABLED | {"listener.name.sasl.plain.sasl.jaas.config": "x"}, "Login module control flag not specified"),
        (
            ENABLED | {"listener.name.sasl.plain.sasl.jaas.config": f"{SCRAM_MODULE} required;"},
            f"the login module of PLAIN is {PLAIN_MODULE}",
        ),
        (ENABLED | USERS | {"listener.name.sasl.connections.max.reauth.ms": "soon"}, "Not a number of type LONG"),
    ],
)
def test_a_listener_that_cannot_authenticate_refuses_the_start(changed: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        parsed(changed)
    assert words in str(refused.value)


def test_a_node_of_several_logs_in_at_each_listener_by_its_own_mechanism() -> None:
    settings = parsed(ENABLED, THREE)
    assert login_at("SASL", settings) == Credentials("PLAIN", "a", "b")
    assert login_at("CONTROLLER", settings) == Credentials("SCRAM-SHA-512", "c", "d")
    assert login_at("OTHER", settings) is None
    assert "'b'" not in repr(login_at("SASL", settings))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.mechanism.inter.broker.protocol": "GSSAPI"}, "sasl.mechanism.inter.broker.protocol: GSSAPI is not"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"}, "must say as whom this node logs in"),
        (
            {"listener.name.controller.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required username=c;"},
            "the options username and password must be set",
        ),
    ],
)
def test_a_node_that_cannot_log_in_at_the_others_refuses_the_start(changed: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        parsed(ENABLED, THREE, changed)
    assert words in str(refused.value)


HANDLER = "listener.name.sasl.oauthbearer.sasl.server.callback.handler.class"
CLASSES = "org.apache.kafka.common.security.oauthbearer."
BEARER = {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    HANDLER: f"{CLASSES}OAuthBearerValidatorCallbackHandler",
    "sasl.oauthbearer.jwks.endpoint.url": "https://issuer/jwks",
    "sasl.oauthbearer.expected.audience": "kafka, other",
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "moldau.oauthbearer.allowed.urls": "https://issuer/jwks, https://issuer/token",
}
URL = "sasl.oauthbearer.jwks.endpoint.url"


def test_a_listener_takes_tokens_by_the_nearest_settings() -> None:
    own = {
        "listener.name.sasl.sasl.oauthbearer.expected.audience": "of-the-listener",
        "listener.name.sasl.oauthbearer.sasl.oauthbearer.expected.issuer": "https://other",
        "listener.name.sasl.oauthbearer.sasl.jaas.config": f'{BEARER_MODULE} required ssl.truststore.type="PEM";',
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    settings = sasl_settings("SASL", parsed(BEARER, own)).bearer
    assert settings is not None
    assert settings.rules == TokenRules(("of-the-listener",), "https://other", 0, "scope", "sub")
    assert settings.keys == KeySource("https://issuer/jwks", 3_600_000, 100, 10_000, (("ssl.truststore.type", "PEM"),))
    assert "PEM" not in repr(settings)
    assert sasl_settings("SASL", parsed(ENABLED, USERS)).bearer is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({HANDLER: f"{CLASSES}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"}, "never accepted"),
        ({"sasl.server.callback.handler.class": BEARER[HANDLER]}, "is not served; only listener.name.LISTENER."),
        ({"listener.name.sasl.plain.sasl.server.callback.handler.class": BEARER[HANDLER]}, "is not served"),
        ({"listener.name.sasl.oauthbearer.sasl.login.callback.handler.class": "x"}, "x is not served"),
        ({"sasl.oauthbearer.jwt.validator.class": "x"}, "no other is known"),
        ({"sasl.oauthbearer.expected.audience": ""}, 'requires "sasl.oauthbearer.expected.audience"'),
        ({"sasl.oauthbearer.expected.issuer": ""}, 'requires "sasl.oauthbearer.expected.issuer"'),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "must be at least 0"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "must be at least 1"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "value is required"),
        ({"listener.name.sasl.oauthbearer.sasl.jaas.config": f"{PLAIN_MODULE} required;"}, "the login module of OAUTH"),
        ({URL: ""}, f'requires "{URL}"'),
        ({URL: "https://issuer/jwks2"}, "add it to moldau.oauthbearer.allowed.urls"),
        ({"moldau.oauthbearer.allowed.urls": ""}, "add it to moldau.oauthbearer.allowed.urls"),
        ({URL: "http://issuer/jwks", "moldau.oauthbearer.allowed.urls": "http://issuer/jwks"}, "for the loopback only"),
        ({URL: "https://user:secret@issuer/jwks"}, "may have no user"),
        ({URL: "https://issuer/jwks#x"}, "no fragment"),
        ({URL: "https://[issuer/jwks"}, "is malformed"),
        ({URL: "https://issuer:99999/jwks"}, "is malformed"),
        ({URL: "ftp://issuer/jwks"}, "must be a file:, https: or http: URL"),
        ({URL: "https:///jwks"}, "must be a file:, https: or http: URL"),
        ({URL: "file:jwks.json"}, "named by its whole path"),
        ({URL: "file://host/jwks.json"}, "named by its whole path"),
    ],
)
def test_a_listener_that_could_check_no_token_refuses_the_start(changed: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        parsed(BEARER, changed)
    assert words in str(refused.value)


@pytest.mark.parametrize("url", ["file:/etc/jwks.json", "file:///etc/jwks.json"])
def test_a_file_with_keys_needs_no_entry_in_the_list(url: str) -> None:
    parsed(BEARER, {URL: url, "moldau.oauthbearer.allowed.urls": ""})


def test_audience_and_issuer_may_be_waived() -> None:
    waived = {f"sasl.oauthbearer.allow.unverified.{name}": "true" for name in ("audience", "issuer")}
    nothing = {f"sasl.oauthbearer.expected.{name}": "" for name in ("audience", "issuer")}
    settings = sasl_settings("SASL", parsed(BEARER, waived, nothing)).bearer
    assert settings is not None
    assert (settings.rules.audiences, settings.rules.issuer) == ((), None)


BY_TOKENS = {
    "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
    "sasl.oauthbearer.client.credentials.client.id": "node",
    "sasl.oauthbearer.client.credentials.client.secret": "its-secret",
}


def test_a_node_may_log_in_at_the_others_by_tokens() -> None:
    settings = parsed(THREE, BEARER, BY_TOKENS)
    login = login_at("SASL", settings)
    assert isinstance(login, NodeBearer)
    assert login.properties == {name: text for name, text in BY_TOKENS.items() if "oauthbearer" in name}
    assert "its-secret" not in repr(login)
    assert settings.notices() == ()
    times = {"sasl.login.read.timeout.ms": "5", "listener.name.sasl.oauthbearer.sasl.login.connect.timeout.ms": "7"}
    timed = login_at("SASL", parsed(THREE, BEARER, BY_TOKENS, times))
    assert isinstance(timed, NodeBearer)
    assert bearer_login(timed.properties, None, None).times == LoginTimes(connect_ms=7, read_ms=5)


def test_a_node_may_sign_assertions() -> None:
    said = {"private.key.file": "/key", "claim.iss": "me", "claim.jti.include": "true", "algorithm": "es256"}
    without = {name: text for name, text in BY_TOKENS.items() if "credentials" not in name}
    settings = parsed(THREE, BEARER, without, {f"sasl.oauthbearer.assertion.{name}": said[name] for name in said})
    login = login_at("SASL", settings)
    assert isinstance(login, NodeBearer)
    key = AssertionKey("/key", "me", algorithm="ES256", has_id=True)
    assert bearer_login(login.properties, None, None).key == key
    assert settings.notices() == ()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sasl.oauthbearer.token.endpoint.url": ""}, "must say where this node has tokens from"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://issuer/other"}, "add it to moldau.oauthbearer.allowed.urls"),
        ({"sasl.oauthbearer.client.credentials.client.id": ""}, "client.id must be set for the listener SASL"),
        ({"sasl.oauthbearer.client.credentials.client.secret": ""}, "client.secret must be set for the listener SASL"),
    ],
)
def test_a_node_that_could_have_no_token_refuses_the_start(changed: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        parsed(THREE, BEARER, BY_TOKENS, changed)
    assert words in str(refused.value)


def test_no_notice_and_no_view_shows_a_password() -> None:
    settings = parsed(ENABLED, USERS)
    assert settings.notices() == ()
    assert "secret" not in repr(settings)
