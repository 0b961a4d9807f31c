"""Chooses the partition of each record: from its key with murmur2, as Kafka clients do, otherwise sticky."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moldau.columnar.varints import IntArray

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_SIGN_MASK = np.uint32(0x7FFFFFFF)


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Kafka's 32-bit murmur2 of each entry of a binary array without nulls (`Utils.murmur2` of the Java client)."""
    count = len(keys)
    bounds = np.frombuffer(keys.buffers()[1], dtype=np.int32, count=count + 1, offset=4 * keys.offset).astype(np.int64)
    first = int(bounds[0])
    positions, lengths = bounds[:-1] - first, np.diff(bounds)
    data_buffer = keys.buffers()[2]
    # only the bytes of these keys, because a slice has the buffer of the whole column. Four more bytes allow a read of
    # a whole word at the last byte
    data = np.zeros(int(bounds[-1]) - first + 4, dtype=np.uint8)
    if data_buffer is not None:
        data[:-4] = np.frombuffer(data_buffer, dtype=np.uint8)[first : first + len(data) - 4]
    hashes = _SEED ^ lengths.astype(np.uint32)
    with np.errstate(over="ignore"):
        _mix_words(hashes, data, positions, lengths)
        _mix_tails(hashes, data, positions, lengths % 4)
        hashes ^= hashes >> np.uint32(13)
        hashes *= _MULTIPLIER
        hashes ^= hashes >> np.uint32(15)
    return hashes


def _word(data: npt.NDArray[np.uint8], positions: IntArray) -> npt.NDArray[np.uint32]:
    """The little-endian 32-bit word at each position."""
    word = data[positions].astype(np.uint32)
    for index in (1, 2, 3):
        word |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return word


def _mix_words(
    hashes: npt.NDArray[np.uint32], data: npt.NDArray[np.uint8], positions: IntArray, lengths: IntArray
) -> None:
    """One round for each four bytes of the longest key, over the keys that are long enough; advances `positions`."""
    rows = np.flatnonzero(lengths >= 4)
    words_left = lengths[rows] // 4
    while rows.size:
        word = _word(data, positions[rows])
        word *= _MULTIPLIER
        word ^= word >> np.uint32(24)
        word *= _MULTIPLIER
        hashes[rows] = (hashes[rows] * _MULTIPLIER) ^ word
        positions[rows] += 4
        words_left = words_left - 1
        more = words_left > 0
        if not more.all():
            rows, words_left = rows[more], words_left[more]


def _mix_tails(
    hashes: npt.NDArray[np.uint32], data: npt.NDArray[np.uint8], positions: IntArray, left: IntArray
) -> None:
    rows = np.flatnonzero(left)
    if rows.size:
        bits = (8 * left[rows]).astype(np.uint32)
        tail = _word(data, positions[rows]) & ((np.uint32(1) << bits) - np.uint32(1))
        hashes[rows] = (hashes[rows] ^ tail) * _MULTIPLIER


def partitions_of_keys(keys: pa.Array, partition_count: int) -> IntArray:
    """The partition of each key, as in Kafka's default partitioner; -1 for null."""
    filled = keys.fill_null(b"") if keys.null_count else keys
    partitions = ((murmur2(filled) & _SIGN_MASK) % np.uint32(partition_count)).astype(np.int64)
    if keys.null_count:
        partitions[np.asarray(keys.is_null())] = -1
    return partitions


class StickyPartitions:
    """Partitions for records without a key: about `run_bytes` go to one partition, then to the next, for full batches.

    `first`: the partition of the first run, modulo their number. Writers of few records would all write to one
    partition if they began with the same.
    """

    def __init__(self, partition_count: int, run_bytes: int, first: int = 0) -> None:
        self.partition_count = partition_count
        self._run_bytes = run_bytes
        self._first = first
        self._written_bytes = 0

    def assign(self, sizes: IntArray) -> IntArray:
        """The partitions of the next records, from their sizes in bytes."""
        ends = np.cumsum(sizes) + self._written_bytes
        if ends.size:
            starts = ends - sizes
            self._written_bytes = int(ends[-1]) % (self._run_bytes * self.partition_count)
            result: IntArray = (starts // self._run_bytes + self._first) % self.partition_count
            return result
        return ends
