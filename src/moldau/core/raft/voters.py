"""The voters of the quorum, their majority, and the set in force (KIP-853).

A set is in force as soon as its VotersRecord is in the log, committed or not. A truncation undoes it. Configured voters
(`controller.quorum.voters`) have no record and no directories, and never change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from moldau.core.metadata.snapshot import QuorumControl
from moldau.types import ZERO_UUID, BrokerId, Buffer, Uuid
from moldau.wire.protocol.codec import decode_message
from moldau.wire.protocol.messages.raft_records import Endpoint, VotersRecord, VotersRecordVoter
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.control import ControlType, decode_control_key
from moldau.wire.records.record import read_records


class ReplicaKey(msgspec.Struct, frozen=True):
    """A node and its metadata directory. With another directory it is another voter, because it forgot its votes.
    ZERO_UUID in a voter set: any directory."""

    node_id: BrokerId
    directory_id: Uuid = ZERO_UUID


class VoterSet(msgspec.Struct, frozen=True):
    """The voters, in the order of their record."""

    voters: tuple[VotersRecordVoter, ...]

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        """The node id and directory id of each voter, in the order of the record."""
        return tuple(ReplicaKey(BrokerId(each.voter_id), each.voter_directory_id) for each in self.voters)

    @property
    def majority(self) -> int:
        """The number of voters in a majority."""
        return len(self.voters) // 2 + 1

    def key_of(self, replica: ReplicaKey) -> ReplicaKey | None:
        """The key of `replica` in this set; None: no voter."""
        for key in self.keys:
            if key.node_id == replica.node_id and key.directory_id in (ZERO_UUID, replica.directory_id):
                return key
        return None

    def others(self, replica: ReplicaKey) -> tuple[ReplicaKey, ...]:
        """All voters but `replica`."""
        own = self.key_of(replica)
        return tuple(key for key in self.keys if key != own)

    def has_node(self, node_id: int) -> bool:
        """Whether a voter has this node id, with any directory."""
        return any(voter.voter_id == node_id for voter in self.voters)

    def with_voter(self, voter: VotersRecordVoter) -> VoterSet:
        """The set with `voter` added, or replacing the one with its id."""
        if not self.has_node(voter.voter_id):
            return VoterSet((*self.voters, voter))
        return VoterSet(tuple(voter if each.voter_id == voter.voter_id else each for each in self.voters))

    def without(self, key: ReplicaKey) -> VoterSet:
        """The set without the voter of this node id, with any directory."""
        return VoterSet(tuple(each for each in self.voters if each.voter_id != key.node_id))


def configured_voters(node_ids: Iterable[int], endpoints: Mapping[int, Endpoint] | None = None) -> VoterSet:
    """The voters of `controller.quorum.voters`. `endpoints`: their addresses, if others are to be asked."""
    known = endpoints or {}
    return VoterSet(
        tuple(
            VotersRecordVoter(node_id, endpoints=(known[node_id],) if node_id in known else ()) for node_id in node_ids
        )
    )


class VoterHistory:
    """The voter sets in the log, each with the offset of its record. `kraft_version` 0: the voters are configured."""

    def __init__(self, voters: VoterSet, kraft_version: int = 0, offset: int = -1) -> None:
        self._first_kraft_version = kraft_version
        self._entries = [(offset, voters)]

    @property
    def kraft_version(self) -> int:
        """1 if a record names voters, so they are no longer configured."""
        return max(self._first_kraft_version, int(len(self._entries) > 1))

    @property
    def latest(self) -> VoterSet:
        """The set of voters in force."""
        return self._entries[-1][1]

    @property
    def latest_offset(self) -> int:
        """The offset of the record of the set in force. At the high watermark or above, the change is not committed."""
        return self._entries[-1][0]

    def may_stand(self, replica: ReplicaKey, high_watermark: int) -> bool:
        """Whether `replica` may lead: it is a voter, or was one before a change that may be uncommitted. Until the
        commit only such a node may have all records that voters require of a leader (Raft dissertation, 4.2.2)."""
        considered = self._entries[-2:] if self.latest_offset >= high_watermark else self._entries[-1:]
        return any(voters.key_of(replica) is not None for _, voters in considered)

    def control_at(self, end_offset: int) -> QuorumControl:
        """The voters in a snapshot with this end offset. At 0: those that the first leader of a cluster writes."""
        if self.kraft_version == 0:
            return QuorumControl()
        in_force = next(voters for offset, voters in reversed(self._entries) if offset < end_offset)
        return QuorumControl(self.kraft_version, VotersRecord(voters=in_force.voters))

    def append(self, entries: Iterable[tuple[int, VoterSet]]) -> None:
        """Adds the voter sets of new records, each at its offset. Known sets are ignored."""
        self._entries.extend(entry for entry in entries if entry[0] > self.latest_offset)

    def truncate_to(self, offset: int) -> None:
        """The log ends at `offset`. The set from a snapshot stays."""
        self._entries = [self._entries[0], *(entry for entry in self._entries[1:] if entry[0] < offset)]

    def restart(self, end_offset: int, voters: VoterSet) -> None:
        """A snapshot with this end offset has replaced the log."""
        self._first_kraft_version = 1
        self._entries = [(end_offset - 1, voters)]


def voter_sets_in(batches: Buffer) -> Iterator[tuple[int, VoterSet]]:
    """The voter sets in whole batches of the metadata log, with their offsets."""
    for position, header in iterate_batches(batches):
        if not header.is_control:
            continue
        for record in read_records(memoryview(batches)[position : position + header.size]):
            if decode_control_key(record.key) is ControlType.KRAFT_VOTERS and record.value is not None:
                yield record.offset, VoterSet(decode_message(VotersRecord, 0, record.value)[0].voters)
