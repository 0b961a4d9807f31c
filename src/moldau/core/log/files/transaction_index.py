"""The aborted transactions of one segment, Kafka's `.txnindex`: what readers of committed records skip (KIP-98).

An entry is written when the abort marker is, to the index of the segment that holds the marker. Entries of 34 bytes,
big-endian: version int16 (0), producer id int64, first offset int64, last offset int64 (the marker's), last stable
offset int64 once the transaction had ended. A segment without an aborted transaction has no such file.
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
    """Raises ValueError for a file of a later version. A cut last entry, as a crash leaves it, is passed over."""
    entries = []
    for version, *fields in _ENTRY.iter_unpack(data[: len(data) // ENTRY_SIZE * ENTRY_SIZE]):
        if version > _VERSION:
            raise ValueError(f"an aborted transaction of version {version}")
        entries.append(AbortedTransaction(*fields))
    return entries
