"""Varints by the column: many zigzag varints read or written at once, looping only over their width."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from moldau.errors import ProtocolError

ByteArray = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]


def decode_varints(data: ByteArray, positions: IntArray, *, max_bytes: int = 5) -> tuple[IntArray, IntArray]:
    """(values, positions behind them) of the zigzag varint at each position.

    Raises IndexError where one leads out of `data`, ProtocolError where one is longer than `max_bytes`.
    """
    first = data.take(positions)
    behind = positions + 1
    zigzag = first.astype(np.int64)
    wide = np.flatnonzero(first >= 0x80)
    if not wide.size:
        return (zigzag >> 1) ^ -(zigzag & 1), behind
    if wide.size == first.size:
        # most columns have one width: no row is picked out then
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
