"""A record as handlers get it, its message id, and the headers of its copies in a retry topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
"""Topic and number."""
Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]

REASON, TOPIC, PARTITION, OFFSET = "moldau.reason", "moldau.topic", "moldau.partition", "moldau.offset"
"""As in the dead letters of pipelines; topic, partition and offset are those of the first record."""
CONSUMER, ATTEMPT, DUE_MS, ID = "moldau.consumer", "moldau.attempt", "moldau.due-ms", "moldau.id"


@dataclass(frozen=True, slots=True)
class Record:
    """One record, the same for every client. `timestamp_ms` is -1 if it has none."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = -1

    def header(self, name: str) -> bytes | None:
        """The last header of this name; None if there is none."""
        return next((value for one, value in reversed(self.headers) if one == name), None)

    @property
    def place(self) -> Partition:
        """Its partition."""
        return self.topic, self.partition

    @property
    def position(self) -> bytes:
        """Topic, partition and offset, as an id."""
        return f"{self.topic}-{self.partition}-{self.offset}".encode()

    @property
    def attempt(self) -> int:
        """0 for a record of its own topic, n for its nth copy in the retry topic."""
        return int(self.header(ATTEMPT) or 0)


MessageId: TypeAlias = Callable[[Record], bytes | None]
"""Gives the id of a record; None: it has none."""


def by_header(name: str) -> MessageId:
    """The id is the value of a header, unique in the topic."""
    return lambda record: record.header(name)


def by_key(record: Record) -> bytes | None:
    """The id is the key: each key of the topic is handled once."""
    return record.key


def by_position(record: Record) -> bytes | None:
    """The id is topic, partition and offset: a record that its producer wrote twice is handled twice."""
    return record.position
