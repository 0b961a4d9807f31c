"""The driver on an event loop, with a real broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest

from moldau.client.async_driver import AsyncConnection
from moldau.client.protocol.connection import ClientProtocol, PendingRequest
from moldau.testing import Cluster
from moldau.wire.protocol.api_keys import API_VERSIONS, ApiKey, response_header_version
from moldau.wire.protocol.codec import decode_message, encode_message
from moldau.wire.protocol.framing import frame
from moldau.wire.protocol.headers import encode_response_header
from moldau.wire.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from moldau.wire.protocol.messages.produce import ProduceRequest


class LostError(Exception):
    """This test's error for a lost connection."""


def decode(pending: PendingRequest, body: memoryview) -> msgspec.Struct:
    return decode_message(API_VERSIONS[pending.api_key].response, pending.version, body)[0]


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def new_connection() -> AsyncConnection:
    return AsyncConnection(
        ClientProtocol("a node", first_correlation_id=0),
        version_of=lambda api_key: 9,
        decode=decode,
        lost=LostError,
        request_timeout_s=60,
    )


async def connect(broker: Cluster) -> AsyncConnection:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    connection = new_connection()
    await asyncio.get_running_loop().create_connection(lambda: connection, host, int(port))
    return connection


def test_answers_come_in_the_order_of_the_requests_and_are_noted_when_they_arrive(broker: Cluster) -> None:
    async def ask() -> list[str]:
        connection = await connect(broker)
        noted: list[str] = []
        # a missing response must not shift the responses of the others
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
        with pytest.raises(LostError, match=r"connection lost$"):
            await connection.answer_in_time(answer)
        with pytest.raises(LostError, match="not connected"):
            connection.send(MetadataRequest(topics=()))

    asyncio.run(ask())


class Wire(asyncio.Transport):
    """The end of requests; the test hands responses to the connection."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return False


def hand(connection: AsyncConnection, data: bytes, piece_bytes: int) -> None:
    """Gives `data` like a socket with that many bytes at a time."""
    left = memoryview(data)
    while left:
        room = connection.get_buffer(-1)
        size = min(len(room), len(left), piece_bytes)
        room[:size] = left[:size]
        left = left[size:]
        connection.buffer_updated(size)


def metadata(length: int) -> MetadataResponse:
    """Names of brokers, of `length` bytes in all."""
    hosts = ["h" * min(30_000, length - begin) for begin in range(0, length, 30_000)]
    return MetadataResponse(brokers=tuple(MetadataResponseBroker(node_id, host) for node_id, host in enumerate(hosts)))


@pytest.mark.parametrize("piece_bytes", [1_000, 16_384, 300_001, 1 << 30])
def test_short_and_long_answers_arrive_whole_however_they_are_cut(piece_bytes: int) -> None:
    lengths = [0, 9_000, 3, 40_000, 16_300, 16_384, 5, 5_000_000, 100, 17_000]

    async def ask() -> list[MetadataResponse]:
        connection = new_connection()
        connection.connection_made(Wire())
        sent = [connection.send(MetadataRequest(topics=())) for _ in lengths]
        version = response_header_version(ApiKey.METADATA, 9)
        answers = [
            frame(encode_response_header(number, version), encode_message(metadata(length), 9))
            for number, length in enumerate(lengths)
        ]
        hand(connection, b"".join(answers), piece_bytes)
        return [await answer for answer in sent]

    assert asyncio.run(ask()) == [metadata(length) for length in lengths]


def test_a_long_answer_takes_memory_as_it_comes() -> None:
    connection = new_connection()
    hand(connection, (500 << 20).to_bytes(4, "big") + bytes(12), 16)
    assert len(connection.get_buffer(-1)) < 4 << 20
    hand(connection, bytes(5 << 20), 1 << 20)
    assert len(connection.get_buffer(-1)) < 16 << 20
