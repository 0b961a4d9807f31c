"""The broker to ask instead, in Produce and Fetch responses (KIP-951, 392): values, and bytes for the fast paths."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

import msgspec

from moldau.wire.protocol.runtime import encode_string_length, encode_uvarint

_LEADER_BYTES = 9
_pack_leader = Struct(">BBBiix").pack
_pack_int = Struct(">i").pack


class CurrentLeader(msgspec.Struct, frozen=True):
    """The leader of a partition, as the broker knows; -1: none."""

    leader_id: int
    leader_epoch: int


class PreferredReadReplica(msgspec.Struct, frozen=True):
    """The replica that a consumer should read from."""

    broker_id: int


class LeaderNode(msgspec.Struct, frozen=True):
    """The address of a leader in the response."""

    node_id: int
    host: str
    port: int
    rack: str | None


def encode_current_leader(tag: int, leader: CurrentLeader) -> bytes:
    """The tagged fields of a partition, with the leader only."""
    return _pack_leader(1, tag, _LEADER_BYTES, leader.leader_id, leader.leader_epoch)


def encode_leader_nodes(nodes: Sequence[LeaderNode]) -> bytes:
    """The tagged fields of the response, with `nodes` (tag 0) only."""
    if not nodes:
        return b"\x00"
    parts = [encode_uvarint(len(nodes) + 1)]
    for node in nodes:
        parts += (_pack_int(node.node_id), _compact(node.host), _pack_int(node.port))
        parts += (b"\x00" if node.rack is None else _compact(node.rack), b"\x00")
    body = b"".join(parts)
    return b"\x01\x00" + encode_uvarint(len(body)) + body


def _compact(text: str) -> bytes:
    raw = text.encode()
    return encode_string_length(len(raw) + 1) + raw
