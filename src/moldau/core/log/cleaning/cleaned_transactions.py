"""Which transactional batches compaction may drop, in the order of offsets, by Kafka's rules.

Records of an aborted transaction are removed. A marker is removed when no records of its transaction precede it, and
only after its delete horizon, so that a reader in the middle of the transaction still sees its end.
"""

from __future__ import annotations

from moldau.core.log.files.transaction_index import AbortedTransaction


class CleanedTransactions:
    """`aborted`: every aborted transaction that overlaps the read range, in any order. One object for each pass."""

    __slots__ = ("_aborted_now", "_committed_now", "_next", "_waiting", "cleaned")

    def __init__(self, aborted: list[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset)
        self._next = 0
        self._aborted_now: dict[int, tuple[AbortedTransaction, bool]] = {}
        """By producer id: the aborted transaction in progress, and whether one of its batches was met."""
        self._committed_now: dict[int, None] = {}
        self.cleaned: list[AbortedTransaction] = []
        """For the transaction index of the cleaned segment: transactions whose markers stay. The owner empties it."""

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Whether the transactional data batch belongs to an aborted transaction."""
        self._begin_up_to(last_offset)
        found = self._aborted_now.get(producer_id)
        if found is None:
            self._committed_now[producer_id] = None
            return False
        self._aborted_now[producer_id] = (found[0], True)
        return True

    def is_marker_spare(self, producer_id: int, last_offset: int, *, is_commit: bool) -> bool:
        """Whether the end-of-transaction marker is no longer needed."""
        self._begin_up_to(last_offset)
        if is_commit:
            had_data = producer_id in self._committed_now
            self._committed_now.pop(producer_id, None)
            return not had_data
        found = self._aborted_now.pop(producer_id, None)
        if found is not None and found[1]:
            self.cleaned.append(found[0])
            return False
        return True

    def _begin_up_to(self, last_offset: int) -> None:
        while self._next < len(self._waiting) and self._waiting[self._next].first_offset <= last_offset:
            entry = self._waiting[self._next]
            self._next += 1
            self._aborted_now.setdefault(entry.producer_id, (entry, False))
