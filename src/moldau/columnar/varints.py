"""Reads and writes columns of zigzag varints, with a loop over their width only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moldau.errors import ProtocolError

ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]
UnsignedArray = npt.NDArray[np.uint64]


def decode_varints(data: ByteArray, positions: IntArray, *, max_bytes: int = 5) -> tuple[IntArray, IntArray]:
    """(values, positions after them) of the zigzag varint at each position.

    Raises IndexError if one leads out of `data`, ProtocolError if one is longer than `max_bytes`.
    """
    first = data.take(positions)
    behind = positions + 1
    zigzag = first.astype(np.int64)
    wide = np.flatnonzero(first >= 0x80)
    if not wide.size:
        return (zigzag >> 1) ^ -(zigzag & 1), behind
    if wide.size == first.size:
        # most columns have one width, and need no selection of rows
        second = data.take(behind)
        if not (second >= 0x80).any():
            zigzag = (zigzag & 0x7F) | (second.astype(np.int64) << 7)
            return (zigzag >> 1) ^ -(zigzag & 1), behind + 1
    values = zigzag.view(np.uint64)
    values[wide] &= np.uint64(0x7F)
    for index in range(1, max_bytes):
        byte = data.take(behind[wide])
        values[wide] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * index)
        behind[wide] += 1
        wide = wide[byte >= 0x80]
        if not wide.size:
            break
    else:
        raise ProtocolError(f"a varint is longer than {max_bytes} bytes")
    if max_bytes == 5:
        values &= np.uint64(0xFFFFFFFF)
    return (values >> np.uint64(1)).view(np.int64) ^ -(values & np.uint64(1)).view(np.int64), behind


def varint_widths(zigzag: UnsignedArray) -> IntArray:
    """How many bytes each zigzag value takes as a varint: one to ten."""
    widths = np.ones(len(zigzag), dtype=np.int64)
    largest = int(zigzag.max(initial=0))
    for width in range(1, 10):
        if largest < 1 << 7 * width:
            break
        widths += zigzag >= np.uint64(1 << 7 * width)
    return widths


def zigzag(values: IntArray) -> UnsignedArray:
    """The zigzag form of signed numbers, which is small for numbers near 0 of either sign."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


class VarintColumns:
    """Rows of bytes built column by column: fixed bytes and varints, then flattened row by row.

    Varints of one column differ in width, so each column of bytes has a column of flags for the rows that have the
    byte.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._columns: list[ByteArray] = []
        self._present: list[npt.NDArray[np.bool_] | None] = []

    def append_byte(self, value: int) -> None:
        """Adds the same byte to every row."""
        self._columns.append(np.full(self._count, value, dtype=np.uint8))
        self._present.append(None)

    def append_varints(self, values: UnsignedArray, widths: IntArray) -> None:
        """A varint of each zigzag value. `widths` must come from `varint_widths`."""
        for index in range(int(widths.max(initial=1))):
            byte: ByteArray = (values >> np.uint64(7 * index)).astype(np.uint8)
            byte &= 0x7F
            byte[widths > index + 1] |= 0x80
            self._columns.append(byte)
            self._present.append(None if index == 0 else widths > index)

    def flatten(self) -> tuple[ByteArray, npt.NDArray[np.int32]]:
        """(The bytes of all rows, the start of each row and the end of the last.)"""
        matrix = np.stack(self._columns, axis=1)
        present = np.ones(matrix.shape, dtype=np.bool_)
        sizes = np.full(self._count, sum(flags is None for flags in self._present), dtype=np.int64)
        is_ragged = False
        for index, flags in enumerate(self._present):
            if flags is not None:
                present[:, index] = flags
                sizes += flags
                is_ragged = is_ragged or not flags.all()
        offsets = np.zeros(self._count + 1, dtype=np.int32)
        np.cumsum(sizes, out=offsets[1:])
        return (matrix[present] if is_ragged else matrix.reshape(-1)), offsets
