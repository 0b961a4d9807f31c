"""A client's security as a value: Kafka's settings, and the places of secrets."""

from __future__ import annotations

import pickle

import pytest

from moldau.client.protocol.access import AccessError, ClusterAccess
from moldau.client.protocol.secrets import Origin, Secret, Source, parse_reference
from moldau.client.protocol.security import ClientSecurity, password_of_entry
from moldau.errors import KafkaError
from moldau.wire.protocol.jaas import PLAIN_MODULE, SCRAM_MODULE

SASL = {"security.protocol": "sasl_ssl", "sasl.mechanism": "scram-sha-512"}
JAAS = f'{SCRAM_MODULE} required username="alice" password="hidden";'


def security(**texts: str) -> ClientSecurity:
    return ClientSecurity.from_properties({**SASL, **{name.replace("_", "."): text for name, text in texts.items()}})


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("${env:NAME}", Secret.in_environment("NAME")),
        ("${directory:/run/secrets:kafka}", Secret.in_file("/run/secrets/kafka")),
        (
            " ${file:/etc/client.properties:sasl.password} ",
            Secret(Source.ENTRY, "/etc/client.properties", "sasl.password"),
        ),
        ("pa${env:NAME}ss", None),
        ("${vault:a:b}", None),
    ],
)
def test_a_reference_is_written_as_in_kafka(text: str, secret: Secret | None) -> None:
    assert parse_reference(text) == secret
    if secret is not None:
        assert secret.reference() == text.strip()
        assert pickle.loads(pickle.dumps(secret)) == secret


def test_a_login_is_read_from_jaas_or_by_the_names_of_librdkafka() -> None:
    by_jaas, by_names = security(sasl_jaas_config=JAAS), security(sasl_username="alice", sasl_password="hidden")
    for login in (by_jaas.login, by_names.login):
        assert login is not None
        assert (login.mechanism, login.username, login.password.place) == ("SCRAM-SHA-512", "alice", "hidden")


def test_no_secret_is_shown_or_pickled() -> None:
    access = ClusterAccess.from_properties(
        {"bootstrap.servers": "a", **SASL, "sasl.jaas.config": JAAS, "ssl.keystore.key": "hidden"}
    )
    assert "hidden" not in repr(access) + str(access) + repr(access.security.login) + repr(access.security.tls_secrets)
    with pytest.raises(AccessError, match=r"a secret is not sent to others\. Give a reference") as refused:
        pickle.dumps(access)
    with pytest.raises(AccessError):
        access.spark_options()
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("origin", [Origin("/etc/client.properties"), Origin("/p.toml", "profiles.prod.")])
def test_a_secret_of_a_file_is_sent_as_its_place(origin: Origin) -> None:
    properties = {"bootstrap.servers": "a", **SASL, "sasl.jaas.config": JAAS, "ssl.key.password": "hidden"}
    access = ClusterAccess.from_properties(properties, origin=origin)
    assert b"hidden" not in pickle.dumps(access)
    options = access.spark_options()
    assert "hidden" not in str(options)
    assert options["kafka.sasl.password"] == f"${{file:{origin.path}:{origin.prefix}sasl.jaas.config}}"
    sent = {name.removeprefix("kafka."): text for name, text in options.items()}
    assert ClusterAccess.from_properties(sent) == pickle.loads(pickle.dumps(access)) == access


def test_a_password_in_jaas_may_be_a_reference() -> None:
    login = security(sasl_jaas_config=f'{SCRAM_MODULE} required username=a password="${{env:WORD}}";').login
    assert login is not None
    assert login.password == Secret.in_environment("WORD")


def test_the_entry_of_jaas_has_its_password_as_secret() -> None:
    assert password_of_entry("profiles.x.sasl.jaas.config", JAAS) == "hidden"
    assert password_of_entry("sasl.password", JAAS) == JAAS
    with pytest.raises(KafkaError):
        password_of_entry("sasl.jaas.config", "nonsense")


TOKEN = f'{SCRAM_MODULE} required username="id-1" password="{{}}" tokenauth="{{}}";'


@pytest.mark.parametrize(("option", "is_token"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)])
def test_a_delegation_token_is_an_option_of_jaas(option: str, is_token: bool) -> None:
    login = security(sasl_jaas_config=TOKEN.format("hidden", option)).login
    assert login is not None
    assert (login.username, login.is_token) == ("id-1", is_token)
    assert "hidden" not in repr(login)


@pytest.mark.parametrize("origin", [None, Origin('/a "b"\\c.properties')])
def test_a_delegation_token_is_sent_as_jaas_that_has_the_place_of_its_secret(origin: Origin | None) -> None:
    text = TOKEN.format("${env:HMAC}" if origin is None else "hidden", "true")
    access = ClusterAccess.from_properties({"bootstrap.servers": "a", **SASL, "sasl.jaas.config": text}, origin=origin)
    options = access.spark_options()
    assert "hidden" not in str(options)
    assert not {"kafka.sasl.username", "kafka.sasl.password"} & set(options)
    sent = {name.removeprefix("kafka."): text for name, text in options.items()}
    assert ClusterAccess.from_properties(sent) == pickle.loads(pickle.dumps(access)) == access
    assert access.security.login is not None
    assert access.security.login.is_token


def test_an_authority_by_the_name_of_librdkafka() -> None:
    by_name = ClientSecurity.from_properties({"security.protocol": "SSL", "ssl.ca.location": "ca.pem"})
    assert dict(by_name.tls) == {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}


def test_what_the_protocol_has_no_use_for_is_left_alone() -> None:
    given = {"security.protocol": "PLAINTEXT", "ssl.key.password": "hidden", "sasl.jaas.config": "nonsense"}
    assert ClientSecurity.from_properties(given) == ClientSecurity()


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("sasl.mechanism", {"sasl_mechanism": ""}),
        ("sasl.mechanism", {"sasl_mechanism": "GSSAPI", "sasl_username": "a", "sasl_password": "b"}),
        ("sasl.password", {"sasl_username": "a"}),
        ("sasl.username", {"sasl_password": "b"}),
        ("sasl.jaas.config", {"sasl_jaas_config": JAAS, "sasl_username": "a"}),
        ("sasl.jaas.config", {"sasl_jaas_config": "hidden"}),
        ("sasl.jaas.config", {"sasl_jaas_config": JAAS.replace(SCRAM_MODULE, PLAIN_MODULE)}),
        ("sasl.jaas.config", {"sasl_jaas_config": f"{SCRAM_MODULE} required username=hidden;"}),
        ("sasl.jaas.config", {"sasl_jaas_config": "${env:HIDDEN}"}),
        ("ssl.ca.location", {"ssl_ca_location": "a", "ssl_truststore_location": "b"}),
    ],
)
def test_a_setting_by_which_no_broker_lets_us_in_is_named(name: str, texts: dict[str, str]) -> None:
    with pytest.raises(AccessError) as refused:
        security(**texts)
    assert refused.value.name == name
    assert "hidden" not in str(refused.value)
