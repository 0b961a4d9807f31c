"""What must hold of a quorum, whatever fails: Kafka's invariants of KRaft, and those of Raft's proof."""

from __future__ import annotations

from moldau.core.log.log import Log
from moldau.core.raft.messages import Vote
from moldau.core.raft.steps import QuorumState
from moldau.core.raft.voters import ReplicaKey
from moldau.simulation.replication.ledger import Ledger, batches_of
from moldau.simulation.trace import Trace
from moldau.wire.records.batch import read_header


class QuorumLedger(Ledger):
    """What a ledger of replicas knows, and each vote, each epoch, and what a leader ever appended in one."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._epochs: dict[ReplicaKey, int] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._appended: dict[tuple[int, int], bytes] = {}
        """Each batch by its epoch and base offset: both together name its bytes, in every log."""

    def saved(self, node: ReplicaKey, state: QuorumState) -> None:
        """A node has made this durable, and has sent nothing yet that rests on it."""
        name, epoch = f"node {node.node_id}", state.leader_epoch
        if epoch < self._epochs.get(node, 0):
            self.fail("epochs never go back", f"{name}: from {self._epochs[node]} to {epoch}")
        self._epochs[node] = epoch

    def voted(self, node: ReplicaKey, vote: Vote) -> None:
        """A node is about to say that it votes so, or to ask for votes beside its own."""
        if vote.is_pre_vote:
            return
        known = self._votes.setdefault((node, vote.leader_epoch), vote.candidate)
        if known != vote.candidate:
            self.fail(
                "one vote in an epoch",
                f"node {node.node_id} votes for {known} and {vote.candidate} in epoch {vote.leader_epoch}",
            )

    def extended(self, name: str, log: Log, start_offset: int) -> None:
        """What begins at `start_offset` is new in the log of a node, or what it had when it started."""
        for base_offset, batch in batches_of(log, start_offset, log.log_end_offset).items():
            epoch = read_header(batch).partition_leader_epoch
            known = self._appended.setdefault((epoch, base_offset), batch)
            if known != batch:
                self.fail("logs match", f"{name} has another batch of epoch {epoch} at offset {base_offset}")

    def leadership_began(self, name: str, epoch: int, log: Log) -> None:
        """A leader has everything that is committed: not only as much of it."""
        super().leadership_began(name, epoch, log)
        if epoch < max(self.leaders):
            return
        batches = batches_of(log, log.log_start_offset, self.committed_end_offset)
        for base_offset, batch in self.committed.items():
            if base_offset >= log.log_start_offset and batches.get(base_offset) != batch:
                self.fail("a leader has what is committed", f"{name} differs at offset {base_offset}")

    def check_logs(self, logs: dict[str, Log]) -> None:
        """At the end, when all is quiet: the logs are equal, and every acknowledged record is in its place."""
        start_offset = max(log.log_start_offset for log in logs.values())
        batches = {name: batches_of(log, start_offset, log.log_end_offset) for name, log in logs.items()}
        first_name, first = next(iter(batches.items()))
        for name, found in batches.items():
            if found != first:
                self.fail("replicas are equal at the end", f"{first_name} and {name} differ")
        everything = {**self.committed, **first}
        for value, offset in self.acknowledged.items():
            batch = everything.get(offset)
            if batch is None or value not in batch:
                self.fail("acknowledged records survive", f"{value!r} is not at offset {offset}")
