"""The ports of a cluster, kept from its first start to its last stop, so that a restart finds them free."""

from __future__ import annotations

import socket

from moldau.core.config.listeners import Endpoint


class HeldPorts:
    """Picks a port where 0 is asked for, and holds it with a socket that is bound and does not listen.

    Meanwhile clients are refused, as by any closed port, and the system gives the port to nobody else. The broker binds
    beside it: both allow it (SO_REUSEADDR), and only one of the two listens.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def choose(self, listeners: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """The listeners with their ports. Raises OSError where an address cannot be had."""
        return tuple(
            listener if listener.port else Endpoint(listener.name, listener.host, self._hold(listener.host))
            for listener in listeners
        )

    def _hold(self, host: str) -> int:
        # not getaddrinfo: it imports the tables of Unicode names for what is an address nearly always
        held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind((host or "0.0.0.0", 0))
        except OSError:
            held.close()
            raise
        self._sockets.append(held)
        return int(held.getsockname()[1])

    def release(self) -> None:
        """Closes the sockets: the system may give the ports to others from now on."""
        sockets, self._sockets = self._sockets, []
        for held in sockets:
            held.close()
