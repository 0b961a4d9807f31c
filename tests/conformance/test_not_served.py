"""A client that asks for what is not served hears so at once: it does not wait for a coordinator that never comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

BOUND_S = 30.0


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
