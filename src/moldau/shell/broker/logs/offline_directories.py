"""Log directories that failed: takes their partitions offline until a restart."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.log.directories.directory import LogDirectory
from moldau.core.replication.partition import Partition
from moldau.errors import kafka_error
from moldau.shell.broker.own_node import OwnNode
from moldau.shell.broker.partitions import Partitions


class OfflineDirectories:
    """The `log.dirs` that this broker lost while it ran."""

    def __init__(
        self,
        node: OwnNode,
        partitions: Partitions,
        taken_offline: Callable[[Partition], None],
        failed: Callable[[], None],
    ) -> None:
        """`taken_offline`: called for each partition. `failed`: called after each directory that failed."""
        self._node = node
        self._partitions = partitions
        self._taken_offline = taken_offline
        self._failed = failed
        self._paths: dict[str, None] = {}

    @property
    def count(self) -> int:
        """The number of `log.dirs` that have failed or were not opened."""
        return len(self._paths) + len(self._partitions.logs.unopened_paths)

    def look(self) -> None:
        """Takes the partitions in directories that have failed since the last look offline (answered with 56)."""
        for directory in self._partitions.logs:
            if directory.health.is_offline and directory.path not in self._paths:
                self._paths[directory.path] = None
                self._take_offline(directory)
                self._failed()

    def _take_offline(self, directory: LogDirectory) -> None:
        node = self._node
        node.telemetry.set("kafka.log:type=LogManager,name=OfflineLogDirectoryCount", self.count)
        reason = f"{directory.path} failed and is offline: {directory.health.failure}"
        node.log.error("log directory offline", f"node {node.node_id}: {reason}")
        for partition in self._partitions:
            if partition.log.health is directory.health:
                partition.take_offline()
                self._taken_offline(partition)
                self._partitions.flusher.fail(partition, kafka_error("KAFKA_STORAGE_ERROR"))
