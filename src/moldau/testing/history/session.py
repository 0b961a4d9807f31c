"""State that all recording clients of one recorder share."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, TopicPartition

from moldau.testing.history import events
from moldau.testing.history.naming import Naming

REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError._NO_OFFSET,
    }
)
"""Errors after which for certain nothing was written. After any other one it may have been, by an attempt before the
one that failed: also where a record was purged from the queue, in which it may have waited for a retry."""


class Session:
    """`write` appends a line. `groups`: by the metadata that a consumer gave out the name of its group."""

    def __init__(self, write: Callable[[events.Event], None], naming: Naming) -> None:
        self.write, self.naming = write, naming
        self.groups: dict[bytes, str] = {}
        self._operations = itertools.count(1)

    def next_operation(self) -> int:
        """A number that no other operation of the session has, from 1 on."""
        return next(self._operations)

    def write_error(self, process: str, operation: int, error: KafkaError) -> None:
        """The operation ended with `error`: failed for certain (REFUSED), or with an unknown outcome."""
        ended = events.Failed if error.code() in REFUSED else events.Unknown
        self.write(ended(process=process, operation=operation, error=str(error), at_ms=now_ms()))

    def write_done(self, process: str, operation: int) -> None:
        """The operation was acknowledged."""
        self.write(events.Done(process=process, operation=operation, at_ms=now_ms()))


def now_ms() -> int:
    """The time of the line of a history: milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def partition_name(topic: str, partition: int) -> str:
    """A partition as histories name it: "orders-0"."""
    return f"{topic}-{partition}"


def offsets_of(positions: Iterable[TopicPartition]) -> dict[str, int]:
    """The offset of each partition, by its name; -1 where there is none."""
    return {partition_name(one.topic, one.partition): max(one.offset, -1) for one in positions}
