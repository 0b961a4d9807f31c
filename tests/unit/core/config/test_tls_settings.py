"""TLS settings: their listeners, and combinations that are rejected."""

from __future__ import annotations

import pytest

from moldau.core.config.broker_settings import BrokerSettings, parse_broker_settings
from moldau.errors import KafkaError

LISTENERS = {
    "listeners": "PLAINTEXT://h:1,SSL://h:2,EXTERNAL://h:3",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,EXTERNAL:SSL,CONTROLLER:PLAINTEXT",
}
KEYS = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/k"}


def parsed(**more: str) -> BrokerSettings:
    return parse_broker_settings({**LISTENERS, **KEYS, **{name.replace("_", "."): text for name, text in more.items()}})


def test_the_setting_of_a_listener_counts_before_that_of_all() -> None:
    settings = parsed(
        ssl_client_auth="requested",
        listener_name_external_ssl_client_auth="required",
        listener_name_external_ssl_keystore_location="/x",
        ssl_endpoint_identification_algorithm="",
    )
    every, external = settings.tls_of("SSL"), settings.tls_of("external")
    assert every is not None
    assert external is not None
    assert (every.client_auth, every.files, every.checks_host) == ("requested", ("/k",), False)
    assert (external.client_auth, external.files) == ("required", ("/x",))
    assert settings.tls_of("PLAINTEXT") is None
    assert settings.tls_listeners == ("SSL", "EXTERNAL")
    assert settings.notices() == ()


def test_brokers_meet_at_the_listener_of_their_protocol() -> None:
    assert parsed(security_inter_broker_protocol="SSL").inter_broker_listener == "SSL"
    assert parsed(inter_broker_listener_name="EXTERNAL").inter_broker_listener == "EXTERNAL"
    assert [parsed().protocol_code_of(name) for name in ("PLAINTEXT", "SSL", "EXTERNAL", "CONTROLLER")] == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ({"ssl.keystore.location": ""}, "listener SSL speaks TLS and has no certificate"),
        ({"ssl.keystore.password": "x"}, "SSL key store password cannot be specified with PEM format"),
        ({"ssl.keystore.type": "PKCS12"}, "SSL key store is specified, but key store password is not specified."),
        ({"ssl.keystore.type": "JKS", "ssl.keystore.key": "x"}, "only for PEM, but key store type is JKS."),
        ({"ssl.keystore.key": "x"}, "SSL private key is specified, but certificate chain is not specified."),
        ({"ssl.keystore.certificate.chain": "x"}, "chain is specified, but private key is not specified"),
        (
            {"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "y"},
            "Both SSL key store location and separate private key are specified.",
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "", "ssl.keystore.password": "x"},
            "SSL key store is not specified, but key store password is specified.",
        ),
        ({"ssl.truststore.certificates": "x"}, "only for PEM, but trust store type is JKS."),
        ({"ssl.truststore.password": "x"}, "SSL trust store is not specified, but trust store password is specified."),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": "x", "ssl.truststore.location": "/t"},
            "Both SSL trust store location and separate trust certificates are specified.",
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/t", "ssl.truststore.password": "x"},
            "SSL trust store password cannot be specified for PEM format.",
        ),
        ({"ssl.keystore.type": "BCFKS"}, "must be one of PEM, PKCS12, JKS"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"}, "Invalid value TLSv1.1 for configuration ssl.enabled.protocols"),
        ({"ssl.protocol": "SSLv3"}, "Invalid value SSLv3 for configuration ssl.protocol"),
        ({"ssl.endpoint.identification.algorithm": "LDAPS"}, "must be https, or empty"),
        ({"ssl.client.auth": "maybe"}, "String must be one of: required, requested, none"),
        ({"listener.name.ssl.ssl.client.auth": "maybe"}, "String must be one of: required, requested, none"),
        ({"ssl.principal.mapping.rules": "x"}, "Invalid rule"),
        ({"ssl.engine.factory.class": "x"}, "ssl.engine.factory.class is not served yet"),
        (
            {"inter.broker.listener.name": "SSL", "security.inter.broker.protocol": "SSL"},
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_kafkas_words(texts: dict[str, str], told: str) -> None:
    with pytest.raises(KafkaError) as caught:
        parse_broker_settings({**LISTENERS, **KEYS, **texts})
    assert told in str(caught.value.message)


def test_a_secret_is_in_no_representation_of_the_settings() -> None:
    assert "hidden" not in repr(parsed(ssl_key_password="hidden"))
