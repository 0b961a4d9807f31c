"""An administrator of a cluster: moves replicas, takes moves back, and lets the preferred replicas lead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.errors import ERROR_CODES
from moldau.simulation.cluster.settings import REPLICAS
from moldau.simulation.workloads.client_loop import ClientLoop, errors_of
from moldau.wire.protocol.messages.partitions import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

RESTS_S = (0.5, 2.0, 6.0)
EXPECTED = tuple(
    ERROR_CODES[name]
    for name in (
        "INVALID_REPLICA_ASSIGNMENT",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "ELECTION_NOT_NEEDED",
        "NO_REASSIGNMENT_IN_PROGRESS",
    )
)
"""A broker that is asked to hold a replica is fenced; there is nothing to do."""


class Administrator(ClientLoop):
    def __init__(
        self, world: ClientWorld, name: str, topics: tuple[SimulatedTopic, ...], node_ids: tuple[int, ...]
    ) -> None:
        super().__init__(world, name)
        self.topics = topics
        self.node_ids = node_ids

    async def step(self) -> None:
        await asyncio.sleep(self.random.choice(RESTS_S))
        if self.world.is_draining:
            return
        client = await self.client()
        topic = self.random.choice(self.topics)
        draw = self.random.random()
        if draw < 0.3:
            answer: object = await client.request(ElectLeadersRequest(topic_partitions=None, timeout_ms=5_000))
        else:
            replicas = None if draw < 0.4 else tuple(self.random.sample(self.node_ids, REPLICAS))
            row = ReassignablePartition(self.random.randrange(topic.partitions), replicas)
            self.world.trace.tell(f"{topic.name}-{row.partition_index} is to lie on {replicas}")
            answer = await client.request(
                AlterPartitionReassignmentsRequest(5_000, topics=(ReassignableTopic(topic.name, (row,)),))
            )
        for error_code in errors_of(answer):
            if error_code not in EXPECTED:
                self.must_be_retriable(error_code, "a change of replicas")
