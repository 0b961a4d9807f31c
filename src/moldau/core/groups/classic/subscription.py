"""What the members of a "consumer" group say they read (the consumer protocol's Subscription, v0-3)."""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812

_unpack_short = Struct(">h").unpack_from
_unpack_int = Struct(">i").unpack_from


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """The topics of one member; None if the bytes are no subscription. All versions begin alike; the rest is unread."""
    try:
        (version,) = _unpack_short(metadata, 0)
        (count,) = _unpack_int(metadata, 2)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        topics = []
        position = 6
        for _ in range(count):
            (size,) = _unpack_short(metadata, position)
            end = position + 2 + size
            if size < 0 or end > len(metadata):
                return None
            topics.append(metadata[position + 2 : end].decode("utf-8", "replace"))
            position = end
    except StructError:
        return None
    return tuple(topics)
