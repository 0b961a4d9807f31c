"""The connections of one node on one loop, and what they share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from moldau.shell.network.bounds import ConnectionLimits, RequestMemory, ResponseMemory
from moldau.shell.network.event_log import EventLog
from moldau.telemetry import Telemetry

if TYPE_CHECKING:
    from moldau.shell.network.admission import ConnectionAdmission
    from moldau.shell.network.pending_response import Answer, PendingResponse
    from moldau.shell.network.server_connection import ServerConnection

RECEIVE_BUFFER_BYTES = 256 << 10
EARLY_BYTES = 4 << 10
"""What a connection that comes before the node serves may send before it is read no further."""


class FrameHandler(Protocol):
    """Where whole frames go: the dispatcher, or what a test puts in front of it."""

    def handle(self, connection: ServerConnection, frame: memoryview) -> Answer | PendingResponse | None: ...


class ConnectionGroup:
    """Buffers and budgets of all of them, and the sweep that ends idle and stuck ones."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
        request_memory: RequestMemory,
        response_memory: ResponseMemory,
        log: EventLog,
        telemetry: Telemetry,
    ) -> None:
        self.telemetry = telemetry
        self.loop = loop
        self.dispatcher: FrameHandler | None = None
        """None until `open`: connections that come earlier wait, and are hardly read."""
        self.limits = limits
        self.request_memory = request_memory
        self.response_memory = response_memory
        self.log = log
        self.receive_buffer = bytearray(EARLY_BYTES)
        self.spares: list[bytearray] = []
        """Private buffers given back by connections, for the next long frame."""
        self.connections: dict[int, ServerConnection] = {}
        self.admission: ConnectionAdmission | None = None
        """Who may come, and how many; None: everybody."""
        self._next_id = 0
        self._sweep_timer: asyncio.TimerHandle | None = None

    def add(self, connection: ServerConnection) -> int:
        self._next_id += 1
        self.connections[self._next_id] = connection
        if self._sweep_timer is None:
            self._arm_sweep()
        return self._next_id

    def remove(self, connection_id: int) -> None:
        self.connections.pop(connection_id, None)
        if not self.connections and self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None

    @property
    def accepted(self) -> int:
        """Connections since the start."""
        return self._next_id

    def open(self, dispatcher: FrameHandler) -> None:
        """Begins to serve, also those who came while the node was starting."""
        self.dispatcher = dispatcher
        self.receive_buffer = bytearray(RECEIVE_BUFFER_BYTES)
        for connection in list(self.connections.values()):
            connection.begin()

    def close(self) -> None:
        """Closes every connection after what is written; what is still owed is dropped."""
        for connection in list(self.connections.values()):
            connection.close()

    def abort(self) -> None:
        """Drops every connection at once, as a crash does."""
        for connection in list(self.connections.values()):
            connection.abort()

    def _arm_sweep(self) -> None:
        interval_ms = min(self.limits.sweep_interval_ms, max(1, self.limits.max_idle_ms // 4))
        self._sweep_timer = self.loop.call_later(interval_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        now_ms = int(self.loop.time() * 1000)
        for connection in list(self.connections.values()):
            connection.sweep(now_ms)
        self._sweep_timer = None
        if self.connections:
            self._arm_sweep()
