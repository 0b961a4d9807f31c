"""The driver on an event loop, with a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from moldau.client.async_driver import AsyncConnection
from moldau.client.protocol.connection import ClientProtocol, PendingRequest
from moldau.testing import Cluster
from moldau.wire.protocol.api_keys import API_VERSIONS
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from moldau.wire.protocol.messages.produce import ProduceRequest


class LostError(Exception):
    """What this test makes of a lost connection."""


def decode(pending: PendingRequest, body: memoryview) -> msgspec.Struct:
    return decode_message(API_VERSIONS[pending.api_key].response, pending.version, body)[0]


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


async def connect(broker: Cluster) -> AsyncConnection:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    connection = AsyncConnection(
        ClientProtocol(broker.bootstrap_servers),
        version_of=lambda api_key: 9,
        decode=decode,
        lost=LostError,
        request_timeout_s=60,
    )
    await asyncio.get_running_loop().create_connection(lambda: connection, host, int(port))
    return connection


def test_answers_come_in_the_order_of_the_requests_and_are_noted_when_they_arrive(broker: Cluster) -> None:
    async def ask() -> list[str]:
        connection = await connect(broker)
        noted: list[str] = []
        # what the broker does not answer must not shift the answers of the others
        connection.send_unanswered(ProduceRequest(acks=0))
        request = MetadataRequest(topics=())
        sent = [
            connection.send(request, lambda _, name=name: noted.append(name))  # type: ignore[misc]
            for name in "abc"
        ]
        for answer in sent:
            assert isinstance(await connection.answer_in_time(answer), MetadataResponse)
        again = await connection.request(request)
        assert len(again.brokers) == 1
        connection.close()
        return noted

    assert asyncio.run(ask()) == ["a", "b", "c"]


def test_a_request_without_an_answer_fails_when_the_connection_is_closed(broker: Cluster) -> None:
    async def ask() -> None:
        connection = await connect(broker)
        answer = connection.send(MetadataRequest(topics=()))
        connection.close()
        with pytest.raises(LostError, match="connection lost"):
            await connection.answer_in_time(answer)
        with pytest.raises(LostError, match="not connected"):
            connection.send(MetadataRequest(topics=()))

    asyncio.run(ask())
