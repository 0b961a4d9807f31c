"""The port where the other nodes of the quorum, and brokers, speak to this node's controller.

The port has connections, budgets and a table of APIs of its own: a flood of requests there does not stop the clients,
and the clients do not stop what comes there.
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
"""Of requests that arrive, and of answers that are not taken."""


class ControllerListener:
    """The listeners of one node: `open` takes the port of each, `serve` begins to answer, `close` ends them."""

    def __init__(
        self,
        limits: ConnectionLimits,
        admission: ConnectionAdmission,
        log: EventLog,
        telemetry: Telemetry,
        authentication: NodeAuthentication | None = None,
    ) -> None:
        """`authentication`: where a listener may ask for it."""
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
        """Gives the port, the real one where 0 was asked for. Raises OSError. Who connects waits for `serve`.
        `certified`: with `tls`."""
        asked = None if self._authentication is None else self._authentication.of_listener(endpoint.name, self._group)
        factory = partial(self._group.new_connection, endpoint.name, asked, certified)
        listener = await network.listen(endpoint.host, endpoint.port, factory, tls)
        self._listeners.append(listener)
        return listener.port

    @property
    def request_memory(self) -> RequestMemory:
        """The request memory that its dispatcher is made with."""
        return self._group.request_memory

    def serve(self, dispatcher: Dispatcher) -> None:
        """Begins to serve, also those who came before."""
        self._dispatcher = dispatcher
        self._group.open(dispatcher)

    def close(self) -> None:
        """Ends every connection after what is written."""
        self._end()
        self._group.close()

    def abort(self) -> None:
        """Ends every connection at once, as a crash does."""
        self._end()
        self._group.abort()

    def _end(self) -> None:
        for listener in self._listeners:
            listener.close()
        if self._dispatcher is not None:
            self._dispatcher.close()
