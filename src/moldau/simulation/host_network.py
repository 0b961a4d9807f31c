"""The Network of one simulated host."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.core.config.listeners import is_wildcard
from moldau.errors import MoldauError
from moldau.simulation.network import End, SimulatedListener, SimulatedNetwork

if TYPE_CHECKING:
    from moldau.transport.tls import ClientTls, ServerTls

_NO_TLS = "the simulated network has no TLS: its bytes would differ from run to run"


class HostNetwork:
    """The Network port of a process on `host`."""

    def __init__(self, network: SimulatedNetwork, host: str) -> None:
        self._network = network
        self._host = host

    async def listen(
        self,
        host: str,
        port: int,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        tls: ServerTls | None = None,
    ) -> SimulatedListener:
        if tls is not None:
            raise MoldauError(_NO_TLS)
        return await self._network.listen(self._host if is_wildcard(host) else host, port, protocol_factory)

    def client_tls(self, listener_name: str) -> None:
        """None: no listener uses TLS here."""

    def login_at(self, listener_name: str) -> None:
        """None: no listener needs a login here, except those of a `NetworkWithLogins` around this network."""

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol, tls: ClientTls | None = None) -> End:
        if tls is not None:
            raise MoldauError(_NO_TLS)
        return await self._network.connect(self._host, host, port, protocol, is_watched=True)
