"""What all hosts of a story share: its surroundings, the calls between hosts, the ledger, and what its seed draws."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.log.settings import LogSettings
from moldau.core.raft.steps import QuorumSettings
from moldau.simulation.host_story import HostStory
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.raft.ledger import QuorumLedger


class Story(HostStory):
    """Everything is drawn from `seed`."""

    def __init__(self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None) -> None:
        super().__init__(seed, loop, write_line)
        self.ledger = QuorumLedger(self.trace)
        choose = self.random_of("settings").choice
        self.node_ids = tuple(range(choose((3, 3, 5))))
        self.quorum_settings = QuorumSettings(
            election_timeout_ms=choose((200, 1_000)),
            fetch_timeout_ms=choose((500, 2_000)),
            fetch_max_wait_ms=choose((50, 400)),
        )
        self.log_settings = LogSettings(
            segment_bytes=choose((1_500, 6_000, 1 << 20)), index_interval_bytes=choose((100, 4_096))
        )
        self.fetch_bytes = choose((500, 5_000))
        self.flush_delay_ms = choose((3, 30, 300))
        self.think_ms = choose((20, 100))
        self.calls.loss_share = choose((0.0, 0.01))
