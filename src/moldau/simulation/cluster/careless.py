"""A client that produces with acks=1 and acks=0, and the rules for its records.

A record with acks=1 may be lost with its broker, but it never has another offset than the acknowledged one. A record
with acks=0 may be lost at any time. A record of either kind that was read was committed, and stays. If the topic allows
unclean elections, these rules end with the first one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from moldau.simulation.checkers.ledger import Value
from moldau.simulation.cluster.routed_client import RoutedClient
from moldau.simulation.workloads.producers import Producer
from moldau.wire.protocol.messages.produce import ProduceResponse

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

NOBODY_WAITS, LEADER_ALONE, ALL = 0, 1, -1


class CarelessProducer(Producer):
    """Sends each batch once, without idempotence. Batches are never repeated, and their order is not promised."""

    def __init__(self, world: ClientWorld, name: str, topic: SimulatedTopic) -> None:
        super().__init__(world, name, topic)
        self.batches = 0

    async def step(self) -> None:
        client = cast(RoutedClient, await self.client())
        acks = self.random.choice((NOBODY_WAITS, LEADER_ALONE, ALL))
        index = self.random.randrange(self.topic.partitions)
        self.batches += 1
        count = self.random.choice((1, 2, 10))
        values = [Value(f"{self.name}/{self.batches}", number, True) for number in range(count)]
        request = self.make_request(client, {index: self.make_batch(index, values)}, acks)
        if acks == NOBODY_WAITS:
            await client.tell(request)
        else:
            await client.request(request, note=partial(self.answered, values, acks))
        await self.pause()

    def answered(self, values: list[Value], acks: int, answer: ProduceResponse) -> None:
        """Handles one response at the moment of its arrival."""
        for topic in answer.responses:
            for response in topic.partition_responses:
                ledger = self.topic.ledger(self.world, response.index)
                if response.error_code:
                    self.must_be_retriable(response.error_code, f"Produce to {ledger.name}")
                elif acks == ALL:
                    ledger.acknowledged(response.base_offset, values)
                else:
                    ledger.claimed(response.base_offset, values)
