"""The ports of a cluster, reserved from its first start to its last stop."""

from __future__ import annotations

import socket

from moldau.core.config.listeners import Endpoint
from moldau.transport.held_port import hold_port


class HeldPorts:
    """Picks a free port for each port 0, and holds it (see `hold_port`)."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def choose(self, listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """The listeners with their ports. Raises OSError if an address is not available."""
        return tuple(
            listener if listener.port else Endpoint(listener.name, listener.host, self._hold(listener.host))
            for listener in listeners
        )

    def _hold(self, host: str) -> int:
        held = hold_port(host)
        self._sockets.append(held)
        return int(held.getsockname()[1])

    def release(self) -> None:
        """Closes the sockets, after which the system may reuse the ports."""
        sockets, self._sockets = self._sockets, []
        for held in sockets:
            held.close()
