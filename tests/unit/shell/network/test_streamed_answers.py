"""Batches larger than the limit of a fetch are read while the consumer takes them."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.shell.network.streamed_answer import PIECE_BYTES
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.api_versions import ApiVersionsRequest
from moldau.wire.records.batch import is_crc_valid, read_header
from tests.support.node import fetch, produce

pytestmark = pytest.mark.asyncio

VALUE = bytes(range(256)) * 4_000


async def start(start_node: Any) -> tuple[Any, Any]:
    """A node whose response memory is used up, with one batch of 1 MB, and a client."""
    node = await start_node()
    await node.create_topic("t")
    client = node.connect()
    await client.ask(ApiKey.PRODUCE, 9, produce(VALUE))
    memory = client.connection.group.response_memory
    memory.unsent_bytes = memory.limit_bytes + 1
    return node, client


async def test_answers_keep_their_order_and_their_bytes_behind_a_streamed_one(start_node: Any) -> None:
    node, client = await start(start_node)
    fetches = [client.request(ApiKey.FETCH, 12, fetch(0)) for _ in range(3)]
    client.feed(b"".join(fetches) + client.request(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()))
    for _ in range(20):
        await node.turns(10)
    answers = client.answers()
    assert len(answers) == 4
    for answer in answers[:3]:
        records = answer.responses[0].partitions[0].records
        assert read_header(records).size == len(records) > len(VALUE)
        assert is_crc_valid(records, 0, len(records))


async def test_a_consumer_that_takes_nothing_holds_one_piece_and_is_served_no_further(start_node: Any) -> None:
    node, client = await start(start_node)
    before = client.connection.group.response_memory.unsent_bytes
    client.wire.is_stuck = True
    client.feed(b"".join(client.request(ApiKey.FETCH, 12, fetch(0)) for _ in range(3)))
    await node.turns(50)
    assert 0 < client.wire.unsent <= PIECE_BYTES + 200
    assert client.connection.group.response_memory.unsent_bytes - before == client.wire.unsent
    assert node.node.dispatcher.request_counts()["FETCH"] == 1
    client.wire.drain()
    for _ in range(20):
        await node.turns(10)
    assert len(client.answers()) == 3
    assert client.connection.group.response_memory.unsent_bytes == before


@pytest.mark.parametrize("damage", ["the file is closed", "another file is in its place"])
async def test_a_batch_that_is_gone_half_way_ends_the_connection(start_node: Any, damage: str) -> None:
    node, client = await start(start_node)
    client.wire.is_stuck = True
    client.send(ApiKey.FETCH, 12, fetch(0))
    file = node.node.broker.partitions.by_name[b"t"].partitions[0].log._segments.active.file
    if damage == "the file is closed":
        file.close()
    else:
        file.write_at(0, bytes(61))
    client.wire.drain()
    for _ in range(20):
        await node.turns(10)
    assert client.wire.is_closed
    assert len(client.wire.sent) < len(VALUE)
