"""Finds where each record of a payload begins, the only sequential part of decoding.

A record begins where the previous one ends, so starts are found one after the other. The fastest of four ways that fits
is used. Equal-sized records are found all at once (`_equal_runs`). Many small batches are walked in step, one record of
each at a time (`_in_step`, about 20 ns per record), and so are the pieces of large batches (`_in_pieces`, about 40 ns).
All others are walked in Python (`_walk`, about 90 ns per record).
"""

from __future__ import annotations

import math
from itertools import accumulate, pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from moldau.columnar.record_splits import split_places
from moldau.columnar.varints import IntArray
from moldau.errors import ProtocolError
from moldau.types import Buffer
from moldau.wire.records.record import MIN_RECORD_BYTES
from moldau.wire.records.varint import decode_varint

ByteArray = npt.NDArray[np.uint8]

_RUN_RECORDS = 256
"""The fewest records for which a search for records of equal size pays off. A failed search costs as much as 40
records."""

_MIN_RUN = 32
_MIN_LANES = 48
"""With fewer batches in step, the numpy calls cost more than a walk."""

_MIN_SPLIT_RECORDS = 2_560
_MAX_SPLIT_BYTES = 512
"""The largest average record, in bytes, for which a search for places inside batches pays off."""


class _Spans(msgspec.Struct):
    """Adjacent records, in batches or pieces of batches. A span is one row of all the lists.

    `positions`: the first record that is not found yet; `begun`: how many are found, of `counts`. `slots`: the place of
    a span's starts in the array of all.
    """

    counts: list[int]
    positions: list[int]
    ends: list[int]
    slots: list[int]
    begun: list[int]

    def finish(self, span: int, data: Buffer, found: IntArray) -> bool:
        """Walks the rest of a span. False if its lengths do not match its count and size."""
        position, done = self.positions[span], self.begun[span]
        if done < self.counts[span]:
            walked: list[int] = []
            try:
                position = _walk(data, position, self.ends[span], walked)
            except (IndexError, ProtocolError):
                return False
            if done + len(walked) != self.counts[span]:
                return False
            slot = self.slots[span]
            found[slot + done : slot + self.counts[span]] = walked
        return position == self.ends[span]

    def went_astray(self, span: int, data: Buffer) -> bool:
        """Whether steps left the span: it stopped early, or did not end at its end."""
        position, end = self.positions[span], self.ends[span]
        if self.begun[span] == self.counts[span]:
            return position != end
        return position + 1 >= end or (data[position] >= 0x80 and data[position + 1] >= 0x80)


def record_starts(data: Buffer, counts: list[int], starts: list[int], ends: list[int]) -> tuple[IntArray, int | None]:
    """The position of each record's length, in order, in the payloads [starts[i], ends[i]) of `data`.

    The second result is the index of the first payload whose lengths do not match its count and size, otherwise None.
    """
    for index, count in enumerate(counts):
        if count < 0 or count * MIN_RECORD_BYTES > ends[index] - starts[index]:
            return np.empty(0, dtype=np.int64), index
    array = np.frombuffer(data, dtype=np.uint8)
    found = np.empty(sum(counts), dtype=np.int64)
    slots = list(accumulate(counts[:-1], initial=0))
    batches = _Spans(counts, list(starts), ends, slots, [0] * len(counts))
    if len(counts) >= _MIN_LANES:
        _in_step(array, batches, found)
        for index in range(len(counts)):
            if batches.went_astray(index, data):
                batches.positions[index], batches.begun[index] = starts[index], 0
    for index, count in enumerate(counts):
        if not batches.begun[index] and count >= _RUN_RECORDS:
            for run in _equal_runs(array, starts[index], ends[index], count):
                at = slots[index] + batches.begun[index]
                found[at : at + len(run)] = run
                batches.begun[index] += len(run)
                batches.positions[index] = _behind(data, int(run[-1]))
    _in_pieces(data, array, batches, found)
    for index in range(len(counts)):
        if not batches.finish(index, data, found):
            return found, index
    return found, None


def _behind(data: Buffer, position: int) -> int:
    """The end of the record at `position`. Raises ProtocolError and IndexError."""
    length, behind = decode_varint(bytes(data[position : position + 5]), 0)
    if length < 0:
        raise ProtocolError("a negative record length")
    return position + behind + length


def _walk(data: Buffer, position: int, end: int, starts: list[int]) -> int:
    """Appends each start in [position, end); returns the end of the last record.

    The hot loop of reading. A negative length of one or two bytes still moves forward here, and is rejected when the
    other fields are decoded.
    """
    append = starts.append
    while position < end:
        append(position)
        first = data[position]
        if first < 0x80:
            position += (first >> 1) + 1
            continue
        second = data[position + 1]
        if second < 0x80:
            position += ((first & 0x7F | second << 7) >> 1) + 2
        else:
            position = _behind(data, position)
    return position


