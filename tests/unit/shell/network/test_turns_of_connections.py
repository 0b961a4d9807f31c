"""Very many small requests of one connection: other clients are served between them, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.network.flow_control import HELD_BYTES
from moldau.shell.network.server_connection import FRAMES_AT_ONCE
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.protocol.messages.metadata import MetadataRequest
from tests.support.node import produce

pytestmark = pytest.mark.asyncio

COUNT = 5 * FRAMES_AT_ONCE + 7


def log_end_offset(node: Any) -> int:
    offset: int = node.node.broker.partitions.find("t", 0).log.log_end_offset
    return offset


async def test_others_are_served_between_many_requests_of_one_read(node: Any) -> None:
    await node.create_topic("t")
    client, other = node.connect(), node.connect()
    client.feed(b"".join(client.request(ApiKey.PRODUCE, 9, produce(b"x")) for _ in range(COUNT)))
    begun: list[int] = []
    while log_end_offset(node) < COUNT:
        begun.append(log_end_offset(node))
        other.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
        assert len(other.answers()) == 1
        await node.turns(1)
    assert begun[:1] == [FRAMES_AT_ONCE]
    assert len(begun) > 2
    offsets = [row.base_offset for answer in client.answers() for row in answer.responses[0].partition_responses]
    assert offsets == list(range(COUNT))
    assert client.connection.group.request_memory.used_bytes == 0
    assert not client.wire.is_read_paused


async def test_what_comes_while_a_connection_waits_for_its_turn_stays_in_order(client: Any) -> None:
    for _ in range(3):
        client.feed(b"".join(client.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()) for _ in range(COUNT // 3)))
        client.send(ApiKey.METADATA, 9, MetadataRequest(topics=()))
    answers = await client.next_answers(3 * (COUNT // 3 + 1))
    kinds = [type(answer).__name__ for answer in answers]
    assert kinds == (["ApiVersionsResponse"] * (COUNT // 3) + ["MetadataResponse"]) * 3


async def test_what_came_before_the_end_of_a_client_is_done(node: Any, client: Any) -> None:
    await node.create_topic("t")
    frames = b"".join(client.request(ApiKey.PRODUCE, 9, produce(b"x", acks=0)) for _ in range(COUNT))
    assert client.feed(frames) == len(frames) > HELD_BYTES
    client.connection.eof_received()
    client.wire.close()
    await node.turns(2)
    assert log_end_offset(node) == COUNT
    assert client.connection.group.request_memory.used_bytes == 0
