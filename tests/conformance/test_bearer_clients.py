"""Clients that log in by OAUTHBEARER with an issuer's tokens: ours, and those of other projects."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from moldau.client.protocol.access import ClusterAccess
from moldau.client.protocol.bearer import NoTokenError
from moldau.errors import KafkaError as MoldauKafkaError
from moldau.transport.access import open_admin, open_client
from moldau.transport.librdkafka import librdkafka_settings
from moldau.wire.protocol.jaas import BEARER_MODULE
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.apache_kafka import NEEDS_APACHE_KAFKA, java
from tests.support.bearer_brokers import allowed_in_java, bearer_apache_kafka, bearer_moldau
from tests.support.issuer import Client, Issuer
from tests.support.json_web_tokens import Kind, SigningKey, claims_of

pytestmark = pytest.mark.slow
PATIENCE_S = 30
EXTENSIONS = "traceId=1,pool=a"
LOGIN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


class World:
    """An issuer, and a broker that trusts it."""

    def __init__(self, servers: str, issuer: Issuer) -> None:
        self.servers = servers
        self.issuer = issuer

    def properties(self, **more: str) -> dict[str, str]:
        """Of a Kafka client."""
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.issuer.token_url,
            "sasl.oauthbearer.client.credentials.client.id": "service",
            "sasl.oauthbearer.client.credentials.client.secret": "service-secret",
            **more,
        }

    def access(self, **more: str) -> ClusterAccess:
        return ClusterAccess.from_properties(self.properties(**more))


@pytest.fixture(scope="module", params=["moldau", pytest.param("apache", marks=NEEDS_APACHE_KAFKA)])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    start = {"moldau": bearer_moldau, "apache": bearer_apache_kafka}[request.param]
    with Issuer.running(kind="RSA") as issuer, start(tmp_path_factory.mktemp("bearer"), issuer) as servers:
        yield World(servers, issuer)


# -- ours


def test_our_own_clients_log_in(world: World) -> None:
    access = world.access(**{"sasl.oauthbearer.scope": "write", "sasl.oauthbearer.extensions": EXTENSIONS})
    asked = world.issuer.requests.count("/token")
    with open_admin(access) as admin:
        assert len(admin.cluster().brokers) == 1
    with open_client(access) as client:
        client.refresh(None)
    assert world.issuer.requests.count("/token") == asked + 1, "both share one token"


def test_a_session_of_ours_goes_on_with_new_tokens(world: World) -> None:
    """Tokens of 3 s: sessions end while requests continue."""
    world.issuer.lifetime_s = 3
    try:
        access, asked = world.access(**{"client.id": "going"}), world.issuer.requests.count("/token")
        with open_client(access) as client:
            connection = client.any_connection()
            deadline_s = time.monotonic() + PATIENCE_S
            while world.issuer.requests.count("/token") < asked + 2 and time.monotonic() < deadline_s:
                connection.request(MetadataRequest(topics=()))
                connection.request(MetadataRequest(topics=()))
            assert connection.is_open
            assert connection is client.any_connection()
    finally:
        world.issuer.lifetime_s = 3_600
    assert world.issuer.requests.count("/token") >= asked + 2


def test_a_person_acts_under_its_own_token(world: World) -> None:
    own = world.access().under_token(lambda: world.issuer.token("alice"), "alice")
    with open_admin(own) as admin:
        assert admin.cluster().brokers
    refused = world.access().under_token(lambda: world.issuer.token("alice", forgery="expired"), "alice")
    with open_admin(refused) as admin, pytest.raises(MoldauKafkaError, match="refused the bearer token") as error:
        admin.cluster()
    assert error.value.name == "SASL_AUTHENTICATION_FAILED"


def test_no_broker_is_asked_without_a_token(world: World) -> None:
    access = world.access(**{"sasl.oauthbearer.client.credentials.client.secret": "wrong"})
    with open_admin(access) as admin, pytest.raises(NoTokenError, match="invalid_client"):
        admin.cluster()


# -- librdkafka


def librdkafka_copies(settings: dict[str, Any], topic: str) -> None:
    """Writes and reads one record."""
    own: dict[str, Any] = {**settings, "log_level": 0}
    found: list[KafkaError | None] = []
    producer = Producer(own)
    producer.produce(topic, b"x", on_delivery=lambda error, _: found.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert found == [None]
    consumer = Consumer({**own, "group.id": f"group-{topic}", "auto.offset.reset": "earliest"})
    with closing(consumer):
        consumer.subscribe([topic])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"x")


def test_librdkafka_asks_the_issuer_itself(world: World) -> None:
    access = world.access(**{"sasl.oauthbearer.scope": "write", "sasl.oauthbearer.extensions": EXTENSIONS})
    settings = librdkafka_settings(access)
    assert settings["sasl.oauthbearer.method"] == "oidc"
    librdkafka_copies(settings, "librdkafka-oidc")


def test_librdkafka_gets_the_token_of_a_person_by_its_callback(world: World) -> None:
    own = world.access().under_token(lambda: world.issuer.token("alice"), "alice")
    librdkafka_copies(librdkafka_settings(own), "librdkafka-callback")


def test_librdkafka_reads_a_token_from_a_file(world: World, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(world.issuer.token("alice"))
    access = world.access(**{"sasl.oauthbearer.token.endpoint.url": f"file://{path}"})
    librdkafka_copies(librdkafka_settings(access), "librdkafka-file")


# -- clients in Python


def test_kafka_python_logs_in_with_its_token_provider(world: World) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):
        def token(self) -> str:
            return world.issuer.token("alice")

        def extensions(self) -> dict[str, str]:
            return {"traceId": "1"}

    own: dict[str, Any] = {
        "bootstrap_servers": world.servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    producer = KafkaProducer(**own)
    producer.send("kafka-python", value=b"x", partition=0).get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(**own, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_S * 1_000)
    consumer.assign([TopicPartition("kafka-python", 0)])
    assert next(consumer).value == b"x"
    consumer.close()


def test_aiokafka_logs_in_with_its_token_provider(world: World) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.abc import AbstractTokenProvider

    class Provider(AbstractTokenProvider):
        async def token(self) -> str:
            return world.issuer.token("alice")

    async def copy() -> bytes | None:
        own: dict[str, Any] = {
            "bootstrap_servers": world.servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": Provider(),
        }
        producer = AIOKafkaProducer(**own)
        await producer.start()
        await asyncio.wait_for(producer.send_and_wait("aiokafka", b"x"), PATIENCE_S)
        await producer.stop()
        consumer = AIOKafkaConsumer("aiokafka", **own, auto_offset_reset="earliest")
        await consumer.start()
        record = await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        await consumer.stop()
        value: bytes | None = record.value
        return value

    assert asyncio.run(copy()) == b"x"


# -- Java


def java_tool(name: str, *words: str, given: str = "") -> str:
    command = [java(), "-Xmx256m", "-cp", os.environ["MOLDAU_KAFKA_LIBS"] + "/*", name, *words]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "is_jaas",
    [pytest.param(False, marks=NEEDS_APACHE_KAFKA), pytest.param(True, marks=NEEDS_APACHE_KAFKA)],
    ids=["settings", "jaas"],
)
def test_kafkas_java_client_logs_in(world: World, tmp_path: Path, is_jaas: bool) -> None:
    """The same settings serve our own client."""
    given = world.properties(**{"sasl.oauthbearer.scope": "write"})
    if is_jaas:
        for name in ("client.id", "client.secret"):
            del given[f"sasl.oauthbearer.client.credentials.{name}"]
        options = 'clientId="service" clientSecret="service-secret" extension_traceId="1"'
        given["sasl.jaas.config"] = f"{BEARER_MODULE} required {options};"
    of_java = {"sasl.login.callback.handler.class": LOGIN_HANDLER}
    if not is_jaas:
        of_java["sasl.jaas.config"] = f"{BEARER_MODULE} required;"
    with open_admin(ClusterAccess.from_properties(given | of_java)) as admin:
        assert admin.cluster().brokers
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={text}\n" for name, text in (given | of_java).items()))
    words, topic = ("--bootstrap-server", world.servers), f"java-{is_jaas}"
    with allowed_in_java(world.issuer.token_url):
        produce = "org.apache.kafka.tools.ConsoleProducer"
        java_tool(produce, *words, "--topic", topic, "--command-config", str(config), given="x\n")
        reads = ("--topic", topic, "--from-beginning", "--max-messages", "1", "--command-config", str(config))
        assert java_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *words, *reads).split() == ["x"]


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=NEEDS_APACHE_KAFKA) for kind in ("RSA", "EC")])
@pytest.mark.parametrize("retriever", ["DefaultJwtRetriever", "JwtBearerJwtRetriever"])
def test_kafkas_java_client_signs_as_ours(world: World, tmp_path: Path, kind: Kind, retriever: str) -> None:
    """With the same settings the issuer gets the same form, except times and signatures."""
    key, path, config = SigningKey(kind), tmp_path / "key.pem", tmp_path / "client.properties"
    path.write_text(key.private_pem)
    world.issuer.clients["signer"] = Client(key=key)
    said = {
        "private.key.file": str(path),
        "algorithm": key.algorithm,
        "claim.iss": "signer",
        "claim.sub": "signer",
        "claim.aud": world.issuer.token_url,
        "claim.jti.include": "true",
    }
    given = world.properties(
        **{f"sasl.oauthbearer.assertion.{name}": said[name] for name in said},
        **{
            "sasl.oauthbearer.scope": "write",
            "sasl.oauthbearer.jwt.retriever.class": f"org.apache.kafka.common.security.oauthbearer.{retriever}",
            "sasl.oauthbearer.client.credentials.client.id": "signer",
            "sasl.login.callback.handler.class": LOGIN_HANDLER,
            "sasl.jaas.config": f"{BEARER_MODULE} required;",
        },
    )
    del given["sasl.oauthbearer.client.credentials.client.secret"]
    with open_admin(ClusterAccess.from_properties(given)) as admin:
        assert admin.cluster().brokers
    config.write_text("".join(f"{name}={text}\n" for name, text in given.items()))
    with allowed_in_java(world.issuer.token_url, files=(path,)):
        tool = "org.apache.kafka.tools.TopicCommand"
        java_tool(tool, "--bootstrap-server", world.servers, "--command-config", str(config), "--list")
    ours, of_java = world.issuer.forms[-2:]
    assertions = [form.pop("client_assertion", form.pop("assertion", "")) for form in (ours, of_java)]
    assert ours == of_java
    claims = [claims_of(each) for each in assertions]
    assert claims[0].keys() == claims[1].keys()
    assert len({each["exp"] - each["nbf"] for each in claims}) == 1
