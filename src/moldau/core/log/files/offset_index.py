"""The offset index of one segment: the position of a batch about every `index.interval.bytes`.

On disk Kafka's `.index`: entries of 8 bytes, (last offset of the batch minus the segment's base offset, position of the
batch), both unsigned 32 bits, big-endian, increasing. In memory two arrays, so that a search is one `bisect` in C. The
file is written when the segment is sealed or closed, not at each entry, because recovery rebuilds it after a crash.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right

ENTRY_SIZE = 8


class OffsetIndex:
    """`append` keeps both columns increasing."""

    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("I")
        """Last offset of the batch, relative to the base offset."""
        self.positions = array("I")
        """Where that batch begins in the segment."""

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def size_bytes(self) -> int:
        """The size of the index as a file: 8 bytes for each entry, as in Kafka."""
        return len(self.positions) * ENTRY_SIZE

    def append(self, relative_offset: int, position: int) -> None:
        """Entries come in the order of offsets. `position`: of the batch in its segment, in bytes."""
        # in this order, because a timestamp search in another thread may look up between the two
        self.positions.append(position)
        self.offsets.append(relative_offset)

    def lookup(self, relative_offset: int) -> int:
        """The position of a batch, at or before the batch with the offset."""
        found = bisect_right(self.offsets, relative_offset)
        return self.positions[found - 1] if found else 0

    def floor_position(self, limit: int) -> int:
        """The largest indexed position that is not above `limit`; 0 without one."""
        found = bisect_right(self.positions, limit)
        return self.positions[found - 1] if found else 0

    def truncate(self, relative_offset: int, position: int) -> None:
        """Drops entries for batches that end at or after the offset, or begin at or after the position."""
        keep = min(bisect_right(self.offsets, relative_offset - 1), bisect_right(self.positions, position - 1))
        del self.offsets[keep:]
        del self.positions[keep:]

    def encode(self) -> bytes:
        """The content of a `.index` file: pairs of four big-endian bytes."""
        columns = array("I", bytes(self.size_bytes))
        columns[0::2] = self.offsets
        columns[1::2] = self.positions
        if sys.byteorder == "little":
            columns.byteswap()
        return columns.tobytes()

    @classmethod
    def decode(cls, data: bytes, log_size: int) -> OffsetIndex | None:
        """None if the file is no index of a log of this size. Trailing zeros, which Kafka preallocates and leaves after
        a kill, are ignored."""
        if len(data) % ENTRY_SIZE:
            return None
        # the first batch of a segment has no entry, so no entry is all zeros
        used = -(-len(data.rstrip(b"\0")) // ENTRY_SIZE)
        columns = array("I")
        columns.frombytes(data[: used * ENTRY_SIZE])
        if sys.byteorder == "little":
            columns.byteswap()
        index = cls()
        index.offsets = columns[0::2]
        index.positions = columns[1::2]
        if not used:
            return index
        is_increasing = _is_increasing(index.offsets) and _is_increasing(index.positions)
        return index if is_increasing and index.positions[-1] < log_size else None


def _is_increasing(column: array[int]) -> bool:
    return all(map(int.__lt__, column, column[1:]))
