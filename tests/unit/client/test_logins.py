"""A client that logs in: repeated logins, requests in flight meanwhile, and rejected logins."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from moldau.client.blocking.cluster import ClusterClient
from moldau.client.blocking.connection import ClientConnection
from moldau.client.protocol.access import ClusterAccess
from moldau.errors import ERROR_CODES, KafkaError
from moldau.wire.protocol.api_keys import ApiKey, api_key_of
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from moldau.wire.protocol.messages.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from moldau.wire.protocol.sasl_tokens import Credentials
from tests.support.scripted_brokers import ScriptedBrokers

ALICE = Credentials("PLAIN", "alice", "secret")
SESSION_MS = 10_000
DUE_MS = 8_500
METADATA, HANDSHAKE, AUTHENTICATE = ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE
LOGIN = [HANDSHAKE, AUTHENTICATE]


class LoginScript:
    """`asked`: the requests so far. Each Metadata request is answered with the number of those before it."""

    def __init__(self) -> None:
        self.asked: list[ApiKey] = []
        self.lets_in = True

    def __call__(self, request: Any) -> msgspec.Struct:
        key = api_key_of(request)
        self.asked.append(key)
        if key == HANDSHAKE:
            return SaslHandshakeResponse(0, ("PLAIN",))
        if key == AUTHENTICATE:
            if self.lets_in:
                return SaslAuthenticateResponse(session_lifetime_ms=SESSION_MS)
            return SaslAuthenticateResponse(ERROR_CODES["SASL_AUTHENTICATION_FAILED"], "Invalid username or password")
        number = self.asked.count(METADATA) - 1
        return MetadataResponse(brokers=(MetadataResponseBroker(1, "one", 9092),), controller_id=number)


def connected(brokers: ScriptedBrokers) -> ClientConnection:
    return ClientConnection(brokers, ClusterAccess("one"), "one", 9092, credentials=ALICE)


def ask(connection: ClientConnection, count: int = 1) -> None:
    for _ in range(count):
        connection.send(MetadataRequest(), connection.version_of(METADATA))


def answers(connection: ClientConnection, count: int = 1) -> list[int]:
    buffer = bytearray(1_000)
    return [connection.receive_message(MetadataResponse, buffer).controller_id for _ in range(count)]


def test_a_connection_with_requests_in_flight_logs_in_again_and_loses_no_answer() -> None:
    script = LoginScript()
    brokers = ScriptedBrokers({("one", 9092): script})
    with connected(brokers) as connection:
        ask(connection, 3)
        brokers.now_ms = DUE_MS - 1
        ask(connection)
        assert script.asked == [*LOGIN, *[METADATA] * 4]
        assert answers(connection) == [0]
        brokers.now_ms = DUE_MS
        ask(connection, 2)
        assert script.asked == [*LOGIN, *[METADATA] * 4, *LOGIN, *[METADATA] * 2]
        assert connection.in_flight == 5
        assert answers(connection, 5) == [1, 2, 3, 4, 5]
        assert not connection.in_flight
        brokers.now_ms += DUE_MS
        assert connection.request(MetadataRequest()).controller_id == 6
        assert script.asked[-3:] == [*LOGIN, METADATA]


def test_a_login_that_is_refused_later_ends_the_connection() -> None:
    script = LoginScript()
    brokers = ScriptedBrokers({("one", 9092): script})
    with connected(brokers) as connection:
        ask(connection)
        brokers.now_ms, script.lets_in = DUE_MS, False
        with pytest.raises(KafkaError, match="refused the user alice: Invalid username or password"):
            ask(connection)
        assert (connection.is_open, connection.in_flight) == (False, 0)


def test_a_refused_login_is_not_tried_again_nor_at_other_brokers() -> None:
    script = LoginScript()
    script.lets_in = False
    brokers = ScriptedBrokers({("one", 9092): script, ("two", 9092): script})
    client = ClusterClient(brokers, ClusterAccess("one,two"), credentials=ALICE)
    with client, pytest.raises(KafkaError) as refused:
        client.topic("t")
    assert refused.value.name == "SASL_AUTHENTICATION_FAILED"
    assert (len(brokers.dialled), brokers.now_ms) == (1, 0)


def test_each_connection_of_a_cluster_logs_in() -> None:
    script = LoginScript()
    brokers = ScriptedBrokers({("one", 9092): script})
    with ClusterClient(brokers, ClusterAccess("one"), credentials=ALICE) as client:
        client.refresh([])
        client.connection_to(1)
        client.lend_connection(1)
    assert script.asked.count(AUTHENTICATE) == 3
