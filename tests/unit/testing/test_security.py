"""Clusters whose brokers authenticate clients: real clients log in as their users, and may do what ACLs allow."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped, unused-ignore]
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaProducer  # type: ignore[import-untyped, unused-ignore]

from moldau.client.admin.topics import list_topics
from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import MoldauError, UnknownTopicOrPartitionError
from moldau.testing import Cluster, allow, deny
from moldau.transport.access import open_admin
from moldau.transport.tcp import TCP
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.protocol.sasl_tokens import Credentials

USERS = {"alice": 's3cret "quoted" \\', "bob": "other"}
WAIT_S = 30
WRITES = ("write", "create", "describe")
ACLS = (allow("alice", *WRITES, topic="orders"), allow("alice", "read", group="kitchen"))
SECURED = ("ssl", "sasl_plaintext", "sasl_ssl")


def outcome(settings: dict[str, object], topic: str = "orders") -> KafkaError | None:
    """Of one record, written by librdkafka."""
    found: list[KafkaError | None] = []
    quick = {"linger.ms": 0, "message.timeout.ms": WAIT_S * 1_000, "log_level": 0}
    producer = Producer({**quick, **settings})
    producer.produce(topic, b"x", on_delivery=lambda error, _: found.append(error))
    assert producer.flush(WAIT_S) == 0
    return found[0]


@pytest.fixture(scope="module", params=SECURED)
def secured(request: pytest.FixtureRequest) -> Any:
    with Cluster(security=request.param, users=USERS, acls=ACLS) as cluster:
        yield cluster


def protocol(cluster: Cluster) -> str:
    return cluster.client_properties("alice")["security.protocol"]


def python_settings(cluster: Cluster, user: str) -> dict[str, Any]:
    """The settings that aiokafka and kafka-python share."""
    found: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "security_protocol": protocol(cluster)}
    if protocol(cluster) != "SASL_PLAINTEXT":
        found["ssl_context"] = cluster.ssl_context(user)
    if protocol(cluster).startswith("SASL"):
        login = cluster.client_settings(user)
        found |= {
            "sasl_mechanism": login["sasl.mechanism"],
            "sasl_plain_username": login["sasl.username"],
            "sasl_plain_password": login["sasl.password"],
        }
    return found


def test_a_user_does_what_acls_allow_and_nothing_else(secured: Cluster) -> None:
    assert outcome(secured.client_settings("alice")) is None
    denied = outcome(secured.client_settings("bob"))
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    elsewhere = outcome(secured.client_settings("alice"), "elsewhere")
    assert elsewhere is not None
    assert elsewhere.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_user_of_the_cluster_itself_may_do_everything(secured: Cluster) -> None:
    assert outcome(secured.client_settings(), secured.topic("own")) is None


def test_aiokafka_writes_as_a_user(secured: Cluster) -> None:
    async def write() -> None:
        async with AIOKafkaProducer(**python_settings(secured, "alice")) as producer:
            await asyncio.wait_for(producer.send_and_wait("orders", b"aiokafka"), WAIT_S)

    asyncio.run(write())
    assert b"aiokafka" in [record.value for record in secured.records("orders")]


def test_kafka_python_writes_as_a_user(secured: Cluster) -> None:
    producer = KafkaProducer(**python_settings(secured, "alice"))
    try:
        producer.send("orders", b"kafka-python").get(WAIT_S)
    finally:
        producer.close()
    assert b"kafka-python" in [record.value for record in secured.records("orders")]


def test_our_own_client_gets_in_as_a_user(secured: Cluster) -> None:
    with open_admin(secured.access("alice")) as admin:
        assert "orders" in list_topics(admin)
    assert USERS["alice"] not in repr(secured.access("alice"))


def test_who_says_nothing_of_itself_may_do_nothing(secured: Cluster) -> None:
    silent = {"bootstrap.servers": secured.bootstrap_servers, "message.timeout.ms": 1_000}
    if protocol(secured) == "SSL":
        silent |= {"security.protocol": "SSL", "ssl.ca.pem": secured.client_settings()["ssl.ca.pem"]}
    refused = outcome(silent)
    assert refused is not None
    expected = KafkaError.TOPIC_AUTHORIZATION_FAILED if protocol(secured) == "SSL" else KafkaError._MSG_TIMED_OUT
    assert refused.code() == expected


@pytest.mark.parametrize("security", ["sasl_plaintext", "sasl_ssl"])
def test_a_wrong_password_is_refused(security: Any) -> None:
    errors: list[KafkaError] = []
    with Cluster(security=security, users=USERS) as cluster:
        settings = cluster.client_settings("alice") | {"sasl.password": "wrong", "message.timeout.ms": 1_000}
        refused = outcome({**settings, "error_cb": errors.append})
        assert refused is not None
        assert KafkaError._AUTHENTICATION in [error.code() for error in errors]


@pytest.mark.slow
@pytest.mark.parametrize("security", SECURED)
def test_three_brokers_replicate_what_a_user_writes(security: Any) -> None:
    with Cluster(brokers=3, security=security, users=USERS, acls=(*ACLS, allow("alice", "read", topic="*"))) as cluster:
        cluster.create_topic("orders", config={"min.insync.replicas": 2})
        assert outcome({**cluster.client_settings("alice"), "acks": "all"}) is None
        reading = {"group.id": "kitchen", "auto.offset.reset": "earliest", "log_level": 0}
        consumer = Consumer({**cluster.client_settings("alice"), **reading})
        consumer.subscribe(["orders"])
        assert [message.value() for message in consumer.consume(1, WAIT_S)] == [b"x"]
        consumer.close()
        cluster.kill(cluster.leader("orders"))
        assert outcome({**cluster.client_settings("alice"), "acks": "all"}) is None


def test_what_a_broker_asks_for_itself_goes_to_another_controller_by_its_login() -> None:
    """A topic that a broker creates by itself, for a client that may create it: each of the three brokers gets a
    request."""
    rights = (allow("alice", "create", "describe", topic="auto", prefixed=True),)
    with Cluster(brokers=3, security="sasl_plaintext", users=USERS, acls=rights) as cluster:
        login = Credentials("SCRAM-SHA-512", "alice", USERS["alice"])
        for number, address in enumerate(cluster.bootstrap_servers.split(",")):
            host, _, port = address.rpartition(":")
            topic = f"auto-{number}"
            with ClientConnection(TCP, ClusterAccess(address), host, int(port), credentials=login) as connection:
                connection.request(MetadataRequest(topics=(MetadataRequestTopic(name=topic),)))
            cluster.wait_for(lambda topic=topic: is_led(cluster, topic), timeout=WAIT_S)


def is_led(cluster: Cluster, topic: str) -> bool:
    try:
        return cluster.leader(topic) > 0
    except UnknownTopicOrPartitionError:
        return False


@pytest.mark.slow
def test_links_are_cut_and_healed_under_tls() -> None:
    with Cluster(brokers=3, security="ssl") as cluster:
        cluster.create_topic("orders", config={"min.insync.replicas": 2})
        leader = cluster.leader("orders")
        others = [each for each in (1, 2, 3) if each != leader]
        cluster.partition([leader], others)
        cluster.wait_for(lambda: cluster.leader("orders") in others, timeout=WAIT_S)
        cluster.heal()
        cluster.slow(others[0], ms=20)
        assert outcome({**cluster.client_settings(), "acks": "all"}) is None
        cluster.wait_for(topic="orders", isr=3, timeout=WAIT_S)


def test_users_outlive_a_restart_and_come_again_to_a_directory(tmp_path: Any) -> None:
    for life in range(2):
        with Cluster(data_dir=tmp_path, security="sasl_ssl", users=USERS, acls=ACLS) as cluster:
            assert outcome(cluster.client_settings("alice")) is None
            cluster.restart(clean=life == 0)
            assert outcome(cluster.client_settings("alice")) is None


def test_acls_without_logins_are_about_everybody() -> None:
    acls = (allow("ANONYMOUS", *WRITES, topic="orders"), allow("User:*", "all", topic="o", prefixed=True))
    with Cluster(acls=(*acls, deny("ANONYMOUS", "write", topic="other"))) as cluster:
        assert outcome(cluster.client_settings()) is None
        denied = outcome(cluster.client_settings(), "other")
        assert denied is not None
        assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_keys_of_clients_are_trusted_by_python_as_strictly_as_it_can() -> None:
    with Cluster(security="ssl") as cluster:
        context = cluster.ssl_context()
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        host, _, port = cluster.bootstrap_servers.rpartition(":")

        async def connect() -> None:
            _, writer = await asyncio.open_connection(host, int(port), ssl=context)
            writer.close()

        asyncio.run(asyncio.wait_for(connect(), WAIT_S))


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"security": "sasl_sll"}, r"security='sasl_sll': the values are plaintext, .*did you mean"),
        ({"users": {"alice": "x"}}, "users= needs security="),
        ({"security": "sasl_ssl", "users": ["alice"]}, "'alice' needs a password"),
        ({"security": "sasl_ssl", "users": "alice"}, "write users="),
        ({"security": "sasl_ssl", "users": {"moldau": "x"}}, "is the user of the cluster itself"),
        ({"brokers": 3, "acls": []}, "needs another security="),
        ({"acls": ["alice"]}, "'alice' is no ACL"),
        ({"security": "ssl", "settings": {"ssl.client.auth": "required"}}, "ssl.client.auth cannot be set"),
        ({"acls": [], "settings": {"super.users": "User:x"}}, "super.users cannot be set"),
    ],
)
def test_what_cannot_be_together_is_refused_in_a_sentence(made: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Cluster(**made)


def test_a_user_that_there_is_not_is_refused() -> None:
    with Cluster(security="sasl_ssl", users=USERS) as cluster:
        for ask in (cluster.client_settings, cluster.client_properties, cluster.access, cluster.ssl_context):
            with pytest.raises(MoldauError, match=r"no user 'alcie'.*did you mean alice"):
                ask("alcie")
    with Cluster() as cluster, pytest.raises(MoldauError, match="the cluster has no TLS"):
        cluster.ssl_context()


@pytest.mark.parametrize(
    ("rights", "sentence"),
    [
        (lambda: allow("alice", "read"), "name what is done, and to what"),
        (lambda: allow("alice", topic="orders"), "name what is done, and to what"),
        (lambda: allow("alice", "raed", topic="orders"), "'raed' is no operation"),
        (lambda: deny("alice", "write", group="kitchen"), "write is not done to a group"),
    ],
)
def test_wrong_words_of_rights_are_refused(rights: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        rights()


def test_no_password_is_shown() -> None:
    with Cluster(security="sasl_ssl", users=USERS) as cluster:
        shown = repr(cluster) + repr(cluster._security) + repr(cluster.node.settings)
        assert USERS["bob"] not in shown
        assert str(cluster.client_settings()["sasl.password"]) not in shown
