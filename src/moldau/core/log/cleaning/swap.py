"""Replaces segments by a cleaned one, and completes that after a crash.

The steps are Kafka's, so that each broker can complete what the other began. All are renames in one directory, done on
the event loop between two requests. The files were flushed before (`flush_cleaned`):

    1  `.cleaned` -> `.swap`, file by file      while a `.cleaned` of the segment is left, the swap counts as not begun
    2  the old files -> `.deleted`              from here on only the `.swap` files have the records
    3  `.swap` -> the real name, `.log` first

At the next start (`finish_swaps`): `.swap` files at or above the lowest `.cleaned` one are dropped, because step 1 was
interrupted. For the others the replaced segments are removed, and step 3 is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.core.log.cleaning.retention import DeletedSegment
from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.segment import (
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
    segment_file_name,
)
from moldau.core.log.files.time_index import TimeIndex
from moldau.core.log.recovery.damage import DamagedBatchError, follow_batches
from moldau.ports import Disk
from moldau.wire.records.batch import ATTRIBUTES_POSITION, LENGTH_OVERHEAD
from moldau.wire.records.crc import crc32c

if TYPE_CHECKING:
    from moldau.core.log.cleaning.compaction import CleanedSegment, CompactionPlan


def swap_in(
    plan: CompactionPlan, cleaned: CleanedSegment, old: Sequence[Segment], end_offset: int, purge_at_ms: int
) -> tuple[Segment, DeletedSegment]:
    """Does the three steps. `old`: the replaced segments, which are closed. `end_offset`: the beginning of the next
    one."""
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
            # the producer state at the base offset is still valid
            is_kept = suffix == SNAPSHOT_SUFFIX and segment is old[0]
            path = segment.path(suffix)
            if not is_kept and disk.exists(path):
                disk.rename(path, path + DELETED_SUFFIX)
                paths.append(path + DELETED_SUFFIX)
    for suffix in suffixes:
        disk.rename(new.path(suffix) + SWAP_SUFFIX, new.path(suffix))
    size = sum(segment.size for segment in old)
    return new, DeletedSegment(cleaned.base_offset, end_offset, size, tuple(paths), purge_at_ms)


def finish_swaps(disk: Disk, directory: str, names: Sequence[str], health: DirectoryHealth) -> list[str]:
    """Completes or drops interrupted swaps, and returns the resulting names. A damaged `.swap` file is dropped too, and
    the segments that it replaced return. `health` notes it."""
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if not swaps:
        return list(names)
    cleaned = [_base_offset(name) for name in names if name.endswith(CLEANED_SUFFIX)]
    begun = [name for name in swaps if not cleaned or _base_offset(name) < min(cleaned)]
    for name in swaps:
        if name not in begun:
            disk.remove(f"{directory}/{name}")
    for name in list(begun):
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            end_offset = _end_offset(disk, f"{directory}/{name}", _base_offset(name))
            if end_offset is not None:
                _remove_covered(disk, directory, names, name, end_offset)
            elif _bring_back(disk, directory, names, name):
                health.found(f"{directory}/{name}", "damaged: the segments that it was made from are used instead")
                begun = [other for other in begun if _base_offset(other) != _base_offset(name)]
    for suffix in (LOG_SUFFIX, ""):
        for name in begun:
            path = f"{directory}/{name}"
            if name.endswith(suffix + SWAP_SUFFIX) and disk.exists(path):
                disk.rename(path, path.removesuffix(SWAP_SUFFIX))
    disk.flush_directory(directory)
    return disk.list_directory(directory)


def _remove_covered(disk: Disk, directory: str, names: Sequence[str], swap_name: str, end_offset: int) -> None:
    """Removes the segments that this one replaces and that still have their names."""
    base_offset = _base_offset(swap_name)
    end_offset = max(end_offset, base_offset + 1)
    for name in names:
        if name.endswith(tuple(suffix for suffix in SEGMENT_SUFFIXES if suffix != SNAPSHOT_SUFFIX)):
            is_covered = name[:20].isdigit() and base_offset <= _base_offset(name) < end_offset
            if is_covered:
                disk.remove(f"{directory}/{name}")


def _base_offset(name: str) -> int:
    stem = name.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdigit() else 0


def _end_offset(disk: Disk, path: str, base_offset: int) -> int | None:
    """The offset after the last batch of a swap file, or None if the file may be damaged. It was flushed before it got
    its name. In doubt the replaced segments return, and are compacted again."""
    end_offset = base_offset
    file = disk.open(path, create=False)
    try:
        for position, fields in follow_batches(file, 0, file.size()):
            batch = file.read(position, fields[1] + LENGTH_OVERHEAD)
            if fields[0] < end_offset or crc32c(batch[ATTRIBUTES_POSITION:]) != fields[4]:
                return None
            end_offset = fields[0] + fields[6] + 1
    except DamagedBatchError:
        return None
    finally:
        file.close()
    try:
        index_path = path.removesuffix(LOG_SUFFIX + SWAP_SUFFIX) + TIME_INDEX_SUFFIX + SWAP_SUFFIX
        time_index = TimeIndex.decode(disk.read_file(index_path))
    except FileNotFoundError:
        return None
    # the file may be empty or cut between two batches
    is_whole = time_index is not None and base_offset <= base_offset + time_index.last[1] < end_offset
    return end_offset if is_whole else None


def _bring_back(disk: Disk, directory: str, names: Sequence[str], swap_name: str) -> bool:
    """Restores the segments that a damaged swap was to replace, and drops it. False without a change if they are
    missing."""
    base_offset = _base_offset(swap_name)
    live = sorted(_base_offset(name) for name in names if name.endswith(LOG_SUFFIX))
    next_offset = min((base for base in live if base > base_offset), default=None)
    renamed = [
        name
        for name in names
        if name.endswith(DELETED_SUFFIX)
        and base_offset <= _base_offset(name)
        and (next_offset is None or _base_offset(name) < next_offset)
    ]
    if base_offset not in live and segment_file_name(base_offset, LOG_SUFFIX + DELETED_SUFFIX) not in renamed:
        return False
    for name in renamed:
        if name.removesuffix(DELETED_SUFFIX) not in names:
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(DELETED_SUFFIX)}")
    for name in names:
        if name.endswith(SWAP_SUFFIX) and _base_offset(name) == base_offset:
            disk.remove(f"{directory}/{name}")
    return True
