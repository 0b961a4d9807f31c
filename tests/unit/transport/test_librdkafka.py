"""An access in librdkafka's settings, which it accepts."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.transport.librdkafka import TokenCallback, librdkafka_settings
from moldau.wire.protocol.jaas import SCRAM_MODULE
from tests.support.certificates import authority
from tests.support.issuer import Issuer
from tests.support.json_web_tokens import claims_of

SERVERS = "b:1,a:9092,[::1]:9092"
LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "alice", "sasl.password": "hidden"}
NOT_AT_DEFAULT = ClusterAccess(SERVERS, client_id="job", connect_timeout_ms=2, request_timeout_ms=3)


def access_of(**texts: str) -> ClusterAccess:
    """`ssl_key_password` is `ssl.key.password`."""
    said = {name.replace("_", "."): text for name, text in texts.items()}
    return ClusterAccess.from_properties({"bootstrap.servers": SERVERS, **said})


def taken(access: ClusterAccess) -> dict[str, object]:
    """The settings, after librdkafka accepted them."""
    told = librdkafka_settings(access)
    Producer({**told, "log_level": 0})
    Consumer({**told, "log_level": 0, "group.id": "g"}).close()
    return told


@pytest.mark.parametrize("access", [ClusterAccess(SERVERS), NOT_AT_DEFAULT])
def test_librdkafka_takes_what_it_is_told(access: ClusterAccess) -> None:
    told = taken(access)
    assert (told["bootstrap.servers"], told["client.id"]) == (SERVERS, access.client_id)


def test_files_of_pem_stay_files(tmp_path: Path) -> None:
    own = authority().issue("CN=alice")
    path = tmp_path / "own.pem"
    path.write_text(own.key_pem_with("opens") + own.chain_pem)
    ca = str(authority().write(tmp_path))
    trust = {"ssl_truststore_type": "PEM", "ssl_truststore_location": ca}
    key = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(path), "ssl_key_password": "opens"}
    told = taken(access_of(security_protocol="SSL", **trust, **key))
    assert told["ssl.ca.location"] == ca
    assert told["ssl.key.location"] == told["ssl.certificate.location"] == str(path)
    assert (told["ssl.key.password"], told["ssl.endpoint.identification.algorithm"]) == ("opens", "https")


def test_a_trust_store_of_pkcs12_becomes_pem(tmp_path: Path) -> None:
    store = tmp_path / "own.p12"
    store.write_bytes(authority().own.pkcs12("opens"))
    trust = {"ssl_truststore_location": str(store), "ssl_truststore_password": "opens"}
    key = {"ssl_keystore_location": str(store), "ssl_keystore_password": "opens"}
    told = taken(access_of(security_protocol="SSL", ssl_endpoint_identification_algorithm="", **trust, **key))
    assert "BEGIN CERTIFICATE" in str(told["ssl.ca.pem"])
    assert told["ssl.keystore.location"] == str(store)
    assert told["ssl.endpoint.identification.algorithm"] == "none"


def test_pem_in_settings_and_suites_by_the_names_of_openssl() -> None:
    own = authority().issue("CN=alice")
    told = taken(
        access_of(
            security_protocol="SSL",
            ssl_truststore_type="PEM",
            ssl_truststore_certificates=authority().pem,
            ssl_keystore_type="PEM",
            ssl_keystore_key=own.key_pem,
            ssl_keystore_certificate_chain=own.chain_pem,
            ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        )
    )
    assert told["ssl.cipher.suites"] == "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_a_login_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLDAU_TEST_PASSWORD", "of the environment")
    said = {**LOGIN, "sasl.password": "${env:MOLDAU_TEST_PASSWORD}"}
    told = taken(access_of(security_protocol="SASL_PLAINTEXT", **said))
    assert (told["sasl.mechanism"], told["sasl.username"]) == ("SCRAM-SHA-512", "alice")
    assert told["sasl.password"] == "of the environment"
    assert "security.protocol" in told


def test_a_secret_that_is_not_there_is_named() -> None:
    said = {**LOGIN, "sasl.password": "${env:MOLDAU_TEST_NOTHING}"}
    with pytest.raises(KafkaError, match=r"sasl\.password: the environment variable MOLDAU_TEST_NOTHING is not set"):
        librdkafka_settings(access_of(security_protocol="SASL_SSL", **said))


def test_a_delegation_token_is_refused_before_librdkafka_sends_it_as_a_password() -> None:
    jaas = f'{SCRAM_MODULE} required username="id-1" password="hidden" tokenauth="true";'
    access = access_of(security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
    with pytest.raises(KafkaError, match="librdkafka, which this needs, cannot log in by one: log in with") as refused:
        librdkafka_settings(access)
    assert refused.value.name == "INVALID_CONFIG"
    assert "hidden" not in str(refused.value)


BEARER = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example.org/token",
    "sasl.oauthbearer.client.credentials.client.id": "service",
    "sasl.oauthbearer.client.credentials.client.secret": "hidden",
    "sasl.oauthbearer.scope": "write",
    "sasl.oauthbearer.extensions": "traceId=1,pool=a",
}


def test_the_issuer_of_tokens_is_told(tmp_path: Path) -> None:
    said = {**BEARER, "https.ca.location": str(authority().write(tmp_path))}
    told = taken(access_of(security_protocol="SASL_SSL", **said))
    assert {name: told[name] for name in told if "oauthbearer" in name or "https" in name} == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer.example.org/token",
        "sasl.oauthbearer.client.id": "service",
        "sasl.oauthbearer.client.secret": "hidden",
        "sasl.oauthbearer.scope": "write",
        "sasl.oauthbearer.extensions": "traceId=1,pool=a",
        "https.ca.location": said["https.ca.location"],
    }


def test_our_source_asks_where_librdkafka_has_no_setting_for_a_time() -> None:
    said = {**BEARER, "sasl.login.read.timeout.ms": "500"}
    told = librdkafka_settings(access_of(security_protocol="SASL_SSL", **said))
    assert isinstance(told["oauth_cb"], TokenCallback)


def test_a_token_of_ours_is_given_by_a_callback(tmp_path: Path) -> None:
    with Issuer.running() as issuer:
        token = issuer.token("alice")
    path = tmp_path / "token"
    path.write_text(token)
    in_file = {**BEARER, "sasl.oauthbearer.token.endpoint.url": f"file://{path}"}
    accesses = (
        access_of(security_protocol="SASL_SSL", **in_file),
        access_of(security_protocol="SASL_SSL", **BEARER).under_token(lambda: token, "alice"),
    )
    for access in accesses:
        callback = taken(access)["oauth_cb"]
        assert isinstance(callback, TokenCallback)
        given, ends_s, principal, _extensions = callback("")
        assert (given, principal) == (token, "")
        assert 0 <= claims_of(token)["exp"] - ends_s < 1
