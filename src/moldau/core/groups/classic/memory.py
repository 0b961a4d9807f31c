"""The memory of the members of classic groups, bounded by `moldau.group.memory.bytes`.

Counts the data whose size clients choose: the ids of a member, its metadata for each protocol, its assignment, and its
subscription in the present generation if the member has sent a newer one.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from moldau.wire.protocol.messages.groups_classic import JoinGroupRequestProtocol

MEMBER_BYTES = 1_024
"""What a member takes beside its bytes, and what a member id takes that was handed out and has not come back."""
PROTOCOL_BYTES = 256
"""What a protocol of a member takes beside its bytes."""
UNBOUNDED = 1 << 62


def _nobody_counts(setting: str) -> None:
    """Outside of a node."""


class MemberMemory(msgspec.Struct):
    """The memory of group members, one for all coordinators of a node."""

    limit_bytes: int = UNBOUNDED
    used_bytes: int = 0
    bound_reached: Callable[[str], None] = _nobody_counts
    """Called with the setting, without `moldau.`, whose bound refused a request."""


def protocols_bytes(protocols: tuple[JoinGroupRequestProtocol, ...]) -> int:
    """The memory of a member's protocols, in bytes."""
    return sum(PROTOCOL_BYTES + len(protocol.name) + len(protocol.metadata) for protocol in protocols)
