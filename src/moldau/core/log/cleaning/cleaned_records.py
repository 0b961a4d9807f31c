"""The records of a batch that compaction keeps. These loops read every record of a compacted topic.

They read only the needed parts of a record (its end, its offset, its key, whether it has a value), copy the bytes of
kept records unchanged, and pause after SLICE_RECORDS records, about 1 ms. The layout of a record, all numbers zigzag
varints: length, attributes (1 byte), timestamp delta, offset delta, key length, key, value length (negative: null)...
"""

from __future__ import annotations

from collections.abc import Generator

from moldau.core.log.cleaning.key_offsets import SHORT_KEY_BYTES, KeyOffsets, short_key
from moldau.errors import ProtocolError
from moldau.wire.records.varint import VARLONG_BYTES, decode_varint, encode_varint

SLICE_RECORDS = 1000


class KeptRecords:
    """The kept records of a batch. `parts` are pieces of its decompressed payload."""

    __slots__ = ("count", "has_tombstone", "max_timestamp_delta", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.count = 0
        self.has_tombstone = False
        """A tombstone that compaction knows to be the last record of its key: its deletion is scheduled."""
        self.max_timestamp_delta = -(1 << 63)


def learn_keys(
    payload: bytes, record_count: int, base_offset: int, start_offset: int, known: KeyOffsets
) -> Generator[int, None, bool]:
    """Puts the keys of the records from `start_offset` on into the map. False if it is full; then `known.end_offset` is
    the first record without a place. Raises ProtocolError for a cut record."""
    offsets, capacity = known.offsets, known.capacity
    position = 0
    try:
        for index in range(record_count):
            if index and index % SLICE_RECORDS == 0:
                yield 0
            end, position = _enter_record(payload, position)
            while payload[position] >= 0x80:
                position += 1
            position += 1
            byte = payload[position]
            if byte < 0x80:
                offset = base_offset + (byte >> 1)
                position += 1
            else:
                delta, position = decode_varint(payload, position)
                offset = base_offset + delta
            byte = payload[position]
            if byte < 0x80:
                key_end = position + 1 + (byte >> 1)
                is_null = byte & 1
                position += 1
            else:
                length, position = decode_varint(payload, position)
                key_end = position + length
                is_null = length < 0
            if not is_null and offset >= start_offset:
                key = payload[position:key_end]
                if len(offsets) >= capacity:
                    known.end_offset = offset
                    return False
                offsets[key if len(key) <= SHORT_KEY_BYTES else short_key(key)] = offset
            position = end
    except IndexError:
        raise ProtocolError(f"a record is cut at {len(payload)} bytes") from None
    if position != len(payload):
        raise ProtocolError(f"the records end at {position} of {len(payload)} bytes")
    return True


def keep_records(
    payload: bytes, record_count: int, base_offset: int, known: KeyOffsets, *, are_tombstones_kept: bool
) -> Generator[int, None, KeptRecords]:
    """The records that are the last of their key, as far as the map knows. As in Kafka, a record without a key is
    removed: it is older than the compaction policy. `are_tombstones_kept`: the delete horizon of the batch is in the
    future."""
    offsets, end_offset = known.offsets, known.end_offset
    kept = KeptRecords()
    parts = kept.parts
    largest_delta = kept.max_timestamp_delta
    position = run_start = count = 0
    try:
        for index in range(record_count):
            if index and index % SLICE_RECORDS == 0:
                yield 0
            start = position
            end, position = _enter_record(payload, position)
            byte = payload[position]
            if byte < 0x80:
                timestamp_delta, position = byte >> 1 ^ -(byte & 1), position + 1
            else:
                timestamp_delta, position = decode_varint(payload, position, VARLONG_BYTES)
            byte = payload[position]
            delta, position = (byte >> 1, position + 1) if byte < 0x80 else decode_varint(payload, position)
            offset = base_offset + delta
            is_kept = True
            if offset < end_offset:
                byte = payload[position]
                if byte < 0x80:
                    length, position = byte >> 1 ^ -(byte & 1), position + 1
                else:
                    length, position = decode_varint(payload, position)
                key_end = position + length
                is_kept = length >= 0
                if is_kept:
                    key = payload[position:key_end]
                    last_offset = offsets.get(key if len(key) <= SHORT_KEY_BYTES else short_key(key), -1)
                    is_kept = offset >= last_offset
                    if is_kept and payload[key_end] & 1:
                        is_kept = are_tombstones_kept
                        kept.has_tombstone |= is_kept
            position = end
            if is_kept:
                count += 1
                if timestamp_delta > largest_delta:
                    largest_delta = timestamp_delta
                continue
            if run_start < start:
                parts.append(payload[run_start:start])
            run_start = end
    except IndexError:
        raise ProtocolError(f"a record is cut at {len(payload)} bytes") from None
    if position != len(payload):
        raise ProtocolError(f"the records end at {position} of {len(payload)} bytes")
    if run_start < position:
        parts.append(payload[run_start:position])
    kept.count, kept.max_timestamp_delta = count, largest_delta
    return kept


def move_timestamps(payload: bytes, record_count: int, shift_ms: int) -> Generator[int, None, bytes]:
    """The records with `shift_ms` added to each timestamp delta, for another base timestamp."""
    parts: list[bytes] = []
    position = 0
    for index in range(record_count):
        if index and index % SLICE_RECORDS == 0:
            yield 0
        end, position = _enter_record(payload, position)
        delta, behind = decode_varint(payload, position, VARLONG_BYTES)
        body = payload[position - 1 : position] + encode_varint(delta + shift_ms) + payload[behind:end]
        parts.append(encode_varint(len(body)))
        parts.append(body)
        position = end
    return b"".join(parts)


def _enter_record(payload: bytes, position: int) -> tuple[int, int]:
    """(end of the record at `position`, position of its timestamp delta)."""
    byte = payload[position]
    second = payload[position + 1]
    if byte < 0x80:
        return position + 1 + (byte >> 1), position + 2
    if second < 0x80:
        return position + 2 + ((byte & 0x7F | second << 7) >> 1), position + 3
    length, position = decode_varint(payload, position)
    return position + length, position + 1
