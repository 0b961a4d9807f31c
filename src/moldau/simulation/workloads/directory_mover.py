"""Moves partitions between the log directories of the broker, and checks their places (KIP-113)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from moldau.simulation.client import Client
from moldau.simulation.violation import ViolationError
from moldau.simulation.workloads.client_loop import FiniteLoop
from moldau.wire.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)

if TYPE_CHECKING:
    from moldau.simulation.client_world import ClientWorld, SimulatedTopic

MOVE_PATIENCE_S = 30.0


class DirectoryMover(FiniteLoop):
    """Requests moves from time to time. In the end it moves every partition once more and waits until each is in its
    directory."""

    def __init__(
        self, world: ClientWorld, name: str, topics: tuple[SimulatedTopic, ...], paths: tuple[str, ...]
    ) -> None:
        super().__init__(world, name)
        self.partitions = [(topic, partition) for topic in topics for partition in range(topic.partitions)]
        self.paths = paths
        self.last: dict[tuple[str, int], str] = {}
        """The final target of each partition."""
        self.drained_s = -1.0

    async def step(self) -> None:
        client = await self.client()
        if self.world.is_draining:
            await self.move_all(client)
            await asyncio.sleep(0.2)
            return
        if self.random.random() < 0.6:
            topic, partition = self.random.choice(self.partitions)
            await self.move(client, topic, partition, self.random.choice(self.paths))
        else:
            await self.places(client)
        await asyncio.sleep(self.random.choice((0.05, 0.3, 1.0)))

    async def move(self, client: Client, topic: SimulatedTopic, partition: int, path: str) -> bool:
        """Whether the move has begun."""
        wanted = AlterReplicaLogDir(path, (AlterReplicaLogDirTopic(topic.name, (partition,)),))
        answer = await client.request(AlterReplicaLogDirsRequest((wanted,)))
        error_code = answer.results[0].partitions[0].error_code
        self.world.trace.note("move", topic.name, partition, path, error_code)
        if error_code:
            self.must_be_retriable(error_code, f"AlterReplicaLogDirs of {topic.name}-{partition}")
        return error_code == 0

    async def places(self, client: Client) -> dict[tuple[str, int], str]:
        """The directory of each partition. No partition may be in two directories."""
        answer = await client.request(DescribeLogDirsRequest(topics=None))
        found: dict[tuple[str, int], str] = {}
        for directory in answer.results:
            if directory.error_code:
                self.must_be_retriable(directory.error_code, f"DescribeLogDirs of {directory.log_dir}")
            for topic in directory.topics:
                for partition in topic.partitions:
                    key = (topic.name, partition.partition_index)
                    if partition.is_future_key:
                        continue
                    if key in found:
                        raise ViolationError("a partition lies in one directory", f"{key}: {found[key]} and the other")
                    found[key] = directory.log_dir
        return found

    async def move_all(self, client: Client) -> None:
        if self.drained_s < 0:
            self.drained_s = self.world.loop.time()
        for topic, partition in self.partitions:
            key = (topic.name, partition)
            if key not in self.last:
                path = self.random.choice(self.paths)
                if await self.move(client, topic, partition, path):
                    self.last[key] = path
        places = await self.places(client)
        missing = [key for key, path in self.last.items() if places.get(key) != path]
        self.is_finished = len(self.last) == len(self.partitions) and not missing
        if not self.is_finished and self.world.loop.time() - self.drained_s > MOVE_PATIENCE_S:
            raise ViolationError("a move comes to its end", f"{missing} lie in {places}, asked for {self.last}")
