"""The network door, and its real form: TCP listeners of the running loop.

The simulated form (`moldau.simulation.network`) feeds the same protocol class byte by byte.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Protocol


class Listener(Protocol):
    """An open port. `port` is the real one where 0 was asked for."""

    host: str
    port: int

    def close(self) -> None:
        """Accepts nothing more; open connections stay."""
        ...


class Network(Protocol):
    """Where connections come from."""

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> Listener:
        """Opens a port; `host` "" means every address. Raises OSError where that cannot be had."""
        ...


class TcpListener:
    """See Listener."""

    def __init__(self, host: str, server: asyncio.Server) -> None:
        self.host = host
        self._server = server
        self.port = int(server.sockets[0].getsockname()[1])

    def close(self) -> None:
        self._server.close()

    def close_in_child(self) -> None:
        """After a fork, in the child: gives up its copies of the sockets, without a word to the loop."""
        for server_socket in self._server.sockets:
            with_fileno = server_socket.fileno()
            if with_fileno >= 0:
                os.close(with_fileno)


class TcpNetwork:
    """Real sockets on the running loop."""

    def __init__(self, backlog: int = 128) -> None:
        self._backlog = backlog

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> TcpListener:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(protocol_factory, host or None, port, backlog=self._backlog)
        return TcpListener(host, server)
