"""The applied metadata log of this node: published when it is committed, taken back where logs diverge.

A leader applies its decisions, see controller; a follower applies fetched records, here.
"""

from __future__ import annotations

from moldau.core.log.log import Log
from moldau.core.metadata.batches import decode_record
from moldau.core.metadata.fold import MetadataFold
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.snapshot import QuorumControl, Snapshot
from moldau.core.raft.messages import SnapshotId
from moldau.core.raft.voters import VoterSet
from moldau.ports import Disk
from moldau.shell.quorum.metadata_log import LogReplay, fold_log
from moldau.shell.quorum.publisher import Publisher
from moldau.types import Buffer, Offset
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.record import read_records


class AppliedMetadata:
    """`fold`: every record of the log, including uncommitted ones; `publisher`: the committed ones."""

    def __init__(self, cluster_id: str, fold: MetadataFold) -> None:
        self.fold = fold
        self.publisher = Publisher(cluster_id)
        self._cluster_id = cluster_id

    @property
    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.publisher.image

    def reached(self, end_offset: int, leader_epoch: int) -> None:
        """Publishes the records folded since the last call once everything below `end_offset` is committed."""
        self.publisher.applied(self.fold.take_delta(Offset(end_offset), leader_epoch))

    def append(self, batches: Buffer) -> None:
        """On a follower: applies the leader's decisions. Raises ProtocolError, ValueError."""
        for position, header in iterate_batches(batches):
            records = read_records(memoryview(batches)[position : position + header.size])
            for record in records if not header.is_control else ():
                self.fold.apply(decode_record(record.value))
            self.reached(header.next_offset, header.partition_leader_epoch)

    def fold_again(self, disk: Disk, log: Log) -> None:
        """Takes back applied records that the log no longer holds: folds again from the committed offset to the end of
        `log`. Waits for the disk."""
        self.publisher.take_back()
        image = self.image
        self.fold.go_back_to(image)
        if image.end_offset == 0:
            fold_log(self.fold, disk, log)
        else:
            for item in LogReplay(log, image.end_offset, QuorumControl()).records():
                self.fold.apply(item.record)
        self.reached(log.log_end_offset, log.leader_epochs.latest_epoch)

    def folded(self, loaded: Snapshot, snapshot: SnapshotId) -> MetadataImage:
        """The image of `snapshot`, without a change of state. Raises ValueError for a record that cannot be applied."""
        fold = MetadataFold(self._cluster_id)
        for record in loaded.records:
            fold.apply(record)
        fold.take_delta(Offset(snapshot.end_offset), snapshot.epoch)
        return fold.image

    def load(self, loaded: Snapshot, snapshot: SnapshotId, image: MetadataImage) -> VoterSet | None:
        """Replaces the image by `image`, the result of `folded` for the committed `snapshot`, and sends the changes to
        subscribers. Returns the voters in the snapshot."""
        self.publisher.take_back()
        self.fold.go_back_to(image)
        self.publisher.applied(self.fold.image.delta_from(self.image))
        self.publisher.committed(snapshot.end_offset)
        return None if loaded.control.voters is None else VoterSet(loaded.control.voters.voters)
