"""Tells the controller in which log directory a partition lies, where the metadata says another one (KIP-858)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Any

from moldau.errors import KafkaError
from moldau.shell.broker.cluster.controller_reports import ControllerReports, PartitionId
from moldau.shell.broker.own_node import OwnNode
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
)


class DirectoryReports:
    """See ControllerReports."""

    def __init__(self, node: OwnNode, submit: Callable[[AssignReplicasToDirsRequest], Awaitable[Any]]) -> None:
        self._node = node
        self._submit = submit
        self._reports = ControllerReports(node, self._send)
        self._is_told = asyncio.Lock()
        """One request at a time: one that is tried again, for its answer was lost, may come to the controller behind
        what was said later, and would be the last word."""
        self.registered = self._reports.registered

    def add(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """Reports to the controller in which log directory this partition stands (AssignReplicasToDirs, KIP-858)."""
        self._reports.add((topic_id, index), directory_id)

    async def report(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """As `add`, in place of what was added before; returns once the metadata log holds it. Raises KafkaError; the
        metadata log may hold it all the same, where only the answer was lost."""
        self._reports.forget((topic_id, index))
        async with self._is_told:
            await self._submit(self._request({(topic_id, index): directory_id}))

    def _request(self, replicas: dict[PartitionId, Uuid]) -> AssignReplicasToDirsRequest:
        directories = assigned_directories(replicas.items())
        return AssignReplicasToDirsRequest(self._node.node_id, self._reports.broker_epoch, directories)

    async def _send(self, replicas: dict[PartitionId, Uuid]) -> bool:
        try:
            async with self._is_told:
                await self._submit(self._request(replicas))
        except KafkaError as error:
            self._node.log.warn(
                "log directories",
                f"the controller did not take the report of a partition's directory, which is sent again: {error}",
            )
            return False
        return True


def assigned_directories(replicas: Iterable[tuple[PartitionId, Uuid]]) -> tuple[AssignedDirectory, ...]:
    """`replicas`: topic id and partition, and the directory. They keep their order, so a directory may stand here more
    than once."""
    return tuple(
        AssignedDirectory(
            directory_id,
            tuple(
                AssignedTopic(topic_id, tuple(AssignedPartition(index) for (_, index), _ in of_topic))
                for topic_id, of_topic in groupby(in_directory, key=lambda replica: replica[0][0])
            ),
        )
        for directory_id, in_directory in groupby(replicas, key=lambda replica: replica[1])
    )
