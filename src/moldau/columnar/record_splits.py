"""Places in the middle of a batch where a record begins, so that the pieces between them can be walked side by side.

The record with offset delta i has i written near its start, and stands about where i records of the average size end.
So the bytes of i are looked for around that place. What is found is a guess: `record_starts` walks each piece and takes
the guesses of a batch only if every piece ends, after exactly its count of records, where the next one begins. Then all
of them are right, by induction from the first record.
"""

from __future__ import annotations

from moldau.types import Buffer
from moldau.wire.records.varint import encode_varint

_MAX_TIMESTAMP_BYTES = 5
_WINDOW_RECORDS = 24
"""How far from the expected place is looked, in records of the average size, to either side."""


def split_places(data: Buffer, position: int, end: int, first: int, count: int, piece: int) -> list[tuple[int, int]]:
    """(offset delta, position) of records of one batch, rising, about `piece` records apart, from the given one on.

    `first`: the offset delta of the record at `position`; `count` records lie in [position, end) of `data`. Places that
    are not found are left out.
    """
    places = [(first, position)]
    last = first + count
    average = (end - position) / count
    reach = int(_WINDOW_RECORDS * average)
    for delta in range(first + piece, last - piece // 2, piece):
        before, begin = places[-1]
        expected = begin + int((delta - before) * (end - begin) / (last - before))
        low = max(begin + 1, expected - reach)
        found = _find(bytes(data[low : min(expected + reach, end)]), delta)
        if found is not None:
            places.append((delta, low + found))
    return places


def _find(window: bytes, delta: int) -> int | None:
    """Where in `window` a record with this offset delta may begin."""
    wanted = encode_varint(delta)
    at = window.find(wanted)
    while at >= 0:
        for width in range(1, _MAX_TIMESTAMP_BYTES + 1):
            attributes = at - width - 1
            if attributes < 1 or window[at - 1] >= 0x80:
                break
            if window[attributes] == 0 and all(byte >= 0x80 for byte in window[attributes + 1 : at - 1]):
                start = attributes - 1
                if window[start] < 0x80:
                    # the length's first bytes carry the mark; the byte in front of a record is the one before's last
                    while start > 0 and window[start - 1] >= 0x80:
                        start -= 1
                    return start
        at = window.find(wanted, at + 1)
    return None
