"""Tracks the connection of each broker's last heartbeat: if it ends, the broker may have died.

The death of a process ends its connections at once, long before the broker's session expires. A live broker soon sends
on another connection. Faults that do not end a connection (a stopped process or machine, a cut network) are left to the
session. After a cut, the network delivers late the data and the end of a connection that the broker has since replaced;
neither says anything about the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from moldau.core.controller.requests import SuspectBroker
from moldau.shell.network.reply import Reply
from moldau.wire.protocol.messages.broker_lifecycle import BrokerHeartbeatRequest


class HeartbeatConnections:
    """The connections of all brokers whose heartbeats this controller received from other nodes. Calls `suspect` for
    each suspicion."""

    def __init__(self, suspect: Callable[[SuspectBroker], None]) -> None:
        self._suspect = suspect
        self._connections: dict[int, int] = {}
        """The number of each broker's newest connection, even if it has ended."""

    def heard(self, request: BrokerHeartbeatRequest, reply: Reply) -> None:
        """The controller has accepted a heartbeat."""
        if reply.id < self._connections.get(request.broker_id, reply.id):
            return
        self._connections[request.broker_id] = reply.id
        reply.when_lost(partial(self._lost, request.broker_id, request.broker_epoch, reply.id))

    def _lost(self, broker_id: int, broker_epoch: int, connection_id: int, is_reset: bool) -> None:
        if self._connections.get(broker_id) == connection_id:
            self._suspect(SuspectBroker(broker_id, broker_epoch, is_reset))
