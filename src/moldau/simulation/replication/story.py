"""The shared parts of a story: its surroundings, the calls between hosts, the ledger, and the draws of its seed."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.log.settings import LogSettings
from moldau.core.replication.steps import ReplicationSettings
from moldau.simulation.host_story import HostStory
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.replication.ledger import Ledger


class Story(HostStory):
    """All values are drawn from `seed`."""

    def __init__(self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None) -> None:
        super().__init__(seed, loop, write_line)
        self.ledger = Ledger(self.trace)
        choose = self.random_of("settings").choice
        self.replicas = tuple(range(choose((2, 3, 3))))
        self.allows_unclean_election = choose((False,) * 7 + (True,))
        self.replication_settings = ReplicationSettings(
            min_insync_replicas=len(self.replicas) - 1,
            replica_lag_time_max_ms=choose((400, 1_500)),
            replica_fetch_backoff_ms=choose((50, 300)),
            waits_for_flush=choose((False, False, True)),
        )
        self.log_settings = LogSettings(
            segment_bytes=choose((1_500, 6_000, 1 << 20)),
            index_interval_bytes=choose((100, 4_096)),
            flush_messages=1 if self.replication_settings.waits_for_flush else LogSettings().flush_messages,
        )
        self.flush_interval_ms = choose((300, 1_500, 10_000))
        self.think_ms = choose((40, 200))
        self.flush_delay_ms = choose((3, 300))
        self.calls.loss_share = choose((0.0, 0.01))
        self.session_timeout_ms = choose((500, 1_500))
        self._producer_ids = 0

    def next_producer_id(self) -> int:
        self._producer_ids += 1
        return self._producer_ids
