"""The memory of the members of classic groups, bounded by `moldau.group.memory.bytes`.

Counts the data whose size clients choose: the ids of a member, its metadata for each protocol, its assignment, and its
subscription in the present generation if the member has sent a newer one.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moldau.wire.protocol.messages.groups_classic import JoinGroupRequestProtocol

MEMBER_BYTES = 1_024
"""The memory of a member besides its counted bytes, and of an unused member id."""
PROTOCOL_BYTES = 256
"""The memory of a member's protocol besides its counted bytes."""
UNBOUNDED = 1 << 62


def _nobody_counts(setting: str) -> None:
    """For tests and other uses outside of a node."""


class MemberMemory(msgspec.Struct):
    """The memory of group members, one for all coordinators of a node."""

    limit_bytes: int = UNBOUNDED
    used_bytes: int = 0
    bound_reached: Callable[[str], None] = _nobody_counts
    """Called when a bound rejects a request, with the name of the setting without `moldau.`."""


def protocols_bytes(protocols: tuple[JoinGroupRequestProtocol, ...]) -> int:
    """The memory of a member's protocols, in bytes."""
    return sum(PROTOCOL_BYTES + len(protocol.name) + len(protocol.metadata) for protocol in protocols)
