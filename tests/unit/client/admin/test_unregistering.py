"""A broker is removed in as many requests as the controller needs for its partitions."""

from __future__ import annotations

import pytest

from moldau.client.admin.brokers import unregister_broker
from moldau.client.admin.client import ClusterAdmin
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import KafkaError
from moldau.wire.protocol.messages.cluster import UnregisterBrokerResponse
from tests.support.scripted_brokers import ScriptedBrokers

REQUEST_TIMED_OUT, INVALID_REQUEST = 7, 42


def test_a_broker_is_forgotten_with_as_many_requests_as_it_takes() -> None:
    codes = iter((REQUEST_TIMED_OUT, REQUEST_TIMED_OUT, 0))
    brokers = ScriptedBrokers({("one", 9092): lambda request: UnregisterBrokerResponse(error_code=next(codes))})
    with ClusterAdmin(brokers, ClusterAccess("one:9092", client_id="test")) as admin:
        unregister_broker(admin, 2)
    assert next(codes, None) is None


def test_a_broker_that_serves_is_refused_at_once() -> None:
    refusal = UnregisterBrokerResponse(error_code=INVALID_REQUEST, error_message="Broker 2 is serving")
    brokers = ScriptedBrokers({("one", 9092): lambda request: refusal})
    with (
        ClusterAdmin(brokers, ClusterAccess("one:9092", client_id="test")) as admin,
        pytest.raises(KafkaError, match="is serving"),
    ):
        unregister_broker(admin, 2)
    assert brokers.now_ms == 0
