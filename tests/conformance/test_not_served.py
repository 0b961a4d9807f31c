"""A client that asks for what is not served hears so at once: it does not wait for a coordinator that never comes."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

from tests.conformance.clients import ClientError
from tests.conformance.clients.driven import DrivenClient, FranzGo, JavaClient, KafkaJs
from tests.conformance.clients.kcat import Kcat

BOUND_S = 30.0
NO_TRANSACTIONS = re.compile(r"transactional.?id.?authorization.?(failed|exception)", re.IGNORECASE)


@pytest.fixture(autouse=True)
def _only_against_moldau(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--against") != "moldau":
        pytest.skip("Apache Kafka serves it")


def test_confluent_kafka_ends_its_wait_for_transactions(bootstrap_servers: str, new_name: Callable[[str], str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": new_name("tx")})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(BOUND_S)
    error = caught.value.args[0]
    assert error.fatal()
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_aiokafka_ends_its_wait_for_transactions(bootstrap_servers: str, new_name: Callable[[str], str]) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id=new_name("tx"))
        try:
            await asyncio.wait_for(producer.start(), BOUND_S)
        finally:
            await asyncio.wait_for(producer.stop(), BOUND_S)

    with pytest.raises(TransactionalIdAuthorizationFailed):
        asyncio.run(start())


def test_kafka_python_ends_its_wait_for_transactions(bootstrap_servers: str, new_name: Callable[[str], str]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap_servers, transactional_id=new_name("tx"), max_block_ms=int(BOUND_S * 1000)
    )
    try:
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            producer.init_transactions()
    finally:
        producer.close(timeout=0)


@pytest.mark.skipif(Kcat.missing() is not None, reason="there is no kcat")
def test_kcat_ends_its_wait_for_transactions(bootstrap_servers: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    command = ["kcat", "-b", bootstrap_servers, "-X", f"transactional.id={topic}", "-P", "-t", topic]
    done = subprocess.run(command, input="v\n", capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert done.returncode != 0
    assert NO_TRANSACTIONS.search(done.stderr)


@pytest.mark.foreign
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        # kafkajs says this of any error that ends its search for a coordinator
        pytest.param(KafkaJs, "KafkaJSGroupCoordinatorNotFound", id="kafkajs"),
        pytest.param(FranzGo, NO_TRANSACTIONS, id="franz-go"),
        pytest.param(JavaClient, NO_TRANSACTIONS, id="java"),
    ],
)
def test_a_client_of_another_language_ends_its_wait_for_transactions(
    kind: type[DrivenClient],
    error: str | re.Pattern[str],
    bootstrap_servers: str,
    new_topic: Callable[..., str],
) -> None:
    if missing := kind.missing():
        pytest.skip(missing)
    topic = new_topic()
    with pytest.raises(ClientError, match=error):
        kind(bootstrap_servers).administer("write_in_transaction", topic=topic, name=topic)


@pytest.mark.foreign
def test_the_java_consumer_with_the_new_group_protocol_ends_at_once(
    bootstrap_servers: str, new_topic: Callable[..., str]
) -> None:
    if missing := JavaClient.missing():
        pytest.skip(missing)
    topic = new_topic()
    with pytest.raises(ClientError, match="UnsupportedVersionException"):
        JavaClient(bootstrap_servers).administer("read_by_consumer_protocol", topic=topic, group=topic, count=1)


def test_a_consumer_with_the_new_group_protocol_is_told_that_it_is_not_served(
    bootstrap_servers: str, new_name: Callable[[str], str]
) -> None:
    group = new_name("group")
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "group.protocol": "consumer"})
    try:
        consumer.subscribe(["any"])
        message = consumer.poll(BOUND_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert "ConsumerGroupHeartbeat fatal error: Broker: API version not supported" in error.str()
    finally:
        consumer.close()
