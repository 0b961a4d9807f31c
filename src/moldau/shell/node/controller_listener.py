"""The listeners on which other nodes of the quorum, and brokers, reach this node's controller.

They have connections, memory budgets and an API table separate from the clients', so a flood of requests on one side
does not stop the other.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from moldau.core.config.listeners import Endpoint
from moldau.shell.network.admission import ConnectionAdmission
from moldau.shell.network.bounds import ConnectionLimits, RequestMemory, ResponseMemory
from moldau.shell.network.connection_group import ConnectionGroup
from moldau.shell.network.event_log import EventLog
from moldau.shell.network.reply import CertifiedPrincipal
from moldau.shell.node.authentication import NodeAuthentication
from moldau.telemetry import Telemetry
from moldau.transport.network import Listener, Network

if TYPE_CHECKING:
    from moldau.shell.network.dispatch import Dispatcher
    from moldau.transport.tls import ServerTls

MEMORY_BYTES = 64 << 20
"""Maximum memory of arriving requests and of unsent answers."""


class ControllerListener:
    """The controller's listeners of one node: `open` binds each port, `serve` starts to answer, `close` ends them."""

    def __init__(
        self,
        limits: ConnectionLimits,
        admission: ConnectionAdmission,
        log: EventLog,
        telemetry: Telemetry,
        authentication: NodeAuthentication | None = None,
    ) -> None:
        """`authentication`: for listeners that require it."""
        self._authentication = authentication
        self._group = ConnectionGroup(
            asyncio.get_running_loop(),
            limits,
            RequestMemory(MEMORY_BYTES, telemetry),
            ResponseMemory(MEMORY_BYTES, telemetry),
            log,
            telemetry,
            admission,
        )
        self._listeners: list[Listener] = []
        self._dispatcher: Dispatcher | None = None

    async def open(
        self,
        network: Network,
        endpoint: Endpoint,
        tls: ServerTls | None = None,
        certified: CertifiedPrincipal | None = None,
    ) -> int:
        """Returns the port, the actual one if 0 was requested. Raises OSError. Connections wait for `serve`.
        `certified`: with `tls`."""
        asked = None if self._authentication is None else self._authentication.of_listener(endpoint.name, self._group)
        factory = partial(self._group.new_connection, endpoint.name, asked, certified)
        listener = await network.listen(endpoint.host, endpoint.port, factory, tls)
        self._listeners.append(listener)
        return listener.port

    @property
    def request_memory(self) -> RequestMemory:
        """The request memory for its dispatcher."""
        return self._group.request_memory

    def serve(self, dispatcher: Dispatcher) -> None:
        """Starts to serve, including connections that already wait."""
        self._dispatcher = dispatcher
        self._group.open(dispatcher)

    def close(self) -> None:
        """Ends every connection after its written data."""
        self._end()
        self._group.close()

    def abort(self) -> None:
        """Ends every connection at once, like a crash."""
        self._end()
        self._group.abort()

    def _end(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self._dispatcher is not None:
            self._dispatcher.close()
