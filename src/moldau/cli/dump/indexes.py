"""Files of a log directory other than segments: indexes, producer snapshots, checkpoints, properties."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from moldau.cli.dump.batches import read_file
from moldau.core.log.files.checkpoint import decode_leader_epochs, decode_offsets, decode_partition_metadata
from moldau.errors import ProtocolError
from moldau.types import uuid_to_text
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.crc import crc32c

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6
_SNAPSHOT_VERSION = 1
_MAX_SEQUENCE = 0x7FFFFFFF


def offset_entries(path: Path) -> Iterator[tuple[int, int]]:
    """(offset, position) of each entry. The index of a running broker is preallocated: zeros mark its end."""
    base = int(path.stem)
    for number, (relative, position) in enumerate(_entries(path, OFFSET_ENTRY)):
        if number > 0 and relative == 0:
            return
        yield base + relative, position


def time_entries(path: Path) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of each entry, as `offset_entries`."""
    base = int(path.stem)
    for number, (timestamp, relative) in enumerate(_entries(path, TIME_ENTRY)):
        if number > 0 and relative == 0:
            return
        yield timestamp, base + relative


def dump_offset_index(path: Path) -> tuple[list[str], list[str]]:
    """The entries, and their mismatches with the segment next to the file."""
    last_offsets = _last_offsets(path)
    lines: list[str] = []
    mismatches: list[str] = []
    for number, (offset, position) in enumerate(offset_entries(path)):
        lines.append(f"offset: {offset} position: {position}")
        found = last_offsets.get(position)
        if number > 0 and last_offsets and found != offset:
            mismatches.append(f"  Index offset: {offset}, log offset: {-1 if found is None else found}")
    return lines, [f"Mismatches in :{path.absolute()}", *mismatches] if mismatches else []


def dump_time_index(path: Path) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    mismatches: list[str] = []
    last = -1
    for timestamp, offset in time_entries(path):
        lines.append(f"timestamp: {timestamp} offset: {offset}")
        if timestamp < last:
            mismatches.append(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {last}")
        last = timestamp
    return lines, [f"Found out of order timestamp in :{path.absolute()}", *mismatches] if mismatches else []


def dump_transaction_index(path: Path) -> list[str]:
    return [
        f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
        f"lastStableOffset: {stable}"
        for version, producer_id, first, last, stable in _entries(path, _TRANSACTION_ENTRY)
    ]


def dump_producer_snapshot(path: Path) -> list[str]:
    """Raises ValueError for a truncated or damaged file."""
    data = path.read_bytes()
    if len(data) >= 2 and int.from_bytes(data[:2], "big", signed=True) != _SNAPSHOT_VERSION:
        version = int.from_bytes(data[:2], "big", signed=True)
        raise ValueError(f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}")
    if len(data) < _SNAPSHOT_HEADER.size:
        raise ValueError("Snapshot failed schema validation: the file is cut")
    _, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    entries = data[_SNAPSHOT_HEADER.size :]
    if count < 0 or len(entries) < count * _SNAPSHOT_ENTRY.size:
        raise ValueError("Snapshot failed schema validation: the file is cut")
    if (computed := crc32c(data[_CRC_END:])) != crc:
        raise ValueError(f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}")
    lines: list[str] = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(entries[: count * _SNAPSHOT_ENTRY.size]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first = fields
        open_from = "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]"
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} "
            f"currentTxnFirstOffset: {open_from} lastTimestamp: {timestamp}"
        )
        if last_offset >= 0:
            line += (
                f" firstSequence: {(last_sequence - delta) & _MAX_SEQUENCE} lastSequence: {last_sequence} "
                f"lastOffset: {last_offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        lines.append(line)
    return lines


def dump_text_file(path: Path) -> list[str]:
    """The lines of a checkpoint or properties file, which Kafka's tool skips. Raises ValueError for invalid content."""
    data = path.read_bytes()
    if path.name == "leader-epoch-checkpoint":
        return [f"epoch: {epoch} startOffset: {offset}" for epoch, offset in decode_leader_epochs(data)]
    if path.name == "partition.metadata":
        return [f"topicId: {uuid_to_text(decode_partition_metadata(data))}"]
    if path.name.endswith("-checkpoint"):
        return [f"partition: {partition} offset: {offset}" for partition, offset in decode_offsets(data).items()]
    return data.decode("utf-8").splitlines()


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    data = path.read_bytes()
    return entry.iter_unpack(data[: len(data) - len(data) % entry.size])


def _last_offsets(path: Path) -> dict[int, int]:
    """position -> last offset, for each batch of the index's segment; empty if the segment is missing."""
    segment = path.with_suffix(".log")
    if not segment.is_file():
        return {}
    try:
        return {position: header.last_offset for position, header in iterate_batches(memoryview(read_file(segment)))}
    except ProtocolError:
        return {}
