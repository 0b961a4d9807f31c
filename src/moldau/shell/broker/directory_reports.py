"""Tells the controller in which log directory a partition lies, where the metadata says another one (KIP-858)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby, islice
from typing import Any

from moldau.errors import KafkaError
from moldau.shell.broker.own_node import OwnNode
from moldau.types import Uuid
from moldau.wire.protocol.messages.broker_lifecycle import (
    AssignedDirectory,
    AssignedPartition,
    AssignedTopic,
    AssignReplicasToDirsRequest,
)

MAX_PARTITIONS = 1_000
"""In one report."""


class DirectoryReports:
    """Nothing is sent before the broker is registered, and one report at a time."""

    def __init__(self, node: OwnNode, submit: Callable[[AssignReplicasToDirsRequest], Awaitable[Any]]) -> None:
        self._node = node
        self._submit = submit
        self._broker_epoch = -1
        self._unsent: dict[tuple[Uuid, int], Uuid] = {}
        self._is_sending = False

    def registered(self, broker_epoch: int) -> None:
        """The controller takes reports from now on."""
        self._broker_epoch = broker_epoch
        self._begin()

    def add(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """Reports to the controller in which log directory this partition stands (AssignReplicasToDirs, KIP-858)."""
        self._unsent[topic_id, index] = directory_id
        self._begin()

    async def report(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        """As `add`; returns once the metadata log holds it. Raises KafkaError."""
        await self._submit(self._request({(topic_id, index): directory_id}))

    def _request(self, replicas: dict[tuple[Uuid, int], Uuid]) -> AssignReplicasToDirsRequest:
        directories = assigned_directories(replicas.items())
        return AssignReplicasToDirsRequest(self._node.node_id, self._broker_epoch, directories)

    def _begin(self) -> None:
        if self._unsent and not self._is_sending and self._broker_epoch >= 0:
            self._is_sending = True
            self._node.spawn(self._send())

    async def _send(self) -> None:
        try:
            # one turn of patience: what one request created is reported at once
            await asyncio.sleep(0)
            while self._unsent:
                sent = dict(islice(self._unsent.items(), MAX_PARTITIONS))
                for key in sent:
                    del self._unsent[key]
                try:
                    await self._submit(self._request(sent))
                except KafkaError as error:
                    # the next start finds the difference again
                    self._node.log.warn(
                        "log directories", f"the controller did not take the report of a partition's directory: {error}"
                    )
                    return
        finally:
            self._is_sending = False


def assigned_directories(replicas: Iterable[tuple[tuple[Uuid, int], Uuid]]) -> tuple[AssignedDirectory, ...]:
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
