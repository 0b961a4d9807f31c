"""Which old segments may be deleted, by Kafka's rules in Kafka's order. The log deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import msgspec

from moldau.core.log.directories.health import DirectoryHealth
from moldau.core.log.files.segment import DELETED_SUFFIX, SEGMENT_SUFFIXES, Segment
from moldau.core.log.settings import LogSettings
from moldau.ports import Disk


class SegmentFacts(msgspec.Struct, frozen=True):
    """The properties of a segment for retention. `end_offset`: the next base offset, or the log end offset.

    `last_modified_ms` replaces the largest timestamp if no record has one.
    """

    end_offset: int
    size_bytes: int
    max_timestamp_ms: int
    last_modified_ms: int
    is_last: bool


class DeletedSegment(msgspec.Struct, frozen=True):
    """A deleted segment. Its files end in `.deleted` and are removed at `purge_at_ms`."""

    base_offset: int
    end_offset: int
    size_bytes: int
    paths: tuple[str, ...]
    purge_at_ms: int


def count_deletable(
    segments: Iterable[SegmentFacts],
    settings: LogSettings,
    *,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
    total_bytes: int,
) -> int:
    """The number of segments, from the oldest on, that may be deleted. Reads facts one by one, as far as needed.

    Never deleted: records at or above the high watermark, and an empty last segment. Without "delete" in
    `cleanup.policy` only segments below the log start offset are.
    """
    is_delete = "delete" in settings.cleanup_policy
    excess_bytes = total_bytes - settings.retention_bytes
    count = 0
    for segment in segments:
        if segment.end_offset > high_watermark or (segment.is_last and segment.size_bytes == 0):
            break
        is_behind_start = not segment.is_last and segment.end_offset <= log_start_offset
        is_too_old = is_delete and 0 <= settings.retention_ms < now_ms - _age_begin_ms(segment)
        is_too_much = is_delete and settings.retention_bytes >= 0 and excess_bytes >= segment.size_bytes
        if not (is_behind_start or is_too_old or is_too_much):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count


def segment_facts(segments: Sequence[Segment], log_end_offset: int, health: DirectoryHealth) -> Iterator[SegmentFacts]:
    """The facts of each segment, from the oldest on. One may read the end of its time index. An unreadable directory
    goes offline, otherwise each round of retention would fail here unnoticed."""
    for segment, following in zip_longest(segments, segments[1:]):
        with health.watched():
            max_timestamp_ms = segment.load_max_timestamp()
        yield SegmentFacts(
            end_offset=log_end_offset if following is None else following.base_offset,
            size_bytes=segment.size,
            max_timestamp_ms=max_timestamp_ms,
            last_modified_ms=segment.created_ms,
            is_last=following is None,
        )


def rename_deleted(segments: Sequence[Segment], *, end_offset: int, purge_at_ms: int) -> list[DeletedSegment]:
    """Closes neighbours, the oldest first, and renames their files to `*.deleted`, as in Kafka, so that a reader with
    an open file may finish. `end_offset`: the beginning of the next segment."""
    deleted = []
    for segment, following in zip_longest(segments, segments[1:]):
        segment.close()
        paths = []
        for suffix in SEGMENT_SUFFIXES:
            path = segment.path(suffix)
            if segment.disk.exists(path):
                segment.disk.rename(path, path + DELETED_SUFFIX)
                paths.append(path + DELETED_SUFFIX)
        end = end_offset if following is None else following.base_offset
        deleted.append(DeletedSegment(segment.base_offset, end, segment.size, tuple(paths), purge_at_ms))
    return deleted


def remove_files(disk: Disk, paths: Iterable[str]) -> None:
    """Deletes files. Waits: tens of milliseconds for a large one. Missing files and directories are no error. Raises
    StorageFailedError."""
    for path in paths:
        disk.remove(path)


def _age_begin_ms(segment: SegmentFacts) -> int:
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.last_modified_ms
