"""The aborted transactions of one segment, Kafka's `.txnindex`: what readers of committed records skip (KIP-98).

An entry is written when the abort marker is, to the index of the segment that holds the marker. Entries of 34 bytes,
big-endian: version int16 (0), producer id int64, first offset int64, last offset int64 (the marker's), last stable
offset int64 once the transaction had ended. A segment without an aborted transaction has no such file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from moldau.core.log.segment import TRANSACTION_INDEX_SUFFIX, Segment, write_whole_file

_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_VERSION = 0
_last_offset_of = attrgetter("last_offset")


class AbortedTransaction(msgspec.Struct, frozen=True):
    """Records of `producer_id` from `first_offset` up to the marker at `last_offset` do not count."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_transactions(transactions: Iterable[AbortedTransaction]) -> bytes:
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


def find_aborted(segments: Sequence[Segment], start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in [start, end). A marker may lie segments behind the records, so the
    search goes on until an entry says that every transaction before the end had ended."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        if segment.next_offset <= start_offset:
            continue
        entries = load_transactions(segment)
        # they stand in the order of their markers
        for place in range(bisect_left(entries, start_offset, key=_last_offset_of), len(entries)):
            entry = entries[place]
            if entry.first_offset < end_offset:
                found.append(entry)
            if entry.last_stable_offset >= end_offset:
                return found
    return found


def load_transactions(segment: Segment) -> Sequence[AbortedTransaction]:
    """The segment's entries: read once from its file, if it has one."""
    if segment.aborted_transactions is None:
        try:
            entries = decode_transactions(segment.disk.read_file(segment.path(TRANSACTION_INDEX_SUFFIX)))
        except FileNotFoundError:
            entries = []
        segment.aborted_transactions = tuple(entries)
    return segment.aborted_transactions


def save_transactions(segment: Segment, entries: Sequence[AbortedTransaction]) -> None:
    """Writes the index anew, in the page cache only: recovery has read the segment."""
    segment.aborted_transactions = tuple(entries)
    path = segment.path(TRANSACTION_INDEX_SUFFIX)
    if entries:
        write_whole_file(segment.disk, path, encode_transactions(entries))
    elif segment.disk.exists(path):
        segment.disk.remove(path)
