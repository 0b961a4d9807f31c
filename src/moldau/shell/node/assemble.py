"""Settings and doors in, a running node out: quorum, logs, broker, listeners, in the order in which they need each
other; and back again at the end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from moldau.core.config.broker_settings import BrokerSettings
from moldau.errors import InvariantError, MoldauError
from moldau.ports import Clock, Disk, Random, Workers
from moldau.shell.network.bounds import MAX_REQUEST_MEMORY_BYTES, ConnectionLimits, RequestMemory, ResponseMemory
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.listener import Listener, Network
from moldau.shell.network.server_connection import ConnectionGroup, ServerConnection
from moldau.telemetry import Telemetry
from moldau.types import BrokerId

if TYPE_CHECKING:
    from moldau.core.log.directory import LogDirectory
    from moldau.shell.broker.housekeeping import Housekeeping
    from moldau.shell.broker.role import Broker
    from moldau.shell.network.dispatch import Dispatcher
    from moldau.shell.quorum.role import QuorumRole

LOCK_FILE = ".lock"


class Doors(msgspec.Struct, frozen=True):
    """The world that a node lives in, real or simulated."""

    clock: Clock
    random: Random
    disk: Disk
    workers: Workers
    network: Network
    physical_memory_bytes: int = 4 * MAX_REQUEST_MEMORY_BYTES
    """What a quarter is taken of for requests in memory, at most 512 MiB."""


class Node:
    """One broker and controller in one process. Used from one loop; `settings.listeners` with port 0 picks a port."""

    def __init__(self, settings: BrokerSettings, doors: Doors) -> None:
        self.settings = settings
        self.doors = doors
        self.telemetry = Telemetry()
        self.log = EventLog(doors.clock)
        self.node_id = BrokerId(settings.node_id)
        self.failure: InvariantError | None = None
        """Why the node stopped by itself, if it did."""
        self.stopped: asyncio.Event = asyncio.Event()
        """Set once the node serves no more, for whatever reason."""
        self._listeners: list[Listener] = []
        self._release_lock: object = None
        self._group: ConnectionGroup | None = None
        self._dispatcher: Dispatcher | None = None
        self._quorum: QuorumRole | None = None
        self._logs: LogDirectory | None = None
        self._broker: Broker | None = None
        self._housekeeping: Housekeeping | None = None

    # -- where it is

    @property
    def host(self) -> str:
        return self._first_listener().host

    @property
    def port(self) -> int:
        return self._first_listener().port

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT` of the first listener. Raises MoldauError before `start`."""
        listener = self._first_listener()
        host = listener.host or "localhost"
        return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"

    @property
    def broker(self) -> Broker:
        """For tests and the simulator. Raises MoldauError before `start`."""
        if self._broker is None:
            raise MoldauError("the node is not running")
        return self._broker

    def _first_listener(self) -> Listener:
        if not self._listeners:
            raise MoldauError("the node is not running")
        return self._listeners[0]

    # -- starting

    async def start(self) -> None:
        """Returns once clients are served and the broker is registered. On an error nothing is left behind.

        Raises MoldauError: the directory is in use, is of another cluster, or cannot be read; OSError: a port is taken.
        """
        try:
            self._release_lock = self.doors.disk.lock(LOCK_FILE)
        except BlockingIOError as error:
            raise MoldauError(str(error)) from None
        try:
            group = await self._listen()
            broker = await self._assemble()
            self._open(group, broker)
        except BaseException:
            self.abort()
            raise

    async def _listen(self) -> ConnectionGroup:
        """Takes the ports first: a port that is taken is told before any file is touched. Clients wait until `_open`."""
        settings = self.settings
        memory_bytes = settings.queued_max_request_bytes
        if memory_bytes <= 0:
            memory_bytes = min(settings.moldau_request_memory_bytes, self.doors.physical_memory_bytes // 4)
        group = self._group = ConnectionGroup(
            asyncio.get_running_loop(),
            connection_limits(settings),
            RequestMemory(memory_bytes),
            ResponseMemory(settings.moldau_response_memory_bytes),
            self.log,
        )
        for endpoint in settings.listeners:
            name = endpoint.name
            listener = await self.doors.network.listen(
                endpoint.host, endpoint.port, lambda name=name: ServerConnection(group, name)
            )
            self._listeners.append(listener)
        return group


def connection_limits(settings: BrokerSettings) -> ConnectionLimits:
    """The bounds of each connection, as the settings have them."""
    return ConnectionLimits(
        max_request_bytes=settings.socket_request_max_bytes,
        max_idle_ms=settings.connections_max_idle_ms,
        frame_timeout_ms=settings.moldau_frame_timeout_ms,
        frame_progress_bytes=settings.moldau_frame_progress_bytes,
        max_pending_responses=settings.moldau_connection_pending_responses,
        max_pending_response_bytes=settings.moldau_connection_pending_response_bytes,
        write_high_water_bytes=settings.moldau_connection_high_water_bytes,
    )
