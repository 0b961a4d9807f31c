"""What all fetches of a broker share: sessions, turns of the loop, and the bound on those that wait."""

from __future__ import annotations

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.replication.fetch_session import FetchSessions
from moldau.shell.broker.fetch_turns import FetchTurns
from moldau.shell.network.node_parts import NodeParts


class Fetches:
    """One per broker. `parked`: the fetches that wait now; at most `max_parked` wait. `max_bytes`: the largest answer
    (`fetch.max.bytes`)."""

    def __init__(self, settings: BrokerSettings, node: NodeParts) -> None:
        self.max_bytes = settings.fetch_max_bytes
        self.parked, self.max_parked = 0, settings.moldau_parked_fetches
        node.telemetry.held["moldau_parked_fetches"] = lambda: (self.parked, self.max_parked)
        self.turns = FetchTurns(node.loop)
        self.sessions = FetchSessions(
            settings.max_incremental_fetch_session_cache_slots,
            settings.moldau_fetch_session_memory_bytes,
            node.random.random_below,
            node.telemetry,
        )
