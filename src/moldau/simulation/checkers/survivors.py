"""Reads the disk after a crash, with other code than the recovery under test.

A partition's log is its segments in order of their base offset, each a row of whole batches with valid CRCs and
contiguous offsets. The first other byte ends the log, and the rest is torn. A compacted log may have gaps.
A segment that a crash interrupted during its swap has one more suffix.
"""

from __future__ import annotations

from moldau.errors import ProtocolError
from moldau.ports import Disk
from moldau.wire.records.batch import is_crc_valid, iterate_batches

SEGMENT_SUFFIX = ".log"
SWAPPED_SUFFIX = ".log.swap"


def log_end_on_disk(disk: Disk, directory: str, *, may_have_gaps: bool = False) -> int:
    """One past the last offset of the longest valid log in `directory`; 0 without a log."""
    names: dict[int, str] = {}
    for suffix in (SEGMENT_SUFFIX, SWAPPED_SUFFIX):
        for name in disk.list_directory(directory):
            if name.endswith(suffix):
                names[int(name.removesuffix(suffix))] = name
    end: int | None = None
    for base_offset, name in sorted(names.items()):
        if may_have_gaps and end is not None and base_offset < end:
            continue  # its records are in the preceding cleaned segment, whose swap is half done
        if end is not None and base_offset != end and not may_have_gaps:
            break
        end = base_offset if end is None or may_have_gaps else end
        end, is_whole = _scan(disk.read_file(f"{directory}/{name}"), end, may_have_gaps=may_have_gaps)
        if not is_whole:
            break
    return end or 0


def _scan(data: bytes, end: int, *, may_have_gaps: bool) -> tuple[int, bool]:
    """The end offset of the valid batches of one segment that begins at `end`, and whether they fill it."""
    position = 0
    try:
        for at, header in iterate_batches(data):
            is_next = header.base_offset == end or (may_have_gaps and header.base_offset > end)
            if not is_next or not is_crc_valid(data, at, header.size):
                return end, False
            end = header.next_offset
            position = at + header.size
    except ProtocolError:
        return end, False
    return end, position == len(data)
