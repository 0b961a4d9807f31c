"""What a node is given of the world when it is made; see `moldau.ports` for each."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moldau.ports import Clock, Disk, Random, Workers
from moldau.shell.network.bounds import MAX_REQUEST_MEMORY_BYTES
from moldau.transport.network import Network


class NodePorts(msgspec.Struct, frozen=True):
    """The world that a node lives in, real or simulated."""

    clock: Clock
    random: Random
    disk: Disk
    """The first log directory, with the metadata log."""
    workers: Workers
    network: Network
    timer_ns: Callable[[], int] | None = None
    """For short measurements: what requests take, where a client has a quota of that. None: nothing is measured."""
    physical_memory_bytes: int = 4 * MAX_REQUEST_MEMORY_BYTES
    """What a quarter is taken of for requests in memory, at most 512 MiB, and a twentieth for members of groups."""
    max_open_connections: int | None = None
    """On all listeners together, as many as there are descriptors for: one more is closed at once, whatever the
    settings say. None: no bound."""
    further_disks: tuple[Disk, ...] = ()
    """The other log directories of `log.dirs`, in their order."""
    paths: tuple[str, ...] = ("memory",)
    """What clients know each of them by."""
    host_name: Callable[[], str] = lambda: "localhost"
    """By which other machines reach this one: asked where a listener names no host."""
    unopened_paths: tuple[str, ...] = ()
    """Of `log.dirs` that could not even be made."""
