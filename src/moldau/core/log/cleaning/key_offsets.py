"""The last offset of each key, in bounded memory.

A key of up to 14 bytes represents itself, a longer one its 120-bit BLAKE2b hash, so every key costs the same: an object
of 48 bytes, an offset of 32, and its share of the dict's table. `keys_within` counts all three as CPython 3.11 to 3.14
allocate them (a table of 2^k slots has two thirds as many entries of 24 bytes, and 4 bytes a slot): 105 to 160 bytes a
key. Kafka's map costs 24 bytes a key, with the 128 bits of MD5.
"""

from __future__ import annotations

from hashlib import blake2b

SHORT_KEY_BYTES = 14
DIGEST_BYTES = 15
_KEY_AND_OFFSET_BYTES = 80
_SLOT_BYTES = 4
_ENTRY_BYTES = 24
_SMALLEST_TABLE = 3


def keys_within(budget_bytes: int) -> int:
    """The number of keys that fit in a map of so many bytes."""
    largest = 0
    log2_slots = _SMALLEST_TABLE
    while True:
        slots = 1 << log2_slots
        usable = slots * 2 // 3
        table_bytes = slots * _SLOT_BYTES + usable * _ENTRY_BYTES
        if table_bytes > budget_bytes:
            return largest
        largest = max(largest, min(usable, (budget_bytes - table_bytes) // _KEY_AND_OFFSET_BYTES))
        log2_slots += 1


class KeyOffsets:
    """First `put` in the order of offsets, then `find`. `end_offset`: the map has every record below it."""

    __slots__ = ("capacity", "end_offset", "offsets")

    def __init__(self, capacity: int, start_offset: int) -> None:
        self.capacity = capacity
        self.end_offset = start_offset
        self.offsets: dict[bytes, int] = {}
        """By `short_key`."""


def short_key(key: bytes) -> bytes:
    """The form of the key in the map."""
    return key if len(key) <= SHORT_KEY_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
