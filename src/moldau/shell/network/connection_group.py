"""The connections of one node on one loop, and what they share."""

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
"""What a connection that comes before the node serves may send before it is read no further."""


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
        admission: ConnectionAdmission,
    ) -> None:
        """`admission`: who may come, and how many."""
        self.telemetry = telemetry
        self.admission = admission
        self.loop = loop
        self.dispatcher: FrameHandler | None = None
        """None until `open`: connections that come earlier wait, and are hardly read."""
        self.limits = limits
        self.request_memory = request_memory
        share_bytes = request_memory.limit_bytes // UNAUTHENTICATED_SHARE
        self.unauthenticated_memory = RequestMemory(share_bytes, telemetry, UNAUTHENTICATED_MEMORY)
        self.response_memory = response_memory
        self.log = log
        self.receive_buffer = bytearray(EARLY_BYTES)
        self.spares: list[bytearray] = []
        """Private buffers given back by connections, for the next long frame."""
        self.connections: dict[int, ServerConnection] = {}
        self._next_id = 0
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._has_ended = False

    def show_memory(self) -> None:
        """Makes what its requests hold a metric: of a node, that of the listeners of clients."""
        self.request_memory.show()
        self.unauthenticated_memory.show()

    def new_connection(
        self,
        listener_name: str,
        authenticator: Authenticator | None = None,
        certified: CertifiedPrincipal | None = None,
    ) -> ServerConnection:
        """The protocol of a connection that a listener has just accepted. `authenticator`: that of the listener.
        `certified`: of a listener with TLS."""
        return ServerConnection(self, listener_name, authenticator, certified)

    def add(self, connection: ServerConnection) -> int:
        """The connection's number, by which it is known until it is removed."""
        self._next_id += 1
        self.connections[self._next_id] = connection
        if self._sweep_timer is None:
            self._arm_sweep()
        return self._next_id

    def admit(self, connection: ServerConnection) -> None:
        """A connection was made, and has its id. One that was accepted just before the end, and comes here behind it,
        is ended too: nobody would answer it, and in a process that goes on nobody would close it."""
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
        """How many connections came since the start."""
        return self._next_id

    def hand_frames_to(self, handler: FrameHandler) -> None:
        """From now on `handler` gets the frames of all connections, also of those to come. May be called in another
        thread."""
        self.dispatcher = handler
        for connection in list(self.connections.values()):
            connection.hand_frames_to(handler)

    def open(self, dispatcher: FrameHandler) -> None:
        """Begins to serve, also those who came while the node was starting."""
        self.receive_buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self.hand_frames_to(dispatcher)
        for connection in list(self.connections.values()):
            connection.begin()

    def close(self) -> None:
        """Closes every connection after what is written; what is still owed is dropped. None is served any more."""
        self._has_ended = True
        for connection in list(self.connections.values()):
            connection.close()

    def abort(self) -> None:
        """Drops every connection at once, as a crash does."""
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
