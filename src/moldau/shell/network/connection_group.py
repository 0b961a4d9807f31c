"""The connections of one node on one loop, and their shared state."""

from __future__ import annotations

import asyncio

from moldau.core.beat import beat_ms
from moldau.shell.network.admission import ConnectionAdmission
from moldau.shell.network.bounds import UNAUTHENTICATED_SHARE, ConnectionLimits, RequestMemory, ResponseMemory
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.reply import Authenticator, CertifiedPrincipal, FrameHandler
from moldau.shell.network.server_connection import ServerConnection
from moldau.telemetry import Telemetry

RECEIVE_BUFFER_BYTES = 256 << 10
UNAUTHENTICATED_MEMORY = "moldau.unauthenticated.memory.bytes"
EARLY_BYTES = 4 << 10
"""Bytes that are read of a connection that arrives before the node serves."""


class ConnectionGroup:
    """The buffers and budgets of all connections, and the sweep that ends idle and stuck ones."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
        request_memory: RequestMemory,
        response_memory: ResponseMemory,
        log: EventLog,
        telemetry: Telemetry,
        admission: ConnectionAdmission,
    ) -> None:
        """`admission`: limits the connections."""
        self.telemetry = telemetry
        self.admission = admission
        self.loop = loop
        self.dispatcher: FrameHandler | None = None
        """None until `open`: earlier connections wait, and almost nothing is read from them."""
        self.limits = limits
        self.request_memory = request_memory
        share_bytes = request_memory.limit_bytes // UNAUTHENTICATED_SHARE
        self.unauthenticated_memory = RequestMemory(share_bytes, telemetry, UNAUTHENTICATED_MEMORY)
        self.response_memory = response_memory
        self.log = log
        self.receive_buffer = bytearray(EARLY_BYTES)
        self.spares: list[bytearray] = []
        """Private buffers that connections have returned, for the next long frame."""
        self.connections: dict[int, ServerConnection] = {}
        self._next_id = 0
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def show_memory(self) -> None:
        """Shows the memory of its requests as a metric: for the client listeners of a node."""
        self.request_memory.show()
        self.unauthenticated_memory.show()

    def new_connection(
        self,
        listener_name: str,
        authenticator: Authenticator | None = None,
        certified: CertifiedPrincipal | None = None,
    ) -> ServerConnection:
        """The protocol of a connection that a listener has just accepted. `authenticator`: the listener's. `certified`:
        for a listener with TLS."""
        return ServerConnection(self, listener_name, authenticator, certified)

    def add(self, connection: ServerConnection) -> int:
        """Returns the connection's number, its id until it is removed."""
        self._next_id += 1
        self.connections[self._next_id] = connection
        if self._sweep_timer is None:
            self._arm_sweep()
        return self._next_id

    def admit(self, connection: ServerConnection) -> None:
        """A connection was made and has its id. A connection accepted just before the group's end may arrive after it
        and is closed: otherwise it would get no answer and, if the process continues, would stay open."""
        self.admission.arrived(connection)
        if self._has_ended:
            connection.abort()

    def remove(self, connection: ServerConnection) -> None:
        """A connection has ended."""
        self.connections.pop(connection.id, None)
        if not self.connections and self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        self.request_memory.forget(connection.id)
        self.unauthenticated_memory.forget(connection.id)
        self.admission.left(connection)

    @property
    def accepted(self) -> int:
        """The number of connections since the start."""
        return self._next_id

    def hand_frames_to(self, handler: FrameHandler) -> None:
        """From now on `handler` gets the frames of all current and new connections. May be called in another thread."""
        self.dispatcher = handler
        for connection in list(self.connections.values()):
            connection.hand_frames_to(handler)

    def open(self, dispatcher: FrameHandler) -> None:
        """Starts to serve, including connections that arrived while the node was starting."""
        self.receive_buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self.hand_frames_to(dispatcher)
        for connection in list(self.connections.values()):
            connection.begin()

    def close(self) -> None:
        """Closes every connection after its written data; pending answers are dropped. No connection is served any
        more."""
        self._has_ended = True
        for connection in list(self.connections.values()):
            connection.close()

    def abort(self) -> None:
        """Drops every connection at once, like a crash."""
        self._has_ended = True
        for connection in list(self.connections.values()):
            connection.abort()

    def _arm_sweep(self) -> None:
        interval_ms = min(self.limits.sweep_interval_ms, max(1, self.limits.max_idle_ms // 4))
        due_ms = beat_ms(int(self.loop.time() * 1000), interval_ms)
        self._sweep_timer = self.loop.call_at(due_ms / 1000, self._sweep)

    def _sweep(self) -> None:
        now_ms = int(self.loop.time() * 1000)
        for connection in list(self.connections.values()):
            connection.sweep(now_ms)
        self._sweep_timer = None
        if self.connections:
            self._arm_sweep()
