"""A Fetch that names thousands of partitions, and waits for records."""

from __future__ import annotations

import asyncio
from typing import Any

from moldau.shell.broker.handlers.fetch import MANY_BYTES, MAX_LONG_WAIT_S
from moldau.wire.protocol.api_keys import ApiKey
from moldau.wire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic


def test_a_long_fetch_gives_its_memory_back_soon_however_long_it_would_wait(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        node = await start_node()
        await node.create_topic("t")
        rows = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),) * 2_000
        asked = FetchRequest(
            max_wait_ms=2**31 - 1, min_bytes=1, max_bytes=1 << 20, topics=(FetchTopic(topic="t", partitions=rows),)
        )
        client, memory = node.connect(), node.node.connections.request_memory
        frame = client.request(ApiKey.FETCH, 12, asked)
        assert len(frame) > MANY_BYTES
        client.feed(frame)
        await asyncio.sleep(MAX_LONG_WAIT_S / 2)
        assert client.answers() == []
        assert memory.used_bytes > len(frame)
        await asyncio.sleep(MAX_LONG_WAIT_S)
        (answer,) = client.answers()
        assert [row.error_code for row in answer.responses[0].partitions] == [0]
        assert memory.used_bytes == 0

    in_virtual_time(story)
