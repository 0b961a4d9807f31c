"""Our own clients with a broker in its own process, whose listeners have TLS and logins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.client.admin.scram import Credential, alter_credentials
from moldau.client.admin.topics import list_topics
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError, ProtocolError
from moldau.shell.io.random import SystemRandom
from moldau.transport.access import open_admin, open_client, open_connection
from moldau.transport.librdkafka import librdkafka_settings
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.certificates import authority
from tests.support.held_port import held_port, port_of
from tests.support.running_broker import RunningBroker
from tests.support.tls_settings import of_broker

pytestmark = pytest.mark.slow
PATIENCE_S = 30
SESSION_MS = 1_500
PASSWORD = "of-alice-and-nobody-else"
LISTENERS = ("SASL_SSL", "SSL", "SASL_PLAINTEXT", "PLAINTEXT")


class SecuredBroker:
    """A listener of each security protocol; alice has the same password for PLAIN and SCRAM."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self._held = {name: held_port() for name in LISTENERS}
        self.addresses = {name: f"127.0.0.1:{port_of(held)}" for name, held in self._held.items()}
        login = f'{PLAIN_MODULE} required user_alice="{PASSWORD}";'
        settings = {
            "listeners": ",".join(f"{name}://{address}" for name, address in self.addresses.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": login,
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "connections.max.reauth.ms": str(SESSION_MS),
            **of_broker(scratch),
        }
        words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        self.process = RunningBroker("--in-memory", "--no-console", *words).wait_until_ready()
        with open_admin(ClusterAccess(self.addresses["PLAINTEXT"])) as admin:
            alter_credentials(admin, SystemRandom(), "alice", [Credential("SCRAM-SHA-512", 4_096, PASSWORD)], ())

    def properties(self, protocol: str, **texts: str) -> dict[str, str]:
        """Of a client; `sasl_password` is `sasl.password`."""
        return {
            "bootstrap.servers": self.addresses[protocol],
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.scratch / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": PASSWORD,
            **{name.replace("_", "."): text for name, text in texts.items()},
        }

    def access(self, protocol: str, **texts: str) -> ClusterAccess:
        return ClusterAccess.from_properties(self.properties(protocol, **texts))

    def stop(self) -> None:
        self.process.stop()
        for held in self._held.values():
            held.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    running = SecuredBroker(tmp_path_factory.mktemp("secured"))
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", LISTENERS)
def test_each_client_is_served_on_each_listener(broker: SecuredBroker, protocol: str, mechanism: str) -> None:
    access = broker.access(protocol, sasl_mechanism=mechanism)
    with open_client(access) as client:
        assert client.retry(lambda: client.any_connection().request(MetadataRequest(topics=()))).brokers
    with open_admin(access) as admin:
        assert isinstance(list_topics(admin), dict)
    producer = Producer({**librdkafka_settings(access), "log_level": 0})
    assert producer.list_topics(timeout=PATIENCE_S).brokers


def test_a_wrong_password_is_said_at_the_first_try(broker: SecuredBroker) -> None:
    access = broker.access("SASL_SSL", sasl_password="wrong")
    with open_client(access) as client, pytest.raises(KafkaError, match="refused the user alice") as refused:
        client.topic("t")
    assert refused.value.name == "SASL_AUTHENTICATION_FAILED"
    assert "tried for" not in str(refused.value)


def test_plain_text_on_a_port_of_tls_is_named(broker: SecuredBroker) -> None:
    access = ClusterAccess(broker.addresses["SSL"])
    with open_client(access) as client, pytest.raises(ProtocolError, match="this is TLS, not Kafka's protocol"):
        client.list_topics()


def test_tls_on_a_port_of_plain_text_is_named(broker: SecuredBroker) -> None:
    access = broker.access("SSL", bootstrap_servers=broker.addresses["PLAINTEXT"])
    with open_admin(access) as admin, pytest.raises(KafkaError, match="may be one without TLS"):
        admin.cluster()


def test_a_connection_that_is_always_busy_logs_in_again(broker: SecuredBroker) -> None:
    host, _, port = broker.addresses["SASL_SSL"].rpartition(":")
    with open_connection(broker.access("SASL_SSL"), host, int(port)) as connection:
        version = connection.version_of(ApiKey.METADATA)
        connection.send(MetadataRequest(topics=()), version)
        deadline_s = time.monotonic() + 2.5 * SESSION_MS / 1_000
        count = 0
        while time.monotonic() < deadline_s:
            connection.send(MetadataRequest(topics=()), version)
            assert connection.receive_message(MetadataResponse).brokers
            count += 1
        assert connection.receive_message(MetadataResponse).brokers
        assert not connection.in_flight
    assert count > 10


def test_a_client_that_stays_logs_in_again(broker: SecuredBroker) -> None:
    with open_client(broker.access("SASL_PLAINTEXT", sasl_mechanism="PLAIN")) as client:
        connection = client.any_connection()
        deadline_s = time.monotonic() + 2 * SESSION_MS / 1_000
        while time.monotonic() < deadline_s:
            assert client.any_connection().request(MetadataRequest(topics=())).brokers
        assert client.any_connection() is connection


def moldau(*words: str, stdin: str = "", environment: dict[str, str] | None = None) -> tuple[int, str]:
    """A command's exit code, and all its output."""
    done = subprocess.run(
        [sys.executable, "-m", "moldau.cli.main", *words],
        input=stdin,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def config(broker: SecuredBroker) -> str:
    """A properties file, as Kafka's tools accept it."""
    path = broker.scratch / "client.properties"
    path.write_text("".join(f"{name}={text}\n" for name, text in broker.properties("SASL_SSL").items()))
    return str(path)


def test_commands_take_a_profile(broker: SecuredBroker) -> None:
    path = broker.scratch / "config" / "moldau" / "profiles.toml"
    path.parent.mkdir(parents=True)
    rows = broker.properties("SASL_SSL") | {"sasl.password": "${env:PASSWORD_OF_ALICE}"}
    path.write_text("[profiles.secured]\n" + "".join(f"{name} = '{text}'\n" for name, text in rows.items()))
    path.chmod(0o600)
    environment = {"XDG_CONFIG_HOME": str(broker.scratch / "config"), "PASSWORD_OF_ALICE": PASSWORD}
    secured = ("--profile", "secured")
    assert moldau("topics", "create", "by-profile", *secured, environment=environment)[0] == 0
    code, told = moldau("produce", "by-profile", *secured, stdin="one\n", environment=environment)
    assert (code, "1 record" in told) == (0, True), told
    words = ("consume", "by-profile", "--from", "beginning", "--until-end", *secured)
    code, told = moldau(*words, environment=environment)
    assert (code, "one" in told) == (0, True), told
    code, told = moldau("doctor", "--round-trip", *secured, environment=environment)
    assert code == 0, told
    code, told = moldau("topics", "list", *secured, environment=environment | {"PASSWORD_OF_ALICE": "wrong"})
    assert (code, "refused the user alice" in told) == (1, True), told
    code, told = moldau("topics", "list", *secured, environment={**environment, "PASSWORD_OF_ALICE": ""})
    assert (code, "the environment variable PASSWORD_OF_ALICE is not set" in told) == (1, True), told


def test_tools_of_kafka_take_a_file_of_settings(broker: SecuredBroker, config: str) -> None:
    at = ("--bootstrap-server", broker.addresses["SASL_SSL"])
    create = ("--create", "--topic", "by-tools", "--command-config", config)
    assert moldau("kafka-topics", *at, *create)[0] == 0
    code, told = moldau(
        "kafka-console-producer", *at, "--topic", "by-tools", "--producer.config", config, stdin="one\n"
    )
    assert code == 0, told
    words = ("--topic", "by-tools", "--from-beginning", "--max-messages", "1", "--consumer.config", config)
    code, told = moldau("kafka-console-consumer", *at, *words)
    assert (code, "one" in told.splitlines()) == (0, True), told
    assert moldau("kafka-consumer-groups", *at, "--list", "--command-config", config)[0] == 0


def test_a_file_of_settings_may_be_standard_input(config: str) -> None:
    code, told = moldau("topics", "list", "--command-config", "-", stdin=Path(config).read_text())
    assert code == 0, told


def test_a_command_names_tls_where_it_speaks_plain_text(broker: SecuredBroker) -> None:
    code, told = moldau("topics", "list", "-b", broker.addresses["SASL_SSL"])
    assert (code, "speaks TLS, and this client speaks plain text. Set security.protocol to SSL" in told) == (1, True), (
        told
    )


@pytest.mark.parametrize(
    ("changed", "step", "told"),
    [
        ({}, None, "alice is logged in by SCRAM-SHA-512"),
        ({"sasl_password": "wrong"}, "login", "refused the user alice"),
        ({"ssl_truststore_type": "", "ssl_truststore_location": ""}, "tls", "which this client does not trust"),
        ({"bootstrap_servers": "PLAINTEXT"}, "tls", "speaks plain text, without TLS"),
        (
            {"bootstrap_servers": "SASL_PLAINTEXT", "security_protocol": "PLAINTEXT"},
            "login",
            "asks for a login by SASL",
        ),
        ({"security_protocol": "SASL_PLAINTEXT"}, "protocol", "Set security.protocol to SSL"),
    ],
)
def test_doctor_names_what_refuses_a_client(
    broker: SecuredBroker, changed: dict[str, str], step: str | None, told: str
) -> None:
    rows = broker.properties("SASL_SSL", **changed)
    rows["bootstrap.servers"] = broker.addresses.get(rows["bootstrap.servers"], rows["bootstrap.servers"])
    settings = "".join(f"{name}={text}\n" for name, text in rows.items() if text)
    code, output = moldau("doctor", "--json", "--command-config", "-", stdin=settings)
    findings = json.loads(output)
    assert [row["step"] for row in findings if row["level"] == "failed"] == ([] if step is None else [step])
    assert code == (step is not None)
    assert told in output


def test_no_password_is_told(broker: SecuredBroker) -> None:
    assert PASSWORD not in "".join(broker.process.output)
    assert authority().pem not in repr(broker.access("SASL_SSL"))
    assert PASSWORD not in repr(broker.access("SASL_SSL"))
