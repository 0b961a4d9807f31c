"""The file `quorum-state`: this voter's epoch, its vote, and the leader (KIP-595, 853)."""

from __future__ import annotations

import msgspec

from moldau.core.metadata.snapshot import METADATA_DIRECTORY
from moldau.core.raft.steps import QuorumState
from moldau.core.raft.voters import ReplicaKey, VoterHistory
from moldau.errors import MoldauError
from moldau.ports import Disk
from moldau.types import uuid_from_text, uuid_to_text

QUORUM_STATE = f"{METADATA_DIRECTORY}/quorum-state"


class QuorumError(MoldauError):
    """This node cannot take part in the quorum; the message is one sentence for the operator."""


class _Voter(msgspec.Struct, frozen=True, rename="camel"):
    voter_id: int


class _FileVersion0(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of version 0, in Kafka's order."""

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int
    applied_offset: int
    current_voters: tuple[_Voter, ...] | None
    data_version: int = msgspec.field(name="data_version")


class _FileVersion1(msgspec.Struct, frozen=True, rename="camel"):
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str
    data_version: int = msgspec.field(name="data_version")


class _FileVersion(msgspec.Struct, frozen=True):
    data_version: int


def read_quorum_state(disk: Disk, path: str) -> QuorumState | None:
    """None if the file does not exist yet. Raises QuorumError for an unreadable file."""
    if not disk.exists(path):
        return None
    text = disk.read_file(path)
    try:
        version = msgspec.json.decode(text, type=_FileVersion).data_version
        if version == 0:
            old = msgspec.json.decode(text, type=_FileVersion0)
            voters = tuple(voter.voter_id for voter in old.current_voters or ())
            return QuorumState(old.leader_id, old.leader_epoch, old.voted_id, voter_ids=voters)
        if version == 1:
            new = msgspec.json.decode(text, type=_FileVersion1)
            uuid_from_text(new.voted_directory_id)
            return QuorumState(new.leader_id, new.leader_epoch, new.voted_id, new.voted_directory_id)
    except (msgspec.MsgspecError, ValueError) as error:
        raise QuorumError(f"{path} cannot be read: {error}") from error
    raise QuorumError(f"{path}: version {version} is not supported, only 0 and 1")


def write_quorum_state(disk: Disk, path: str, state: QuorumState) -> None:
    """Durable when it returns, because a vote and an epoch must never be forgotten. Waits, as `Disk.replace_file`."""
    content: _FileVersion0 | _FileVersion1
    if state.voter_ids is not None:
        voters = tuple(_Voter(voter_id) for voter_id in state.voter_ids)
        content = _FileVersion0("", state.leader_id, state.leader_epoch, state.voted_id, 0, voters, 0)
    else:
        content = _FileVersion1(state.leader_id, state.leader_epoch, state.voted_id, state.voted_directory_id, 1)
    disk.replace_file(path, msgspec.json.encode(content))


def check_voters(saved: QuorumState | None, voters: VoterHistory, node: ReplicaKey, *, is_alone: bool) -> None:
    """Raises QuorumError if this node, with this directory, cannot belong to the quorum: the only voter has another
    directory, or `quorum-state` has voters other than the configured ones. `is_alone`: no setting names other nodes, so
    this node cannot be an observer."""
    latest = voters.latest
    if latest.key_of(node) is None and latest.majority == 1 and latest.has_node(node.node_id):
        raise QuorumError(
            f"meta.properties says directory.id={uuid_to_text(node.directory_id)}, but the metadata log belongs to "
            f"the directory {uuid_to_text(latest.keys[0].directory_id)}: correct the line, or put the directory's own "
            "files back"
        )
    configured = sorted(key.node_id for key in latest.keys)
    known = None if saved is None or voters.kraft_version > 0 else saved.voter_ids
    if known is not None and sorted(known) != configured:
        names = ", ".join(str(voter) for voter in sorted(known))
        raise QuorumError(
            f"the voters of this cluster are {names}: controller.quorum.voters must name them, each with its address"
        )
    if is_alone and latest.key_of(node) is None and latest.majority == 1:
        names = ", ".join(str(key.node_id) for key in latest.keys)
        raise QuorumError(f"the voters of this cluster are {names}: node {node.node_id} is none of them")
