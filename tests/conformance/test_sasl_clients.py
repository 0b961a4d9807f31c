"""librdkafka clients on a SASL listener: accepted and rejected logins, and the length of sessions."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError as MoldauKafkaError
from moldau.transport.tcp import TCP
from moldau.wire.protocol.jaas import PLAIN_MODULE
from moldau.wire.protocol.messages.metadata import MetadataRequest
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.support.held_port import held_port, port_of
from tests.support.running_broker import RunningBroker

pytestmark = pytest.mark.slow
SESSION_MS = 6_000
"""A client that pauses for a seventh of it is too late to log in again."""
PATIENCE_S = 20
CLUSTER_ID = "tBkDQh1jQTWVvPkPqJ9o1w"
USERS = (("PLAIN", "alice"), ("SCRAM-SHA-256", "bob"), ("SCRAM-SHA-512", "carol"), ("SCRAM-SHA-256", "dave"))
PASSWORD = 'p,a"s=s'


def run_moldau(*words: str) -> None:
    command = [sys.executable, "-m", "moldau.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


class SaslBroker:
    """One broker; `plain` is its listener without SASL, for creating users."""

    def __init__(self, scratch: Path) -> None:
        self._held = [held_port() for _ in range(3)]
        self.plain, self.sasl, controller = (f"127.0.0.1:{port_of(held)}" for held in self._held)
        config = scratch / "node.properties"
        quoted = PASSWORD.replace('"', '\\"')
        settings = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(scratch / "data"),
            "listeners": f"PLAINTEXT://{self.plain},SASL://{self.sasl},CONTROLLER://{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="{quoted}";',
            "connections.max.reauth.ms": str(SESSION_MS),
            "connection.failed.authentication.delay.ms": "1",
        }
        lines = (f"{name}={text}" for name, text in settings.items())
        config.write_text("\n".join(lines).replace("\\", "\\\\"))
        scram = f"SCRAM-SHA-256=[name=bob,password={PASSWORD.replace(',', '')}]"
        run_moldau("kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(config), "--standalone", "--add-scram", scram)
        self.process = RunningBroker("--no-console", "--config", str(config)).wait_until_ready()

    def stop(self) -> None:
        self.process.stop()
        for held in self._held:
            held.close()

    def alter_user(self, name: str, *change: str) -> None:
        words = ("--bootstrap-server", self.plain, "--alter", "--entity-type", "users", "--entity-name", name, *change)
        run_moldau("kafka-configs", *words)

    def client(self, mechanism: str, name: str, password: str) -> dict[str, object]:
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": name,
            "sasl.password": password,
            "log_level": 0,
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    running = SaslBroker(tmp_path_factory.mktemp("sasl"))
    try:
        running.alter_user("carol", "--add-config", f"SCRAM-SHA-512=[password={PASSWORD.replace(',', '')}]")
        yield running
    finally:
        running.stop()


def password_of(name: str) -> str:
    return PASSWORD if name == "alice" else PASSWORD.replace(",", "")


def refusal(broker: SaslBroker, mechanism: str, name: str, password: str) -> KafkaError:
    """librdkafka's message about a login."""
    errors: list[KafkaError] = []
    client = AdminClient(broker.client(mechanism, name, password) | {"error_cb": errors.append})
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        client.poll(0.05)
        for error in errors:
            if error.code() == KafkaError._AUTHENTICATION:
                return error
    raise AssertionError(errors)


def produce(producer: Producer) -> None:
    """One record, acknowledged."""
    found: list[KafkaError | None] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        found.append(error)

    producer.produce("orders", b"x", on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    assert found == [None]


@pytest.mark.parametrize(("mechanism", "name"), USERS[:3])
def test_a_user_of_each_mechanism_produces(broker: SaslBroker, mechanism: str, name: str) -> None:
    produce(Producer(broker.client(mechanism, name, password_of(name))))


@pytest.mark.parametrize(("mechanism", "name"), USERS)
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(broker: SaslBroker, mechanism: str, name: str) -> None:
    error = refusal(broker, mechanism, name, "wrong")
    told = f"due to invalid credentials with SASL mechanism {mechanism}"
    assert ("Invalid username or password" if mechanism == "PLAIN" else told) in error.str()


def connect(broker: SaslBroker, mechanism: str, name: str, password: str) -> ClientConnection:
    """Our own client."""
    host, _, port = broker.sasl.rpartition(":")
    access = ClusterAccess(f"{host}:{port}")
    return ClientConnection(TCP, access, host, int(port), credentials=Credentials(mechanism, name, password))


def test_clients_that_stay_log_in_again_and_lose_nothing(broker: SaslBroker) -> None:
    errors: list[KafkaError] = []
    with ExitStack() as stack:
        logins = [(mechanism, name, password_of(name)) for mechanism, name in USERS[:3]]
        producers = [Producer(broker.client(*login) | {"error_cb": errors.append}) for login in logins]
        connections = [stack.enter_context(connect(broker, *login)) for login in logins]
        deadline_s = time.monotonic() + 1.5 * SESSION_MS / 1_000
        while time.monotonic() < deadline_s:
            for producer, connection in zip(producers, connections, strict=True):
                produce(producer)
                assert connection.request(MetadataRequest(topics=())).brokers
            producers[0].poll(0.05)
    assert errors == []


@pytest.mark.parametrize(("mechanism", "name"), USERS)
def test_our_own_client_says_why_it_is_refused(broker: SaslBroker, mechanism: str, name: str) -> None:
    with pytest.raises(MoldauKafkaError, match=f"refused the user {name}: Authentication failed") as refused:
        connect(broker, mechanism, name, "wrong")
    assert refused.value.name == "SASL_AUTHENTICATION_FAILED"


def test_a_deleted_user_is_out_within_a_second(broker: SaslBroker) -> None:
    broker.alter_user("erin", "--add-config", "SCRAM-SHA-512=[password=secret]")
    with connect(broker, "SCRAM-SHA-512", "erin", "secret") as connection:
        assert connection.request(MetadataRequest(topics=())).brokers
        broker.alter_user("erin", "--delete-config", "SCRAM-SHA-512")
        with pytest.raises(MoldauKafkaError):
            connection.request(MetadataRequest(topics=()))
    assert "invalid credentials" in refusal(broker, "SCRAM-SHA-512", "erin", "secret").str()


def test_a_client_in_plain_text_is_not_served_on_the_listener_of_sasl(broker: SaslBroker) -> None:
    client = AdminClient({"bootstrap.servers": broker.sasl, "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)


def test_no_password_stands_in_the_output_of_the_node(broker: SaslBroker) -> None:
    told = "".join(broker.process.output)
    assert "failed authentication" in told
    assert PASSWORD not in told
    assert password_of("bob") not in told
