"""The actions and results of a torture run's clients, and the problems found while it ran."""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict

Partition = tuple[str, int]


class Ledger:
    """Shared by all threads of a run. A problem is a sentence; a run without problems has passed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.problems: list[str] = []
        self.counts: dict[str, int] = defaultdict(int)
        self.offsets: dict[tuple[int, Partition], array[int]] = {}
        """By producer and partition: the acknowledged offset of record 0, 1, 2, ... of that producer there."""
        self.last_version: dict[bytes, int] = {}
        """By key of the compacted topic: the newest acknowledged version, negative for a tombstone."""

    def count(self, name: str, amount: int = 1) -> None:
        with self._lock:
            self.counts[name] += amount

    def problem(self, sentence: str) -> None:
        with self._lock:
            self.counts["problems"] += 1
            if len(self.problems) < 100:
                self.problems.append(sentence)
