"""The rules of a quorum under all faults: Kafka's invariants of KRaft, and those of Raft's proof."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from moldau.core.log.log import Log
from moldau.core.metadata.snapshot import parse_snapshot_file_name
from moldau.core.raft.messages import FetchAnswer, SnapshotId, Vote
from moldau.core.raft.steps import QuorumState
from moldau.core.raft.voters import ReplicaKey, VoterSet, voter_sets_in
from moldau.ports import Disk
from moldau.simulation.replication.ledger import Ledger, ReplicaLedger, batches_of
from moldau.simulation.trace import Trace
from moldau.wire.records.batch import read_header


class QuorumLedger(Ledger):
    """The ledger of replicas, and in addition each vote, each epoch, and each leader's appends in an epoch."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._epochs: dict[ReplicaKey, int] = {}
        self._votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self._appended: dict[tuple[int, int], bytes] = {}
        """Each batch by its epoch and base offset. Both together determine its bytes in every log."""
        self._voter_sets: dict[int, list[VoterSet]] = {}
        """The voter sets in any log, by the offset of their record."""
        self._snapshot_epochs: dict[int, int] = {}
        self.snapshots = 0
        """The number of snapshots taken."""
        self.loads = 0
        """The number of snapshots that replaced a log."""

    def saved(self, node: ReplicaKey, state: QuorumState) -> None:
        """A node has made this state durable, and has not yet sent anything that depends on it."""
        name, epoch = f"node {node.node_id}", state.leader_epoch
        if epoch < self._epochs.get(node, 0):
            self.fail("epochs never go back", f"{name}: from {self._epochs[node]} to {epoch}")
        self._epochs[node] = epoch

    def voted(self, node: ReplicaKey, vote: Vote) -> None:
        """A node is about to cast this vote, or to request votes for itself."""
        if vote.is_pre_vote:
            return
        known = self._votes.setdefault((node, vote.leader_epoch), vote.candidate)
        if known != vote.candidate:
            self.fail(
                "one vote in an epoch",
                f"node {node.node_id} votes for {known} and {vote.candidate} in epoch {vote.leader_epoch}",
            )

    def told(self, name: str, known: int, answer: FetchAnswer) -> None:
        """A follower whose high watermark is `known` gets a response of its leader. A node of Apache Kafka stops if the
        high watermark would go back."""
        if not answer.error and 0 <= answer.high_watermark < known:
            leader = f"node {answer.leader_id} in epoch {answer.leader_epoch}"
            self.fail(
                "no leader tells a high watermark that goes back",
                f"{leader} tells {name} {answer.high_watermark} after {known}",
            )

    def extended(self, name: str, log: Log, start_offset: int) -> None:
        """The log of a node has new data from `start_offset` on, or had it at its start."""
        for base_offset, batch in batches_of(log, start_offset, log.log_end_offset).items():
            epoch = read_header(batch).partition_leader_epoch
            known = self._appended.setdefault((epoch, base_offset), batch)
            for offset, voters in voter_sets_in(batch):
                known_sets = self._voter_sets.setdefault(offset, [])
                if voters not in known_sets:
                    known_sets.append(voters)
            if known != batch:
                self.fail("logs match", f"{name} has another batch of epoch {epoch} at offset {base_offset}")

    def lost(self, name: str) -> None:
        """A node lost its disk."""
        self.replicas.pop(name, None)

    def voter_sets_ahead(self, first: VoterSet) -> Iterable[VoterSet]:
        """The voter sets that are in force, or may become so: the latest committed one, and all later ones."""
        committed = max((offset for offset in self._voter_sets if offset < self.committed_end_offset), default=-1)
        ahead = [voters for offset, sets in self._voter_sets.items() if offset >= committed for voters in sets]
        return ahead if committed >= 0 else [first, *ahead]

    def voters_change(self, name: str, epoch: int, latest_offset: int) -> None:
        """The leader of `epoch` is about to append a voter set. The one before is at `latest_offset`."""
        newest = next(reversed(self.committed.values()), None)
        committed_epoch = -1 if newest is None else read_header(newest).partition_leader_epoch
        if latest_offset >= self.committed_end_offset or committed_epoch < epoch:
            self.fail(
                "one change of voters at a time",
                f"{name}: in epoch {epoch} behind {latest_offset}, committed up to {self.committed_end_offset}",
            )

    def snapshot_taken(self, name: str, snapshot: SnapshotId) -> None:
        """A snapshot has only committed records, and all snapshots with the same end have the same epoch."""
        self.snapshots += 1
        if snapshot.end_offset > self.committed_end_offset:
            self.fail("a snapshot is of what is committed", f"{name}: {snapshot} of {self.committed_end_offset}")
        known = self._snapshot_epochs.setdefault(snapshot.end_offset, snapshot.epoch)
        if known != snapshot.epoch:
            self.fail("snapshots match", f"{name}: {snapshot}, another one is of epoch {known}")

    def replacing(self, name: str, snapshot: SnapshotId) -> None:
        """A snapshot begins to replace a log: after a crash one of the two exists."""
        replica = self.replicas[name]
        if replica.high_watermark > snapshot.end_offset:
            self.fail("nothing committed is truncated", f"{name}: {snapshot} below {replica.high_watermark}")
        replica.end_offset = min(replica.end_offset, snapshot.end_offset)
        replica.flushed_offset = min(replica.flushed_offset, snapshot.end_offset)

    def replaced(self, name: str, snapshot: SnapshotId) -> None:
        self.loads += 1
        self.trace.tell(f"{name} goes on behind the snapshot of {snapshot.end_offset}, epoch {snapshot.epoch}")
        self.replicas[name] = ReplicaLedger(*[snapshot.end_offset] * 3)

    def end_on_disk(self, disk: Disk, directory: str) -> int:
        parsed = [parse_snapshot_file_name(name) for name in disk.list_directory(directory)]
        ends = [end_offset for end_offset, _ in filter(None, parsed)]
        return max(super().end_on_disk(disk, directory), *ends, 0)

    def leadership_began(self, name: str, epoch: int, log: Log) -> None:
        """A new leader must have exactly the committed log, not only one as long."""
        super().leadership_began(name, epoch, log)
        if epoch < max(self.leaders):
            return
        batches = batches_of(log, log.log_start_offset, self.committed_end_offset)
        for base_offset, batch in self.committed.items():
            if base_offset >= log.log_start_offset and batches.get(base_offset) != batch:
                self.fail("a leader has what is committed", f"{name} differs at offset {base_offset}")

    def voter_changes(self) -> int:
        """The number of committed voter sets that differ from the one before."""
        records = (voter_sets_in(self.committed[offset]) for offset in sorted(self.committed))
        keys = [frozenset(voters.keys) for sets in records for _, voters in sets]
        return sum(before != after for before, after in pairwise(keys))

    def check_logs(self, logs: dict[str, Log]) -> None:
        """At the end the logs must be equal, and every acknowledged record must be at its offset."""
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
