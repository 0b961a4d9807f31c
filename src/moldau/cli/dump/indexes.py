"""All files of a log directory but the segments: indexes, producer snapshots, checkpoints, properties."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from moldau.cli.dump.batches import read_file
from moldau.core.log.checkpoint import decode_leader_epochs, decode_offsets, decode_partition_metadata
from moldau.errors import ProtocolError
from moldau.types import uuid_to_text
from moldau.wire.records.batch import iterate_batches
from moldau.wire.records.crc import crc32c

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_SNAPSHOT_HEADER = struct.Struct(">hIi")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CRC_END = 6
_MAX_SEQUENCE = 0x7FFFFFFF


def dump_offset_index(path: Path) -> tuple[list[str], list[str]]:
    """The entries, and where they do not fit the segment beside the file."""
    base = int(path.stem)
    last_offsets = _last_offsets(path)
    lines: list[str] = []
    mismatches: list[str] = []
    for number, (relative, position) in enumerate(_entries(path, _OFFSET_ENTRY)):
        # the file is made long and filled up: zeros are the end
        if number > 0 and relative <= 0:
            break
        offset = base + relative
        lines.append(f"offset: {offset} position: {position}")
        found = last_offsets.get(position)
        if number > 0 and last_offsets and found != offset:
            mismatches.append(f"  Index offset: {offset}, log offset: {-1 if found is None else found}")
    return lines, [f"Mismatches in :{path.absolute()}", *mismatches] if mismatches else []


def dump_time_index(path: Path) -> tuple[list[str], list[str]]:
    base = int(path.stem)
    lines: list[str] = []
    mismatches: list[str] = []
    last = -1
    for number, (timestamp, relative) in enumerate(_entries(path, _TIME_ENTRY)):
        if number > 0 and relative <= 0:
            break
        lines.append(f"timestamp: {timestamp} offset: {base + relative}")
        if timestamp < last:
            mismatches.append(f"  Index timestamp: {timestamp}, prior timestamp: {last}")
        last = timestamp
    return lines, [f"Found out of order timestamp in :{path.absolute()}", *mismatches] if mismatches else []


def dump_transaction_index(path: Path) -> list[str]:
    return [
        f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
        f"lastStableOffset: {stable}"
        for version, producer_id, first, last, stable in _entries(path, _TRANSACTION_ENTRY)
    ]


def dump_producer_snapshot(path: Path) -> list[str]:
    """Raises ValueError for a file that is cut or damaged."""
    data = path.read_bytes()
    if len(data) < _SNAPSHOT_HEADER.size or (len(data) - _SNAPSHOT_HEADER.size) % _SNAPSHOT_ENTRY.size:
        raise ValueError("the producer snapshot is cut")
    _, crc, _ = _SNAPSHOT_HEADER.unpack_from(data)
    if crc32c(data[_CRC_END:]) != crc:
        raise ValueError("the CRC of the producer snapshot does not match")
    lines: list[str] = []
    for fields in _SNAPSHOT_ENTRY.iter_unpack(data[_SNAPSHOT_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first = fields
        open_from = "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]"
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch} "
            f"currentTxnFirstOffset: {open_from} lastTimestamp: {timestamp} "
        )
        if last_offset >= 0:
            line += (
                f"firstSequence: {(last_sequence - delta) & _MAX_SEQUENCE} lastSequence: {last_sequence} "
                f"lastOffset: {last_offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        lines.append(line)
    return lines


def dump_text_file(path: Path) -> list[str]:
    """Checkpoints, which Kafka's tool passes over. Raises ValueError for what is none."""
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
    """position -> last offset of each batch of the segment that the index belongs to; empty where it is not there."""
    segment = path.with_suffix(".log")
    if not segment.is_file():
        return {}
    try:
        return {position: header.last_offset for position, header in iterate_batches(memoryview(read_file(segment)))}
    except ProtocolError:
        return {}
