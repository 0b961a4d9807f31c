"""A client learns at once that a feature is not served: it does not wait for a coordinator that never comes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from tests.conformance.clients import ClientError
from tests.conformance.clients.driven import JavaClient

BOUND_S = 30.0


@pytest.fixture(autouse=True)
def _only_against_moldau(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--against") != "moldau":
        pytest.skip("Apache Kafka serves it")


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
