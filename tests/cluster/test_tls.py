"""Brokers in their own processes with TLS listeners, and real clients."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from moldau.wire.protocol.jaas import PLAIN_MODULE
from tests.support.certificates import Authority, authority
from tests.support.cluster_of_three import NODE_IDS, cluster_of_three, moldau_command
from tests.support.running_broker import RunningBroker
from tests.support.tls_settings import of_broker, trusting

WAIT_S = 30


def started(settings: dict[str, str]) -> RunningBroker:
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return RunningBroker("--in-memory", "--no-console", *words).wait_until_ready()


def produced(client: dict[str, str], value: bytes) -> None:
    failed: list[object] = []
    producer = Producer(client)
    producer.produce("t", value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(WAIT_S) == 0
    assert failed == [None]


def read(client: dict[str, str]) -> bytes:
    consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message: Message | None = consumer.poll(WAIT_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return bytes(message.value() or b"")


def test_a_client_of_librdkafka_is_served_over_tls(tmp_path: Path) -> None:
    listening = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
    broker = started({**listening, **of_broker(tmp_path, client_auth="required")})
    try:
        client = {"bootstrap.servers": broker.address, **trusting(tmp_path, authority().issue("CN=alice"))}
        produced(client, b"v" * 500_000)
        assert read(client) == b"v" * 500_000
        host, port = broker.address.split(":")
        with socket.create_connection((host, int(port)), timeout=WAIT_S) as plain:
            plain.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff")
            assert plain.recv(100)[:2] == b"\x15\x03"
            assert plain.recv(100) == b""
        broker.wait_until_told("this is plain text, perhaps of a Kafka client")
        nameless = AdminClient({"bootstrap.servers": broker.address, **trusting(tmp_path)})
        with pytest.raises(KafkaException):
            nameless.list_topics(timeout=2)
        broker.wait_until_told("the other side gave no certificate, and one is required")
    finally:
        assert broker.stop() == 0
    assert "Traceback" not in "".join(broker.output)


def test_a_client_of_librdkafka_logs_in_over_tls(tmp_path: Path) -> None:
    listening = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret";',
    }
    broker = started({**listening, **of_broker(tmp_path)})
    try:
        client = {
            "bootstrap.servers": broker.address,
            **trusting(tmp_path),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
        produced(client, b"v" * 500_000)
        assert read(client) == b"v" * 500_000
        wrong = AdminClient({**client, "sasl.password": "wrong"})
        with pytest.raises(KafkaException):
            wrong.list_topics(timeout=2)
        broker.wait_until_told("Invalid username or password")
    finally:
        assert broker.stop() == 0
    assert "Traceback" not in "".join(broker.output)


def test_a_new_certificate_is_used_and_no_connection_is_lost(tmp_path: Path) -> None:
    listening = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
    broker = started({**listening, **of_broker(tmp_path)})
    try:
        client = {"bootstrap.servers": broker.address, **trusting(tmp_path)}
        errors: list[object] = []
        kept = Producer({**client, "error_cb": errors.append})
        kept.produce("t", b"before")
        assert kept.flush(WAIT_S) == 0
        admin = AdminClient(client)
        other = Authority("CN=Next").issue("CN=node").write(tmp_path, "next")
        change = ConfigEntry(
            "listener.name.ssl.ssl.keystore.location", str(other), incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
        broker.wait_until_told("listener SSL uses its new certificates for new connections")
        with pytest.raises(KafkaException):
            AdminClient(client).list_topics(timeout=2)
        kept.produce("t", b"after")
        assert kept.flush(WAIT_S) == 0
        assert errors == []
    finally:
        assert broker.stop() == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nodes_reach_each_other_over_tls_and_each_may_die(tmp_path: Path) -> None:
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:SSL",
        **of_broker(tmp_path, client_auth="required"),
    }
    clients = trusting(tmp_path, authority().issue("CN=alice"))
    commands = dict.fromkeys(NODE_IDS, moldau_command)
    with cluster_of_three(tmp_path, commands, settings=settings, clients=clients) as cluster:
        cluster.create_topic()
        producer = cluster.new_producer()
        written = cluster.produce("before", 300, producer)
        for node_id in NODE_IDS:
            cluster.wait_in_sync()
            cluster.kill(node_id)
            written += cluster.produce(f"without-{node_id}", 300, producer)
            authority().issue("CN=node").write(tmp_path, "node")  # running clients continue with it, too
            cluster.start(node_id)
        cluster.wait_in_sync()
        written += cluster.produce("after", 300)
        assert sorted(cluster.read_all(len(written))) == sorted(written)
