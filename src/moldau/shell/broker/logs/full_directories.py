"""Log directories without room: moves their leaderships to other in-sync replicas, and later brings the replicas back
in sync.

Each replica is reported to the controller separately (`core/controller/directories.py`). A partition that no other
broker can lead stays here: it rejects records but is still read. A follower without room for its leader's records
leaves the in-sync replicas. In the directory of the metadata log a spare file reserves room for the metadata: this node
continues to receive leader changes. Records never use that room. A broker that is alone tries each append, and gives no
leadership away.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.controller.directories import has_successor, place_of_follower, place_without_room
from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.directories.room import Room, keep_spare, needed_bytes, release_spare
from moldau.core.metadata.image import LOST_DIRECTORY
from moldau.errors import StorageFailedError
from moldau.shell.broker.cluster.directory_reports import DirectoryReports
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.io.disk import space_of
from moldau.types import TopicPartition, Uuid

if TYPE_CHECKING:
    from moldau.core.metadata.image import MetadataImage
    from moldau.shell.broker.partitions import Partitions

LOOK_S = 1.0
"""The pause between two looks at the partitions in full directories: other replicas enter and leave the in-sync
replicas meanwhile."""


class FullDirectories:
    """Used from the broker's loop only."""

    def __init__(self, node: OwnNode, partitions: Partitions, reports: DirectoryReports) -> None:
        self._node = node
        self._partitions = partitions
        self._logs = partitions.logs
        self._reports = reports
        self._rooms = {directory.path: Room() for directory in self._logs}
        self._is_watching = False
        self._has_others = False

    def is_full(self, directory: LogDirectory) -> bool:
        """Whether an append found no room there, and no later look did."""
        return self._rooms[directory.path].is_full

    def brokers_changed(self, image: MetadataImage) -> None:
        """Creates the spare file when the metadata first has another broker."""
        if not self._has_others and len(image.brokers) > 1:
            self._has_others = True
            self._node.spawn(self._keep_spare())

    def refused(self, place: TopicPartition) -> None:
        """Reports that there was no room for records of this partition, or for its new log."""
        image = self._partitions.image
        partition = image.partition(place)
        if not self._has_others or partition is None:
            return
        directory = self._logs.directory_of(place)
        node_id = self._node.node_id
        if directory is None:
            if partition.leader == node_id and has_successor(image, partition, node_id):
                self._say(place, LOST_DIRECTORY)
            return
        if partition.leader != node_id:
            said = place_of_follower(partition, node_id)
            if said is not None:
                self._say(place, said)
        if self._rooms[directory.path].refused(self._node.clock.monotonic_ms()):
            self._became_full(directory)

    def _became_full(self, directory: LogDirectory) -> None:
        self._node.log.error(
            "log directory full",
            f"node {self._node.node_id}: no space is left for {directory.path}: it takes no records any more, and what "
            "it leads there goes to other in-sync replicas",
        )
        directory.health.fill()
        try:
            if directory is self._logs.first:
                release_spare(directory.disk)
        except StorageFailedError as error:
            directory.health.fail(error)
            self._node.directory_failed()
        if not self._is_watching:
            self._is_watching = True
            self._node.spawn_lasting(self._watch())

    async def _watch(self) -> None:
        try:
            while any(room.is_full for room in self._rooms.values()):
                for directory in self._logs:
                    if self.is_full(directory) and not directory.health.is_offline:
                        await self._look_at(directory)
                await asyncio.sleep(LOOK_S)
        finally:
            self._is_watching = False

    async def _look_at(self, directory: LogDirectory) -> None:
        room, node = self._rooms[directory.path], self._node
        if not room.is_look_due(node.clock.monotonic_ms()):
            await self._place_all(directory, has_room=False)
            return
        total_bytes, usable_bytes = await node.workers.run(partial(space_of, directory.disk))
        if not room.looked(total_bytes, usable_bytes, node.clock.monotonic_ms()):
            if room.looks == 1:
                node.log.warn(
                    "log directory full",
                    f"node {node.node_id}: {directory.path} takes records again once {needed_bytes(total_bytes)} bytes "
                    f"are free; {usable_bytes} are",
                )
            await self._place_all(directory, has_room=False)
            return
        directory.health.empty()
        node.log.info("log directory full", f"node {node.node_id}: {directory.path} has room again")
        await self._keep_spare()
        await self._place_all(directory, has_room=True)

    async def _place_all(self, directory: LogDirectory, *, has_room: bool) -> None:
        """Reports each replica in the directory for which the metadata differs."""
        node_id = self._node.node_id
        for place in list(directory.logs):
            await self._node.pauses.pause()
            image = self._partitions.image
            partition, noted = image.partition(place), image.directory_of(node_id, place)
            if partition is None or noted is None or place not in directory.logs:
                continue
            wanted = place_without_room(image, partition, node_id, directory.directory_id)
            if has_room:
                wanted = directory.directory_id if noted == LOST_DIRECTORY else noted
            if wanted != noted:
                self._say(place, wanted)

    def _say(self, place: TopicPartition, directory_id: Uuid) -> None:
        topic_id = self._partitions.image.topic_id(place.topic)
        self._reports.add(topic_id, place.partition, directory_id)

    async def _keep_spare(self) -> None:
        first = self._logs.first
        if not self.is_full(first) and not first.health.is_offline:
            await self._node.workers.run(partial(keep_spare, first.disk))
