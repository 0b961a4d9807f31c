"""A request with its expected response, and the topics that such requests use."""

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
"""A name with the same metric names as PLAIN."""
NEW = "refused.new"
UNKNOWN = "refused.unknown"
UNKNOWN_ID = Uuid(b"\x07" * 16)
GROUP = "refused.group"
"""A simple group with a committed offset and without members."""
POSITION = 7
PARTITIONS = 2
"""The partitions of PLAIN. The other topics have one."""
BATCHES = 7
BATCH_RECORDS = 2
"""The number of batches of the first producer in partition 0 of PLAIN. They are followed by two batches of one record
from the second producer."""
END_OFFSET = BATCHES * BATCH_RECORDS + 2
LARGEST_BATCH = 5_000
"""`max.message.bytes` of PLAIN."""
BAD_NAMES = ("", ".", "..", "x" * 250, "refused/x", "refused x", "refused\n", "r\u00e9fused", "../../refused")
FAR_EPOCH = 1_000_000
"""A leader epoch that no story reaches."""


class Ground(msgspec.Struct):
    """The objects that the requests use: topics with records, and their producers."""

    topic_ids: dict[str, Uuid]
    producer_ids: tuple[int, int]
    now_ms: int
    directory: str
    """The path of the log directory, as the broker names it."""


def nothing_wrong(answer: Any) -> str:
    """For a response without anything to compare."""
    return ""


class Case(msgspec.Struct, frozen=True):
    """A request and its response. It is sent in one of `versions`, as far as the API has them."""

    name: str
    request: Request[Any]
    refusals: tuple[str, ...] = ()
    """The names of the error codes in the response, in order, without successes."""
    versions: tuple[int, int] = (0, 1 << 15)
    otherwise: tuple[str, ...] | None = None
    """An alternative to `refusals`."""
    fault: Callable[[Any], str] = nothing_wrong
    """Returns the error in the rest of the response, or ""."""


class FrameCase(msgspec.Struct, frozen=True):
    """Bytes that are not a request, on a separate connection. `answer`: the returned bytes. Then the connection closes
    if `is_closed`, or else stays open."""

    name: str
    data: bytes
    answer: bytes = b""
    is_closed: bool = True


def topics_to_create() -> tuple[CreatableTopic, ...]:
    """The topics of the ground."""
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
