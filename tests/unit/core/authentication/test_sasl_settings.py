"""What the settings say of SASL, and which are refused."""

from __future__ import annotations

import pytest

from moldau.core.authentication.settings import login_at, sasl_settings
from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.errors import InvalidConfigError
from moldau.wire.protocol.jaas import PLAIN_MODULE, SCRAM_MODULE
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


def test_no_notice_and_no_view_shows_a_password() -> None:
    settings = parsed(ENABLED, USERS)
    assert settings.notices() == ()
    assert "secret" not in repr(settings)
