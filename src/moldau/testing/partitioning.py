"""Chooses the partition of a keyed record by murmur2, as Kafka's own producers do."""

from __future__ import annotations

_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """Kafka's default partitioner: positive murmur2 of the key, modulo the partitions."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """32-bit murmur2 with Kafka's seed, as an unsigned integer."""
    length = len(data)
    h = _SEED ^ length
    for position in range(0, length - length % 4, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    rest = data[length - length % 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15
