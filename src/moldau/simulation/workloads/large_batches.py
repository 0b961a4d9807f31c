"""Batches so large, and readers so slow, that they exhaust the memory for requests and responses."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from moldau.simulation.client import BrokerClient, Client
from moldau.simulation.workloads.producers import PlainProducer
from moldau.simulation.workloads.readers import Consumer

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

LAZY_READERS = 3
LARGE_PRODUCERS = 2
SIZES = (70_000, 150_000, 500_000)
"""Batch sizes in bytes. Each is more than a fetch may load when no memory is left."""
MAX_RECORDS = 60
"""The number of records of one producer, which are read again and again."""


class LargeProducer(PlainProducer):
    """Writes a few large batches, each in a frame that takes much of the memory for requests."""

    def is_done(self) -> bool:
        return super().is_done() or self.next_number >= MAX_RECORDS

    def draw_padding(self, count: int) -> int:
        return self.random.choice(SIZES) // count

    def draw_codec(self, codecs: tuple[str, ...]) -> str:
        return "none"

    async def pause(self) -> None:
        await asyncio.sleep(self.random.choice((0.2, 0.5, 1.5)))


class LazyReader(Consumer):
    """Requests much data and reads the response after a delay, during which the broker holds it."""

    def draw_max_bytes(self) -> int:
        return 1 << 20

    async def fetch(self, client: Client, *, max_wait_ms: int) -> None:
        connection = cast(BrokerClient, client)
        connection.pause_reading()
        self.world.loop.call_later(self.random.choice((0.2, 1.0, 2.0)), connection.resume_reading)
        await super().fetch(client, max_wait_ms=max_wait_ms)


def large_batch_clients(world: ClientWorld, topic: SimulatedTopic) -> list[PlainProducer | Consumer]:
    """Clients that exhaust the memory, and one reader that reads its responses at once."""
    producers = [LargeProducer(world, f"large-{number}", topic) for number in range(LARGE_PRODUCERS)]
    lazy = [LazyReader(world, f"lazy-{number}", topic) for number in range(LAZY_READERS)]
    return [*producers, *lazy, Consumer(world, "read-large", topic)]
