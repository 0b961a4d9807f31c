"""The shared parts of a story: its surroundings, the calls between hosts, the ledger, and the draws of its seed."""

from __future__ import annotations

from collections.abc import Callable

from moldau.core.log.settings import LogSettings
from moldau.core.raft.steps import QuorumSettings
from moldau.core.raft.voters import VoterSet, configured_voters
from moldau.simulation.host_story import HostStory
from moldau.simulation.loop import VirtualLoop
from moldau.simulation.raft.ledger import QuorumLedger
from moldau.types import Uuid
from moldau.wire.protocol.messages.raft_records import VotersRecordVoter


class Story(HostStory):
    """All values are drawn from `seed`, except for the number of first `voters` if it is given."""

    def __init__(
        self, seed: int, loop: VirtualLoop, write_line: Callable[[str], None] | None, voters: int | None = None
    ) -> None:
        super().__init__(seed, loop, write_line)
        self.ledger = QuorumLedger(self.trace)
        self._directories = 0
        choose = self.random_of("settings").choice
        drawn = choose((3, 3, 5))
        voter_ids = range(drawn if voters is None else voters)
        self.kraft_version = choose((0, 1))
        """0: the voters are static settings; 1: they may change."""
        self.node_ids = tuple(range(len(voter_ids) + 2 * self.kraft_version))
        if self.kraft_version == 0:
            self.first_voters = configured_voters(voter_ids)
        else:
            self.first_voters = VoterSet(
                tuple(VotersRecordVoter(each, self.new_directory_id(each)) for each in voter_ids)
            )
        self.quorum_settings = QuorumSettings(
            election_timeout_ms=choose((200, 1_000)),
            fetch_timeout_ms=choose((500, 2_000)),
            fetch_max_wait_ms=choose((20, 120)),
        )
        self.log_settings = LogSettings(
            segment_bytes=choose((1_500, 6_000, 1 << 20)),
            index_interval_bytes=choose((100, 4_096)),
            file_delete_delay_ms=0,
        )
        self.records_between_snapshots = choose((10, 60, 1_000_000))
        self.fetch_bytes = choose((500, 5_000))
        self.flush_delay_ms = choose((3, 30, 300))
        self.think_ms = choose((20, 100))
        self.calls.loss_share = choose((0.0, 0.01))

    def new_directory_id(self, node_id: int) -> Uuid:
        """A new id for the next disk of a node."""
        self._directories += 1
        return Uuid(bytes((*bytes(14), node_id, self._directories)))
