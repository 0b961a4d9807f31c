"""Finds record starts in the middle of a batch, to decode its pieces in parallel.

The record with offset delta i has i near its start, and begins about where i records of the average size end. So the
bytes of i are searched around that place. The result is a guess: `record_starts` walks each piece, and accepts the
guesses of a batch only if every piece ends, after exactly its count of records, where the next one begins. Then all
guesses are right, by induction from the first record.
"""

from __future__ import annotations

from moldau.types import Buffer
from moldau.wire.records.varint import encode_varint

_WINDOW_RECORDS = 24
"""The distance that is searched on either side of the expected place, in records of the average size."""


def split_places(data: Buffer, position: int, end: int, first: int, count: int, piece: int) -> list[tuple[int, int]]:
    """(offset delta, position) of records of one batch, ascending, about `piece` records apart, from the given one on.

    `first`: the offset delta of the record at `position`; `count` records are in [position, end) of `data`. Omits
    places that are not found.
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
    """The place in `window` where a record with this offset delta may begin."""
    wanted = encode_varint(delta)
    at = window.find(wanted)
    while at >= 0:
        attributes = _varint_begin(window, at - 1) - 1
        if attributes > 0 and window[attributes] == 0 and window[at - 1] < 0x80 and window[attributes - 1] < 0x80:
            return _varint_begin(window, attributes - 1)
        at = window.find(wanted, at + 1)
    return None


def _varint_begin(window: bytes, last: int) -> int:
    """The start of the varint that ends with the byte at `last`: all its other bytes have the continuation bit."""
    while last > 0 and window[last - 1] >= 0x80:
        last -= 1
    return last
