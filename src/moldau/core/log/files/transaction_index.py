"""The aborted transactions of one segment, Kafka's `.txnindex`, for readers of committed records (KIP-98).

An abort marker adds an entry to the index of its segment. Entries of 34 bytes, big-endian: version int16 (0), producer
id int64, first offset int64, last offset int64 (the marker's), last stable offset int64 after the transaction. A
segment without aborted transactions has no such file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import msgspec

_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_VERSION = 0


class AbortedTransaction(msgspec.Struct, frozen=True):
    """Records of `producer_id` from `first_offset` up to the marker at `last_offset` do not count."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
    """The content of a `.txnindex` file, in the order given."""
    return b"".join(
        _ENTRY.pack(_VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in transactions
    )


def decode_transactions(data: bytes) -> list[AbortedTransaction]:
    """Raises ValueError for a file of a later version. A cut last entry, as after a crash, is ignored."""
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE]):
        if version > _VERSION:
            raise ValueError(f"an aborted transaction of version {version}")
        entries.append(AbortedTransaction(*fields))
    return entries
