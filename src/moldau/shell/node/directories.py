"""The log directories of a node at its start: locks them, formats new ones, opens them; releases them at the end.

The first one holds the metadata log, and the node does not start without it. Another directory that cannot be opened,
or whose `meta.properties` cannot be read, is reported and left out: its partitions are offline until a restart, and the
others serve.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.log.directories.directories import LogDirectories
from moldau.core.log.directories.directory import LogDirectory
from moldau.core.log.files.segment import IndexCache
from moldau.core.metadata.image import BrokerListener
from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.errors import MoldauError, StorageFailedError, StorageFullError
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.node.storage_format import (
    META_PROPERTIES,
    DamagedPropertiesError,
    MetaProperties,
    StorageFormatError,
    find_partition,
    find_use,
    format_directory,
    format_further_directory,
    read_meta_properties,
)
from moldau.types import BrokerId

if TYPE_CHECKING:
    from moldau.ports import Disk
    from moldau.shell.node.ports import NodePorts

LOCK_FILE = ".lock"


class NodeDirectories:
    """The log directories of one node; `lock`, then `open`, and `unlock` at the end."""

    def __init__(self, ports: NodePorts, log: EventLog) -> None:
        self._ports = ports
        self._log = log
        self._disks: list[tuple[Disk, str]] = []
        self._unopened: list[str] = list(ports.unopened_paths)
        self._releases: list[Callable[[], None]] = []

    def lock(self) -> None:
        """Raises MoldauError if another broker uses a directory."""
        for path in self._unopened:
            self._log.error("log directory offline", f"{path} cannot be opened and is left out")
        for place, disk in enumerate((self._ports.disk, *self._ports.further_disks)):
            paths = self._ports.paths
            path = paths[place] if place < len(paths) else f"memory-{place}"
            try:
                self._releases.append(disk.lock(LOCK_FILE))
            except BlockingIOError as error:
                raise MoldauError(str(error)) from None
            except (StorageFailedError, StorageFullError, OSError) as error:
                self._leave_out(place, path, error)
                continue
            self._disks.append((disk, path))

    def unlock(self) -> None:
        """Lets other processes lock the directories; may be called twice."""
        releases, self._releases = self._releases, []
        for release in releases:
            release()

    def open(
        self, node_id: BrokerId, controller_listener: BrokerListener, *, is_alone: bool
    ) -> tuple[MetaProperties, LogDirectories]:
        """The properties of the first directory, and all directories. Raises StorageFormatError if a directory belongs
        to another node or another cluster, or is new while the node is not alone: an operator must choose the cluster
        that it joins."""
        index_cache = IndexCache()
        first: MetaProperties | None = None
        opened: list[LogDirectory] = []
        for place, (disk, path) in enumerate(self._disks):
            try:
                if not is_alone and first is None and read_meta_properties(disk) is None:
                    raise StorageFormatError(f"{path} is not formatted: a node of several must be told its cluster id")
                properties = self._properties(disk, path, first, node_id, controller_listener)
                directory = LogDirectory.open(
                    disk, index_cache=index_cache, directory_id=properties.directory_id, path=path
                )
            except (DamagedPropertiesError, StorageFailedError, StorageFullError, OSError) as error:
                self._leave_out(place, path, error)
                continue
            directory.health.report_to(partial(self._report_damage, path))
            if any(known.directory_id == directory.directory_id for known in opened):
                raise StorageFormatError(f"{path}: another of log.dirs has the same directory.id")
            first = first or properties
            opened.append(directory)
        if first is None:
            raise StorageFormatError("none of log.dirs can be opened")
        return first, LogDirectories(opened, self._unopened)

    def _report_damage(self, path: str, finding: str) -> None:
        self._log.finding(logging.WARNING, "damaged file", f"{path}/{escape(finding)}")

    def _leave_out(self, place: int, path: str, error: Exception) -> None:
        if place == 0:
            raise DamagedPropertiesError(f"{path}/{error}") if isinstance(error, DamagedPropertiesError) else error
        self._unopened.append(path)
        self._log.error("log directory offline", f"{path} cannot be opened and is left out: {escape(str(error))}")

    def _properties(
        self,
        disk: Disk,
        path: str,
        first: MetaProperties | None,
        node_id: BrokerId,
        controller_listener: BrokerListener,
    ) -> MetaProperties:
        ports, now_ms = self._ports, self._ports.clock.now_ms()
        properties = read_meta_properties(disk)
        if properties is None and first is None:
            used = find_use(disk)
            if used is not None:
                raise StorageFormatError(
                    f"{path} holds {used}, but no {META_PROPERTIES}, which names its cluster and node: "
                    f"put {META_PROPERTIES} back"
                )
            self._check_nobody_is_formatted()
            return format_directory(
                disk, ports.random, now_ms=now_ms, node_id=node_id, controller_listener=controller_listener
            )
        if properties is None and first is not None:
            return format_further_directory(disk, ports.random, first, now_ms=now_ms)
        if properties is None or properties.node_id != node_id:
            other = node_id if properties is None else properties.node_id
            raise StorageFormatError(f"{path} belongs to node {other}, but node.id is {node_id}")
        if first is None:
            self._check_metadata_is_there(disk, path)
        if first is not None and properties.cluster_id != first.cluster_id:
            raise StorageFormatError(
                f"{path} belongs to cluster {properties.cluster_id}, "
                f"but the first of log.dirs belongs to {first.cluster_id}"
            )
        return properties

    def _check_metadata_is_there(self, disk: Disk, path: str) -> None:
        """Without the metadata log, partitions would belong to no topic and be removed. A new directory has neither."""
        if disk.list_directory(METADATA_DIRECTORY):
            return
        for other, other_path in self._disks:
            found = find_partition(other)
            if found is not None:
                raise StorageFormatError(
                    f"{other_path} holds {found}, but {path} has no {METADATA_DIRECTORY}: put {METADATA_DIRECTORY} back"
                )

    def _check_nobody_is_formatted(self) -> None:
        """A new first directory next to an old one would mean a new cluster over old partitions."""
        for disk, path in self._disks[1:]:
            if disk.exists(META_PROPERTIES):
                raise StorageFormatError(
                    f"the first of log.dirs is new, but {path} belongs to a cluster already: "
                    "let log.dirs begin with the first directory of that cluster"
                )