def _equal_runs(data: ByteArray, position: int, end: int, count: int) -> list[IntArray]:
    """Runs of records of equal size from `position` on; exact, not a guess.

    If the record at p has size s, and the bytes at p + s, p + 2s, ... repeat its length, then records begin there, by
    induction. Within a batch the size of equal records changes only where an offset or timestamp delta gets wider.
    """
    runs: list[IntArray] = []
    while end - position >= _MIN_RUN * MIN_RECORD_BYTES:
        first, second = int(data[position]), int(data[position + 1])
        if first < 0x80:
            size = (first >> 1) + 1
            same = data[position:end:size] == first
        elif second < 0x80:
            size = ((first & 0x7F | second << 7) >> 1) + 2
            same = data[position:end:size] == first
            seconds = data[position + 1 : end : size] == second
            same = same[: len(seconds)]
            same &= seconds
        else:
            return runs
        run = int(np.argmin(same))
        if run == 0:  # all are equal; the last may reach beyond the end, which the caller detects
            run = len(same)
        if run < _MIN_RUN or run > count:
            return runs
        runs.append(np.arange(position, position + run * size, size, dtype=np.int64))
        position += run * size
        count -= run
    return runs


# --- in step ---


def _size_table() -> npt.NDArray[np.int64]:
    """The size of a record, by the first two bytes of its length, read as little-endian; 0 for a longer varint."""
    pairs = np.arange(1 << 16)
    first, second = pairs & 0xFF, pairs >> 8
    one_byte = (first >> 1) + 1
    two_bytes = (((first & 0x7F) | second << 7) >> 1) + 2
    table: npt.NDArray[np.int64] = np.where(first < 0x80, one_byte, np.where(second < 0x80, two_bytes, 0))
    return table


_SIZES = _size_table()


def _in_step(data: ByteArray, spans: _Spans, found: IntArray) -> None:
    """Walks all spans at once, one record of each per step, while enough of them have records left.

    A length of three or more bytes stops a span, and a wrong length leads out of it: see `_Spans.went_astray`.
    """
    counts = np.array(spans.counts)
    order = np.argsort(-counts, kind="stable")
    sorted_counts = counts[order]
    # as many steps as the shortest of the _MIN_LANES longest spans has records
    steps = int(sorted_counts[_MIN_LANES - 1])
    lanes_at = np.searchsorted(-sorted_counts, -np.arange(steps), side="left").tolist()
    # each pair of adjacent bytes as one number, without a copy; the last byte has no pair
    pairs = np.ndarray((len(data) - 1,), dtype="<u2", buffer=data, strides=(1,))
    lanes = np.array(spans.positions)[order]
    slots = np.array(spans.slots)[order]
    try:
        for step, count in enumerate(lanes_at):
            active = lanes[:count]
            found[slots[:count] + step] = active
            active += _SIZES.take(pairs[active])
    except IndexError:
        return
    done = np.minimum(sorted_counts, steps)
    for lane, index in enumerate(order.tolist()):
        spans.positions[index] = int(lanes[lane])
        spans.begun[index] = int(done[lane])


def _in_pieces(data: Buffer, array: ByteArray, batches: _Spans, found: IntArray) -> None:
    """Walks the rest of large batches in pieces, all in step. If the pieces of a batch do not fit together, it is left
    unchanged."""
    left = {index: count - batches.begun[index] for index, count in enumerate(batches.counts)}
    large = [
        index
        for index, count in left.items()
        if count >= _RUN_RECORDS and batches.ends[index] - batches.positions[index] <= count * _MAX_SPLIT_BYTES
    ]
    total = sum(left[index] for index in large)
    if total < _MIN_SPLIT_RECORDS:
        return
    pieces = _Spans([], [], [], [], [])
    owners: list[int] = []
    for index in large:
        first, position, end = batches.begun[index], batches.positions[index], batches.ends[index]
        places = split_places(data, position, end, first, left[index], math.isqrt(total))
        for (delta, start), (next_delta, next_start) in pairwise([*places, (batches.counts[index], end)]):
            owners.append(index)
            pieces.counts.append(next_delta - delta)
            pieces.positions.append(start)
            pieces.ends.append(next_start)
            pieces.slots.append(batches.slots[index] + delta)
            pieces.begun.append(0)
    if len(owners) < _MIN_LANES:
        return
    _in_step(array, pieces, found)
    wrong = {
        index
        for piece, index in enumerate(owners)
        if pieces.went_astray(piece, data) or not pieces.finish(piece, data, found)
    }
    for index in large:
        if index not in wrong:
            batches.positions[index], batches.begun[index] = batches.ends[index], batches.counts[index]
