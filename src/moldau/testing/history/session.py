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
"""Errors after which the record was certainly not written. After any other error it may have been written by an attempt
before the one that failed. That includes a record purged from the queue, which may have waited there for a retry."""


class Session:
    """`write` appends a line. `groups`: the name of the group, by the metadata that a consumer returned."""

    def __init__(self, write: Callable[[events.Event], None], naming: Naming) -> None:
        self.write, self.naming = write, naming
        self.groups: dict[bytes, str] = {}
        self._operations = itertools.count(1)

    def next_operation(self) -> int:
        """A number that no other operation of the session has, from 1."""
        return next(self._operations)

    def write_error(self, process: str, operation: int, error: KafkaError) -> None:
        """The operation ended with `error`: failed for certain (REFUSED), or with an unknown outcome."""
        ended = events.Failed if error.code() in REFUSED else events.Unknown
        self.write(ended(process=process, operation=operation, error=str(error), at_ms=now_ms()))

    def write_done(self, process: str, operation: int) -> None:
        """The operation was acknowledged."""
        self.write(events.Done(process=process, operation=operation, at_ms=now_ms()))


def now_ms() -> int:
    """The time for a line of a history, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def partition_name(topic: str, partition: int) -> str:
    """The name of a partition in histories, such as "orders-0"."""
    return f"{topic}-{partition}"


def offsets_of(positions: Iterable[TopicPartition]) -> dict[str, int]:
    """The offset of each partition by name; -1 without an offset."""
    return {partition_name(one.topic, one.partition): max(one.offset, -1) for one in positions}
