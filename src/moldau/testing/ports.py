"""The ports of a cluster, reserved from its first start to its last stop."""

from __future__ import annotations

import socket

from moldau.core.config.listeners import Endpoint
from moldau.transport.held_port import hold_port


class HeldPorts:
    """Picks a port where 0 is asked for, and holds it (see `hold_port`)."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def choose(self, listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """The listeners with their ports. Raises OSError where an address cannot be had."""
        return tuple(
            listener if listener.port else Endpoint(listener.name, listener.host, self._hold(listener.host))
            for listener in listeners
        )

    def _hold(self, host: str) -> int:
        held = hold_port(host)
        self._sockets.append(held)
        return int(held.getsockname()[1])

    def release(self) -> None:
        """Closes the sockets: the system may give the ports to others from now on."""
        sockets, self._sockets = self._sockets, []
        for held in sockets:
            held.close()
