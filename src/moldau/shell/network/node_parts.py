"""The parts that a node passes to its roles, quorum and broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from moldau.errors import InvariantError
from moldau.ports import Clock, Disk, Random, Workers
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.pauses import Pauses
from moldau.telemetry import Telemetry
from moldau.transport.network import Network


class NodeParts(msgspec.Struct, frozen=True):
    """The ports of a node, its loop and its shared parts. `disk`: the first log directory, with the metadata log."""

    clock: Clock
    random: Random
    disk: Disk
    workers: Workers
    network: Network
    loop: asyncio.AbstractEventLoop
    pauses: Pauses
    telemetry: Telemetry
    log: EventLog


class NodeFailures(msgspec.Struct, frozen=True):
    """A role's callbacks to its node."""

    invariant_broken: Callable[[InvariantError], None]
    """A bug of ours: the node must stop."""
    directory_failed: Callable[[], None]
    """A log directory went offline."""
