"""What writes the batches of a source in transactions: single records, or record batches of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(slots=True)
class Sent:
    """`size`: bytes of keys and values."""

    records: int = 0
    size: int = 0
    topics: set[str] = field(default_factory=set)

    def count(self, records: int, size: int, topics: Iterable[str]) -> None:
        self.records += records
        self.size += size
        self.topics.update(topics)


class Output(Protocol):
    def start(self) -> None:
        """Fences the tasks before this one and ends their transactions."""

    def write(self, rows: Iterator[Any]) -> Sent:
        """Begins a transaction, and sends the rows."""

    def commit(self, key: bytes, place: bytes) -> None:
        """Sends the place of the task, and ends the transaction."""

    def close(self) -> None:
        """Ends an open transaction."""
