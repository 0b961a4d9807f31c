"""Applies the decisions of `core.quotas.connections`: serves a new connection, holds it unread, or ends it."""

from __future__ import annotations

import asyncio

from moldau.core.quotas.connections import ConnectionQuotas, Verdict
from moldau.ports import Clock
from moldau.shell.network.event_log import EventLog, escape
from moldau.shell.network.flow_control import Hold
from moldau.shell.network.server_connection import ServerConnection
from moldau.telemetry import BOUND_REACHED, Telemetry


class ConnectionAdmission:
    """One per group of connections, on its loop. A held connection costs only its socket, because nothing is read from
    it."""

    def __init__(
        self,
        quotas: ConnectionQuotas,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        log: EventLog,
        telemetry: Telemetry,
        *,
        max_open: int | None,
        protected_listener: str | None = None,
    ) -> None:
        """`max_open`: the number of connections, served or held, for which descriptors exist. `protected_listener`: the
        inter-broker listener, if clients have another one."""
        self.quotas = quotas
        self._max_open = max_open
        self._protected_listener = protected_listener
        self._loop = loop
        self._clock = clock
        self._log = log
        self._telemetry = telemetry
        self._waiting: dict[int, ServerConnection] = {}
        """By connection id, in order of arrival."""
        self._served: dict[int, None] = {}
        self._closing: dict[int, tuple[ServerConnection, asyncio.TimerHandle]] = {}
        """Connections over the rate of their address, held until they are closed; in order of arrival."""

    def arrived(self, connection: ServerConnection) -> None:
        """A connection was made and has its id."""
        listener = connection.listener_name
        is_protected = listener == self._protected_listener
        now_ms = self._clock.monotonic_ms()
        admission = self.quotas.arrived(connection.client_address, now_ms, listener, is_protected=is_protected)
        if not self._has_descriptor_for(admission.verdict):
            admission = self.quotas.no_room(admission, "open descriptors", listener)
        verdict = admission.verdict
        if verdict in (Verdict.SERVE, Verdict.SERVE_LATER):
            self._served[connection.id] = None
        if verdict is Verdict.SERVE:
            return
        self._telemetry.count(BOUND_REACHED, admission.reason)
        if verdict is Verdict.SERVE_LATER:
            connection.mute(admission.wait_ms)
            return
        connection.hold(Hold.NO_ROOM)
        if verdict is Verdict.WAIT_FOR_ROOM:
            self._waiting[connection.id] = connection
            return
        self._log.info(
            f"connection refused {admission.reason}",
            f"closed a connection of {escape(connection.client_address)} on {connection.listener_name}: "
            f"{admission.reason}",
            about=escape(connection.client_address),
        )
        if admission.wait_ms:
            timer = self._loop.call_later(admission.wait_ms / 1_000, connection.close)
            self._closing[connection.id] = connection, timer
        else:
            connection.close()

    def _has_descriptor_for(self, verdict: Verdict) -> bool:
        """Whether a connection with this verdict may be open. Rate-limited connections are held so that their clients
        come back later. They are closed first, the oldest before the others, when descriptors run short."""
        open_now = len(self._served) + len(self._waiting) + len(self._closing)
        if self._max_open is None or open_now < self._max_open:
            return True
        if verdict is Verdict.CLOSE or not self._closing:
            return False
        connection, timer = self._closing.pop(next(iter(self._closing)))
        timer.cancel()
        connection.close()
        return True

    def left(self, connection: ServerConnection) -> None:
        """A connection has ended: a waiting one may take its place."""
        was_served = self._served.pop(connection.id, 0) is None
        self._waiting.pop(connection.id, None)
        if connection.id in self._closing:
            _, timer = self._closing.pop(connection.id)
            timer.cancel()
        self.quotas.left(connection.client_address, connection.listener_name, was_served=was_served)
        self.let_in()

    def let_in(self) -> None:
        """Serves waiting connections, in order of arrival, as far as their listener has room."""
        full: dict[str, None] = {}
        for connection in list(self._waiting.values()) if self._waiting else ():
            listener = connection.listener_name
            if connection.is_closed:
                del self._waiting[connection.id]
                continue
            if listener in full:
                continue
            if self.quotas.room_was_found(listener, is_protected=listener == self._protected_listener):
                del self._waiting[connection.id]
                self._served[connection.id] = None
                connection.release(Hold.NO_ROOM)
            else:
                full[listener] = None

    def waiting(self) -> dict[str, int]:
        """The number of connections that wait for room, by listener."""
        counts: dict[str, int] = {}
        for connection in self._waiting.values():
            counts[connection.listener_name] = counts.get(connection.listener_name, 0) + 1
        return counts
