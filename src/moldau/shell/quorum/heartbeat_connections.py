"""On which connection each broker sent its last heartbeat: where it ends, the broker may have died.

The death of a process ends its connections at once, long before the broker's session. A live broker soon sends on
another connection. What does not end a connection (a process or a machine that stands still, a cut network) is
left to the session. A network that was cut delivers late what was sent on a connection that the broker has replaced
since, and its end: neither says anything of the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from moldau.core.controller.requests import SuspectBroker
from moldau.shell.network.reply import Reply
from moldau.wire.protocol.messages.broker_lifecycle import BrokerHeartbeatRequest


class HeartbeatConnections:
    """The connections of all brokers whose heartbeats this controller took from other nodes. `suspect` gets each
    suspicion."""

    def __init__(self, suspect: Callable[[SuspectBroker], None]) -> None:
        self._suspect = suspect
        self._connections: dict[int, int] = {}
        """Of each broker, the number of its newest connection, also when that has ended."""

    def heard(self, request: BrokerHeartbeatRequest, reply: Reply) -> None:
        """The controller has taken a heartbeat."""
        if reply.id < self._connections.get(request.broker_id, reply.id):
            return
        self._connections[request.broker_id] = reply.id
        reply.when_lost(partial(self._lost, request.broker_id, request.broker_epoch, reply.id))

    def _lost(self, broker_id: int, broker_epoch: int, connection_id: int, is_reset: bool) -> None:
        if self._connections.get(broker_id) == connection_id:
            self._suspect(SuspectBroker(broker_id, broker_epoch, is_reset))
