"""Segments: their batches, and with a decoder their records."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import msgspec

from moldau.cli.dump import decoders
from moldau.errors import ProtocolError
from moldau.wire.records.batch import DELETE_HORIZON_FLAG, BatchHeader, is_crc_valid, iterate_batches
from moldau.wire.records.record import Record, read_records

Decoder = Literal["plain", "offsets", "metadata", "transactions"]
_MAX_SEQUENCE = 0x7FFFFFFF


class DumpSettings(msgspec.Struct, frozen=True):
    with_records: bool = False
    decoder: Decoder = "plain"
    skips_record_metadata: bool = False
    max_bytes: int | None = None


def dump_batches(data: bytes | mmap.mmap, settings: DumpSettings) -> Iterator[str]:
    """A line for each batch and each record. Raises ProtocolError where something else begins, with its position."""
    view = memoryview(data)
    read = 0
    try:
        for position, header in iterate_batches(view):
            if settings.max_bytes is not None and read >= settings.max_bytes:
                return
            batch = view[position : position + header.size]
            try:
                yield _batch_line(header, position, is_valid=is_crc_valid(batch, 0, header.size))
                if settings.with_records:
                    yield from _record_lines(batch, header, settings)
            finally:
                batch.release()
            read = position + header.size
        if settings.max_bytes is None and read < len(view):
            yield f"Found {len(view) - read} invalid bytes at the end of the file"
    finally:
        view.release()


def _batch_line(header: BatchHeader, position: int, *, is_valid: bool) -> str:
    has_horizon = bool(header.attributes & DELETE_HORIZON_FLAG)
    horizon = f"OptionalLong[{header.base_timestamp}]" if has_horizon else "OptionalLong.empty"
    kind = "LogAppendTime" if header.is_log_append_time else "CreateTime"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)} "
        f"isControl: {_bool(header.is_control)} deleteHorizonMs: {horizon} position: {position} "
        f"{kind}: {header.max_timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {header.compression.name.lower()} crc: {header.crc} isvalid: {_bool(is_valid)}"
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _record_lines(batch: memoryview, header: BatchHeader, settings: DumpSettings) -> Iterator[str]:
    try:
        records = read_records(batch)
    except ProtocolError as error:
        yield f"| cannot be read: {error}"
        return
    kind = "LogAppendTime" if header.is_log_append_time else "CreateTime"
    for record in records:
        sequence = -1
        if header.base_sequence >= 0:
            sequence = (header.base_sequence + record.offset - header.base_offset) & _MAX_SEQUENCE
        head = "| "
        if not settings.skips_record_metadata:
            names = ",".join(name for name, _ in record.headers)
            head += (
                f"offset: {record.offset} {kind}: {record.timestamp} keySize: {_size(record.key)} "
                f"valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{names}] "
            )
        yield (head + _content(record, header, settings.decoder)).rstrip(" ")


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _content(record: Record, header: BatchHeader, decoder: Decoder) -> str:
    try:
        if header.is_control:
            return decoders.control_record(record.key, record.value)
        return _DECODERS[decoder](record)
    except decoders.DECODE_ERRORS as error:
        return f"cannot be decoded: {error}"


def _plain(record: Record) -> str:
    parts = [("key", record.key), ("payload", record.value)]
    return " ".join(f"{name}: {_text(data)}" for name, data in parts if data is not None)


def _offsets(record: Record) -> str:
    key, value = decoders.offsets_record(record.key, record.value)
    return f"key: {key} payload: {value}"


def _metadata(record: Record) -> str:
    return f"payload: {decoders.metadata_record(record.value or b'')}"


def _transactions(record: Record) -> str:
    key, value = decoders.transaction_record(record.key, record.value)
    return f"key: {key} payload: {value}"


_DECODERS: dict[Decoder, Callable[[Record], str]] = {
    "plain": _plain,
    "offsets": _offsets,
    "metadata": _metadata,
    "transactions": _transactions,
}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def read_file(path: Path) -> bytes | mmap.mmap:
    """The file without copying it. Raises OSError."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
