"""The ports that a node is made with; see `moldau.ports` for each."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moldau.ports import Clock, Disk, Random, Workers
from moldau.shell.network.bounds import MAX_REQUEST_MEMORY_BYTES
from moldau.transport.network import Network


class NodePorts(msgspec.Struct, frozen=True):
    """The real or simulated environment of a node."""

    clock: Clock
    random: Random
    disk: Disk
    """The first log directory, with the metadata log."""
    workers: Workers
    network: Network
    timer_ns: Callable[[], int] | None = None
    """For short measurements: the duration of requests, if a client has a quota for it. None: nothing is
    measured."""
    physical_memory_bytes: int = 4 * MAX_REQUEST_MEMORY_BYTES
    """A quarter of it, at most 512 MiB, is for requests in memory, and a twentieth for members of groups."""
    max_open_connections: int | None = None
    """Maximum connections on all listeners together, from the descriptor limit. Connections above it are closed at
    once, regardless of the settings. None: no bound."""
    further_disks: tuple[Disk, ...] = ()
    """The other log directories of `log.dirs`, in their order."""
    paths: tuple[str, ...] = ("memory",)
    """The paths that clients see for the log directories."""
    host_name: Callable[[], str] = lambda: "localhost"
    """The name by which other machines reach this one; called if a listener names no host."""
    unopened_paths: tuple[str, ...] = ()
    """The paths of `log.dirs` that could not be created."""
