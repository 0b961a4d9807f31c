"""Putting a cleaned segment in the place of those that it was made from, and finishing that after a crash.

The steps are Kafka's, so that either of the two finishes what the other began. All are renames in one directory, done
on the event loop between two requests; the files were flushed before (`flush_cleaned`):

    1  `.cleaned` -> `.swap`, file by file      while a `.cleaned` of the segment is left, the swap counts as not begun
    2  the old files -> `.deleted`              from here on only the `.swap` files hold what they held
    3  `.swap` -> the real name, `.log` first

At the next start (`finish_swaps`): `.swap` files at or above the lowest `.cleaned` one are dropped, step 1 was cut; for
all others what the new segment covers is removed, and step 3 done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.core.log.retention import DeletedSegment
from moldau.core.log.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    Segment,
)
from moldau.ports import Disk
from moldau.wire.records.batch import HEADER, HEADER_SIZE, LENGTH_OVERHEAD

if TYPE_CHECKING:
    from moldau.core.log.compaction import CleanedSegment, CompactionPlan

_READ_BYTES = 512 << 10


def swap_in(
    plan: CompactionPlan, cleaned: CleanedSegment, old: Sequence[Segment], end_offset: int, purge_at_ms: int
) -> tuple[Segment, DeletedSegment]:
    """Does the three steps. `old`: the segments that go, closed by this; `end_offset`: where the next one begins."""
    disk = old[0].disk
    suffixes = [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX]
    if cleaned.has_transaction_index:
        suffixes.append(TRANSACTION_INDEX_SUFFIX)
    new = Segment(disk, plan.directory, cleaned.base_offset, size=cleaned.size, created_ms=old[-1].created_ms)
    new.next_offset = end_offset
    new.max_timestamp_ms, new.max_timestamp_offset = cleaned.max_timestamp_ms, cleaned.max_timestamp_offset
    new.is_index_saved = True
    for suffix in suffixes:
        disk.rename(plan.cleaned_path(cleaned.base_offset, suffix), new.path(suffix) + SWAP_SUFFIX)
    paths: list[str] = []
    for segment in old:
        segment.replacement = new
        segment.close()
        for suffix in SEGMENT_SUFFIXES:
            # the producers at the base offset are what they were
            is_kept = suffix == SNAPSHOT_SUFFIX and segment is old[0]
            path = segment.path(suffix)
            if not is_kept and disk.exists(path):
                disk.rename(path, path + DELETED_SUFFIX)
                paths.append(path + DELETED_SUFFIX)
    for suffix in suffixes:
        disk.rename(new.path(suffix) + SWAP_SUFFIX, new.path(suffix))
    size = sum(segment.size for segment in old)
    return new, DeletedSegment(cleaned.base_offset, end_offset, size, tuple(paths), purge_at_ms)


def finish_swaps(disk: Disk, directory: str, names: Sequence[str]) -> list[str]:
    """Finishes or drops what a crash left of swaps; gives the names that are there afterwards."""
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if not swaps:
        return list(names)
    cleaned = [_base_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    begun = [name for name in swaps if not cleaned or _base_offset(name) < min(cleaned)]
    for name in swaps:
        if name not in begun:
            disk.remove(f"{directory}/{name}")
    for name in begun:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_covered(disk, directory, names, name)
    for suffix in (LOG_SUFFIX, ""):
        for name in begun:
            path = f"{directory}/{name}"
            if name.endswith(suffix + SWAP_SUFFIX) and disk.exists(path):
                disk.rename(path, path.removesuffix(SWAP_SUFFIX))
    disk.flush_directory(directory)
    return disk.list_directory(directory)


def _remove_covered(disk: Disk, directory: str, names: Sequence[str], swap_name: str) -> None:
    """The segments that were compacted into this one and not yet renamed."""
    base_offset = _base_offset(swap_name)
    end_offset = max(_end_offset(disk, f"{directory}/{swap_name}", base_offset), base_offset + 1)
    for name in names:
        if name.endswith(tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != SNAPSHOT_SUFFIX)):
            is_covered = name[:20].isdigit() and base_offset <= _base_offset(name) < end_offset
            if is_covered:
                disk.remove(f"{directory}/{name}")


def _base_offset(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else 0


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    """Behind the last batch in the file, which was flushed whole before it got its name."""
    end_offset, position = base_offset, 0
    file = disk.open(path, create=False)
    try:
        while len(data := file.read(position, _READ_BYTES)) >= HEADER_SIZE:
            local = 0
            while local + HEADER_SIZE <= len(data):
                fields = HEADER.unpack_from(data, local)
                end_offset = fields[0] + fields[6] + 1
                local += fields[1] + LENGTH_OVERHEAD
            position += local
    finally:
        file.close()
    return end_offset
