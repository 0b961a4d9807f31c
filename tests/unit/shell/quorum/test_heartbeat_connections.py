"""After the end of a connection its broker is suspected only without a later heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from moldau.core.controller.requests import SuspectBroker
from moldau.shell.quorum.heartbeat_connections import HeartbeatConnections
from moldau.wire.protocol.messages.broker_lifecycle import BrokerHeartbeatRequest


class Connection:
    """The handler's view of a connection that may end."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.end: Callable[[bool], None] = lambda is_reset: None

    def when_lost(self, call: Callable[[bool], None]) -> None:
        self.end = call


def test_a_late_heartbeat_on_an_older_connection_counts_for_nothing() -> None:
    suspected: list[SuspectBroker] = []
    connections = HeartbeatConnections(suspected.append)
    older, newer = Connection(1), Connection(2)
    for connection in (older, newer, older):
        connections.heard(BrokerHeartbeatRequest(7, 5), cast(Any, connection))
    older.end(False)
    assert suspected == []
    newer.end(False)
    assert suspected == [SuspectBroker(7, 5)]
