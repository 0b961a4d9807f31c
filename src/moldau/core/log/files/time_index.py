"""The time index of one segment: the largest timestamp seen so far, at each entry of the offset index (KIP-33).

On disk Kafka's `.timeindex`: entries of 12 bytes, (timestamp in ms, signed 64 bits; last offset of the batch that holds
it minus the base offset, unsigned 32 bits), big-endian, timestamps increasing. Sealing a segment adds a last entry with
its largest timestamp.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right

ENTRY_SIZE = 12


class TimeIndex:
    """The entries in memory. `maybe_append` adds them."""

    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("I")

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def size_bytes(self) -> int:
        """The size of the index as a file: 12 bytes for each entry, as in Kafka."""
        return len(self.timestamps) * ENTRY_SIZE

    def maybe_append(self, timestamp_ms: int, relative_offset: int) -> None:
        """Adds an entry if the timestamp is later than the last one. An empty index has timestamp -1."""
        if timestamp_ms > (self.timestamps[-1] if self.timestamps else -1):
            # in this order, because a timestamp search in another thread may look up between the two
            self.offsets.append(relative_offset)
            self.timestamps.append(timestamp_ms)

    def lookup(self, timestamp_ms: int) -> int:
        """A relative offset before which every record is earlier than the timestamp."""
        found = bisect_right(self.timestamps, timestamp_ms)
        return self.offsets[found - 1] if found else 0

    @property
    def last(self) -> tuple[int, int]:
        """(largest timestamp, its relative offset), or (-1, 0)."""
        return (self.timestamps[-1], self.offsets[-1]) if self.timestamps else (-1, 0)

    def truncate(self, relative_offset: int) -> None:
        """Drops entries at or after the offset."""
        keep = bisect_right(self.offsets, relative_offset - 1)
        del self.timestamps[keep:]
        del self.offsets[keep:]

    def encode(self) -> bytes:
        """The content of a `.timeindex` file: eight bytes of timestamp (ms) and four of relative offset, big-endian."""
        timestamps = array("q", self.timestamps)
        offsets = array("I", self.offsets)
        if sys.byteorder == "little":
            timestamps.byteswap()
            offsets.byteswap()
        halves = array("I", timestamps.tobytes())
        columns = array("I", bytes(self.size_bytes))
        columns[0::3] = halves[0::2]
        columns[1::3] = halves[1::2]
        columns[2::3] = offsets
        return columns.tobytes()

    @classmethod
    def decode(cls, data: bytes) -> TimeIndex | None:
        """None if the file is no time index. Zeros after the last entry are ignored, as in OffsetIndex."""
        if len(data) % ENTRY_SIZE:
            return None
        # an entry has a timestamp, so it is not all zeros
        used = -(-len(data.rstrip(b"\0")) // ENTRY_SIZE)
        data = data[: used * ENTRY_SIZE]
        columns = array("I", data)
        halves = array("I", bytes(len(data) // ENTRY_SIZE * 8))
        halves[0::2] = columns[0::3]
        halves[1::2] = columns[1::3]
        index = cls()
        index.timestamps = array("q", halves.tobytes())
        index.offsets = columns[2::3]
        if sys.byteorder == "little":
            index.timestamps.byteswap()
            index.offsets.byteswap()
        is_increasing = all(map(int.__lt__, index.timestamps, index.timestamps[1:]))
        is_ordered = all(map(int.__le__, index.offsets, index.offsets[1:]))
        return index if is_increasing and is_ordered else None
