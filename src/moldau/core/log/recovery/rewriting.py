"""Writes unflushed batches again after a failed flush.

When fsync fails, Linux marks the dirty pages as clean. Readers still see them, in a later process too, but no later
fsync writes them, and a power failure loses them. Writing the same bytes at the same place makes the pages dirty again
(docs/decisions/0023).
"""

from __future__ import annotations

from contextlib import suppress

from moldau.core.log.files.segment import SNAPSHOT_SUFFIX, Segment, flush_file, write_whole_file

_CHUNK_BYTES = 1 << 20


def rewrite_unflushed(segment: Segment, recovery_point: int) -> None:
    """Writes the batches of `segment` that reach to `recovery_point` or beyond at the same place again, and flushes
    them. Waits. The segment was read and cut before; index files above the recovery point are rebuilt anyway.

    Raises StorageFailedError, DamagedLogError.
    """
    position = 0
    if segment.base_offset < recovery_point:
        position = segment.locate(recovery_point, 0, is_cached_only=False)
    file = segment.file
    while position < segment.size:
        data = file.read(position, min(_CHUNK_BYTES, segment.size - position))
        file.write_at(position, data)
        position += len(data)
    file.flush()
    if segment.base_offset <= recovery_point:
        # recovery trusts this snapshot and writes all later ones again
        path = segment.path(SNAPSHOT_SUFFIX)
        with suppress(FileNotFoundError):
            write_whole_file(segment.disk, path, segment.disk.read_file(path))
            flush_file(segment.disk, path)
