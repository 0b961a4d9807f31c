"""What the disk holds after a crash, read by other code than the recovery under test.

A partition's log is its segments in order of their base offset, each a row of whole batches with valid CRCs and
contiguous offsets. The first byte that is not ends the log: what lies behind it is torn.
"""

from __future__ import annotations

from moldau.errors import ProtocolError
from moldau.ports import Disk
from moldau.wire.records.batch import is_crc_valid, iterate_batches

SEGMENT_SUFFIX = ".log"


def log_end_on_disk(disk: Disk, directory: str) -> int:
    """One past the last offset of the longest valid log in `directory`; 0 where there is none."""
    names = [name for name in disk.list_directory(directory) if name.endswith(SEGMENT_SUFFIX)]
    end: int | None = None
    for name in sorted(names):
        base_offset = int(name.removesuffix(SEGMENT_SUFFIX))
        if end is not None and base_offset != end:
            break
        end = base_offset if end is None else end
        end, is_whole = _scan(disk.read_file(f"{directory}/{name}"), end)
        if not is_whole:
            break
    return end or 0


def _scan(data: bytes, end: int) -> tuple[int, bool]:
    """The end offset of the valid batches of one segment that begins at `end`, and whether they fill it."""
    position = 0
    try:
        for at, header in iterate_batches(data):
            if header.base_offset != end or not is_crc_valid(data, at, header.size):
                return end, False
            end = header.next_offset
            position = at + header.size
    except ProtocolError:
        return end, False
    return end, position == len(data)
