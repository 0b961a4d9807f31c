"""Messages from clients of the simulation to nodes. Between nodes the messages are those of `core.raft`."""

from __future__ import annotations

import msgspec


class Write(msgspec.Struct, frozen=True):
    """To the leader: append a record with `value`, and answer when it is committed."""

    value: bytes


class WriteAnswer(msgspec.Struct, frozen=True):
    """`offset` of the record; -1 with an error. `leader_id`: the leader as this node knows it, -1 for none."""

    error: str
    leader_id: int
    offset: int = -1
