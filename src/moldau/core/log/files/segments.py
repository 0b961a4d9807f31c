"""The segments of one log, from the oldest to the active one, and the names of their files.

Only this module creates, deletes (retention), replaces (compaction) and moves segments, so that the total size, the
cache of indexes and the count of changed names are right. The log decides when, and handles errors of the disk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from moldau.core.log.cleaning.retention import DeletedSegment, remove_files, rename_deleted
from moldau.core.log.cleaning.swap import swap_in
from moldau.core.log.files.segment import (
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    IndexCache,
    Segment,
    load_transactions,
    segment_file_name,
    write_whole_file,
)
from moldau.core.log.files.transaction_index import AbortedTransaction, encode_transactions
from moldau.core.log.producer_state import ProducerState
from moldau.core.log.settings import LogSettings
from moldau.ports import Disk

if TYPE_CHECKING:
    from moldau.core.log.cleaning.compaction import CleanedSegment, CompactionPlan

RECENT_BATCHES = 32
"""The number of remembered batch boundaries near the end: consumers at the tail read from one of them."""

NO_POSITIONS: dict[int, int] = {}
"""The remembered positions of a segment other than the active one: none."""

base_offset_of = attrgetter("base_offset")
_last_offset_of = attrgetter("last_offset")


class Segments:
    """The segments of one log, for the loop."""

    __slots__ = (
        "_deleted",
        "_disk",
        "_flushed_names_version",
        "_index_cache",
        "_sealed_bytes",
        "_snapshot_offset",
        "active",
        "directory",
        "in_order",
        "is_clean",
        "names_version",
        "recent",
    )

    def __init__(self, disk: Disk, directory: str, index_cache: IndexCache) -> None:
        self._disk = disk
        self._index_cache = index_cache
        self.directory = directory
        self.in_order: list[Segment] = []
        self.active: Segment | None = None
        """The last segment, which gets the appends."""
        self.recent: dict[int, int] = {}
        """Positions of batches in the active segment, by base offset."""
        self.is_clean = False
        """Whether the files are unchanged since a clean stop."""
        self.names_version = 0
        """Increases with each created, renamed or removed file: the next flush then includes the directory."""
        self._flushed_names_version = 0
        self._sealed_bytes = 0
        self._snapshot_offset = -1
        self._deleted: list[DeletedSegment] = []

    def adopt(self, loaded: list[Segment], *, is_clean: bool) -> None:
        """Takes the segments that were read from the disk, replacing the known ones."""
        self.in_order = loaded
        self.is_clean = is_clean
        if not is_clean:
            # the dead process may have created files whose names are only in the page cache, and so has a truncation
            self.names_version += 1
        self.recent.clear()
        self.active = loaded[-1] if loaded else None
        self._sealed_bytes = sum(segment.size for segment in loaded[:-1])
        self._snapshot_offset = -1

    @property
    def size_bytes(self) -> int:
        """The bytes of all `.log` files, the active segment included."""
        return self._sealed_bytes + (self.active.size if self.active is not None else 0)

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end). A marker may be several segments after its records, so
        the search continues until an entry says that every transaction before the end has ended."""
        found: list[AbortedTransaction] = []
        for segment in self.in_order:
            if segment.next_offset <= start_offset:
                continue
            entries = load_transactions(segment)
            # the entries are in the order of their markers
            for place in range(bisect_left(entries, start_offset, key=_last_offset_of), len(entries)):
                entry = entries[place]
                if entry.first_offset < end_offset:
                    found.append(entry)
                if entry.last_stable_offset >= end_offset:
                    return found
        return found

    # --- growing ---

    def begin(self, base_offset: int, now_ms: int, settings: LogSettings) -> Segment:
        """Seals the active segment and adds an empty one. Raises StorageFullError, StorageFailedError without a
        change."""
        segment = Segment.create(self._disk, self.directory, base_offset, now_ms, settings)
        if base_offset > 0:
            # only the file name has the log start of an empty log
            _ = segment.file
        if self.active is not None:
            self.active.seal()
            self._sealed_bytes += self.active.size
        self.in_order.append(segment)
        self.active = segment
        self.recent.clear()
        self.names_version += 1
        return segment

    def roll(self, base_offset: int, producers: ProducerState, now_ms: int, settings: LogSettings) -> Segment:
        """As `begin` after records, with the producer snapshot of the new segment."""
        self.save_snapshot(base_offset, producers)
        return self.begin(base_offset, now_ms, settings)

    def append_aborted(self, segment: Segment, entries: Sequence[AbortedTransaction]) -> None:
        """Adds the aborts of markers in `segment` to its transaction index, in the page cache only. Raises
        StorageFullError without a change."""
        if not entries:
            return
        known = load_transactions(segment)
        file = self._disk.open(segment.path(TRANSACTION_INDEX_SUFFIX))
        try:
            file.append(encode_transactions(entries))
        finally:
            file.close()
        if not known:
            self.names_version += 1
        known.extend(entries)

    def begin_anew(self, base_offset: int, now_ms: int, settings: LogSettings) -> None:
        """As `begin`; earlier segments are no longer part of the log."""
        self.begin(base_offset, now_ms, settings)
        self.delete_oldest(len(self.in_order) - 1, now_ms + settings.file_delete_delay_ms)

    def save_snapshot(self, end_offset: int, producers: ProducerState) -> None:
        """The producers at the log end, in the page cache. A FlushPlan makes it durable."""
        if self._snapshot_offset == end_offset:
            return
        path = f"{self.directory}/{segment_file_name(end_offset, SNAPSHOT_SUFFIX)}"
        write_whole_file(self._disk, path, producers.encode())
        self._snapshot_offset = end_offset
        self.names_version += 1

    def make_dirty(self) -> None:
        """Call it before the first append after a clean stop."""
        self.is_clean = False
        if self.active is not None:
            self.active.remove_index_files()
        self.names_version += 1

    # --- going ---

    def delete_oldest(self, count: int, purge_at_ms: int) -> list[DeletedSegment]:
        """Renames the files of the first `count` segments to `*.deleted`. The active one is not among them."""
        old, self.in_order[:count] = self.in_order[:count], []
        deleted = rename_deleted(old, end_offset=self.in_order[0].base_offset, purge_at_ms=purge_at_ms)
        self._gone(old, deleted)
        return deleted

    def replace(self, plan: CompactionPlan, cleaned: CleanedSegment, purge_at_ms: int) -> bool:
        """Replaces segments by their cleaned one; False if one of them is missing."""
        first = bisect_left(self.in_order, cleaned.base_offset, key=base_offset_of)
        old = self.in_order[first : first + len(cleaned.replaced)]
        behind = self.in_order[first + len(old) :]
        is_same = [segment.base_offset for segment in old] == list(cleaned.replaced)
        if not is_same or not behind or self.directory != plan.directory:
            return False
        end_offset = behind[0].base_offset
        self._purge_deleted(cleaned.base_offset, end_offset)
        new, deleted = swap_in(plan, cleaned, old, end_offset, purge_at_ms)
        self.in_order[first : first + len(old)] = [new]
        self._gone(old, [deleted])
        self._sealed_bytes += new.size
        return True

    def _gone(self, old: Sequence[Segment], deleted: Sequence[DeletedSegment]) -> None:
        for segment in old:
            self._index_cache.drop(segment)
            self._sealed_bytes -= segment.size
        self._deleted.extend(deleted)
        self.names_version += 1

    def _purge_deleted(self, base_offset: int, end_offset: int) -> None:
        """Removes now the files that an earlier swap in this range replaced. If a start finds the new swap damaged, it
        restores all `.deleted` files in its range."""
        kept: list[DeletedSegment] = []
        for deleted in self._deleted:
            if base_offset <= deleted.base_offset < end_offset:
                remove_files(self._disk, deleted.paths)
            else:
                kept.append(deleted)
        self._deleted = kept

    def take_purgeable(self, now_ms: int) -> list[str]:
        """The files of deleted segments whose delay is over."""
        due: list[str] = []
        while self._deleted and self._deleted[0].purge_at_ms <= now_ms:
            due.extend(self._deleted.pop(0).paths)
        return due

    def move_to(self, directory: str) -> None:
        """The directory has a new name. Raises StorageFailedError."""
        for segment in self.in_order:
            segment.move_to(directory)
        self._disk.rename(self.directory, directory)
        self.directory = directory
        for segment in self.in_order:
            if segment.size:
                _ = segment.file  # a flush skips segments without a file
        self.names_version += 1
        self._snapshot_offset = -1

    def drop_cached_indexes(self) -> None:
        """Drops the cached indexes, because the segments will be cut."""
        for segment in self.in_order:
            self._index_cache.drop(segment)

    # --- durability ---

    @property
    def unsaved(self) -> list[Segment]:
        """Sealed segments without index files."""
        return [segment for segment in self.in_order[:-1] if not segment.is_index_saved]

    @property
    def unflushed_names_version(self) -> int | None:
        """The version of unflushed names; None: all names are flushed."""
        return self.names_version if self.names_version != self._flushed_names_version else None

    def mark_flushed(self, sealed: Sequence[Segment], names_version: int | None) -> None:
        """These index files are on the disk, and the names up to this version."""
        for segment in sealed:
            if segment is not self.active:
                segment.forget_indexes()
        if names_version is not None:
            self._flushed_names_version = names_version

    def close(self) -> None:
        """Closes every segment's file, and drops its index from the cache."""
        for segment in self.in_order:
            self._index_cache.drop(segment)
            segment.close()
