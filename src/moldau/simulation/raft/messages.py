"""What a client of the simulation says to a node: the nodes among themselves speak the messages of `core.raft`."""

from __future__ import annotations

import msgspec


class Write(msgspec.Struct, frozen=True):
    """To the leader: append a record with `value`, and answer when it is committed."""

    value: bytes


class WriteAnswer(msgspec.Struct, frozen=True):
    """`offset` of the record; -1 with an error. The leader as far as this node knows, -1 for none."""

    error: str
    leader_id: int
    offset: int = -1
