"""Flushes that end with an unforeseen error: the next flush serves their waiters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from moldau.wire.protocol.api_keys import ApiKey
from tests.support.node import produce, result_of
from tests.support.quorum import GatedWorkers

T = TypeVar("T")


class StumblingWorkers(GatedWorkers):
    """The next `stumbles` pieces of work of these workers end with an unforeseen error."""

    stumbles = 0

    async def run(self, work: Callable[[], T]) -> T:
        if self.stumbles:
            self.stumbles -= 1
            raise ValueError("nobody foresaw this")
        return await super().run(work)


def test_behind_an_unforeseen_error_within_a_flush_the_next_one_answers(in_virtual_time: Any) -> None:
    async def story(start_node: Any) -> None:
        workers = StumblingWorkers(is_open=True)
        node = await start_node(workers=workers)
        await node.create_topic("t", flush_messages="1")
        await node.turns(20)
        client = node.connect()
        workers.stumbles = 1
        client.send(ApiKey.PRODUCE, 9, produce(b"a"))
        await node.turns(20)
        assert (workers.stumbles, client.answers()) == (0, [])
        await asyncio.sleep(1)
        (answer,) = client.answers()
        assert result_of(answer).error_code == 0
        assert node.node.broker.partitions.find("t", 0).log.recovery_point == 1

    in_virtual_time(story)
