"""Reports a partition's log directory to the controller if the metadata names another one (KIP-858)."""

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
        """Held by the one request in flight. After a lost answer the request is sent again: if it arrived after a later
        one, it would undo that."""
        self.registered = self._reports.registered

    def add(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """Reports the log directory of this partition to the controller (AssignReplicasToDirs, KIP-858)."""
        self._reports.add((topic_id, index), directory_id)

    async def report(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """Like `add`, replaces earlier reports; returns once the metadata log holds it. Raises KafkaError. If only the
        answer was lost, the metadata log may hold it all the same."""
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
    """Groups `replicas` (topic id and partition, directory) for the request. Keeps their order, so a directory may
    occur more than once."""
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
