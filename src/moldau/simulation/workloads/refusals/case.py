"""One request, and what the answer must be; the topics that such requests are aimed at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from moldau.errors import ERROR_NAMES
from moldau.simulation.workloads.client_loop import errors_of
from moldau.types import Uuid
from moldau.wire.protocol.messages.topics import CreatableTopic, CreatableTopicConfig
from moldau.wire.protocol.schema import Request

PLAIN = "refused.plain"
COMPACTED = "refused.compacted"
PACKED = "refused.packed"
COLLIDING = "refused_plain"
"""A name that has the same metric names as PLAIN."""
NEW = "refused.new"
UNKNOWN = "refused.unknown"
UNKNOWN_ID = Uuid(b"\x07" * 16)
GROUP = "refused.group"
"""A simple group with a position, and without members."""
POSITION = 7
PARTITIONS = 2
"""Of PLAIN; the other topics have one."""
BATCHES = 7
BATCH_RECORDS = 2
"""In partition 0 of PLAIN there are so many batches of the first producer; then two of one record, of the second."""
END_OFFSET = BATCHES * BATCH_RECORDS + 2
LARGEST_BATCH = 5_000
"""`max.message.bytes` of PLAIN."""
BAD_NAMES = ("", ".", "..", "x" * 250, "refused/x", "refused x", "refused\n", "r\u00e9fused", "../../refused")
FAR_EPOCH = 1_000_000
"""A leader epoch that no story comes to."""


class Ground(msgspec.Struct):
    """What the requests are aimed at: topics with records, and the producers of these."""

    topic_ids: dict[str, Uuid]
    producer_ids: tuple[int, int]
    now_ms: int
    directory: str
    """The path of the log directory, as the broker names it."""


def nothing_wrong(answer: Any) -> str:
    """For an answer that holds nothing to compare."""
    return ""


class Case(msgspec.Struct, frozen=True):
    """A request and its answer. It goes out in one of `versions`, as far as the API has them."""

    name: str
    request: Request[Any]
    refusals: tuple[str, ...] = ()
    """The names of the error codes in the answer, in its order; what was not refused is left out."""
    versions: tuple[int, int] = (0, 1 << 15)
    otherwise: tuple[str, ...] | None = None
    """What `refusals` may be just as well."""
    fault: Callable[[Any], str] = nothing_wrong
    """What is wrong with the rest of the answer, or ""."""


class FrameCase(msgspec.Struct, frozen=True):
    """Bytes that are no request, on a connection of their own. `answer`: what comes back; then the connection closes.
    None: the connection stays open, and `answer` comes first."""

    name: str
    data: bytes
    answer: bytes = b""
    is_closed: bool = True


def topics_to_create() -> tuple[CreatableTopic, ...]:
    """The ground of the requests."""
    flushed = CreatableTopicConfig("flush.messages", "1")
    return (
        CreatableTopic(
            PLAIN, PARTITIONS, 1, (), (flushed, CreatableTopicConfig("max.message.bytes", str(LARGEST_BATCH)))
        ),
        CreatableTopic(COMPACTED, 1, 1, (), (flushed, CreatableTopicConfig("cleanup.policy", "compact"))),
        CreatableTopic(
            PACKED,
            1,
            1,
            (),
            (
                flushed,
                CreatableTopicConfig("compression.type", "gzip"),
                CreatableTopicConfig("message.timestamp.type", "LogAppendTime"),
            ),
        ),
    )


def refusals_in(answer: object) -> tuple[str, ...]:
    """The names of `errors_of(answer)`."""
    return tuple(ERROR_NAMES.get(code, str(code)) for code in errors_of(answer))
