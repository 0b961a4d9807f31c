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

Decoder = Literal["plain", "offsets", "metadata", "transactions", "share"]
KeyAndPayload = tuple[str | None, str | None]
_MAX_SEQUENCE = 0x7FFFFFFF


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class DumpSettings(msgspec.Struct, frozen=True):
    with_records: bool = False
    with_contents: bool = False
    """Prints keys and values too; has no effect without `with_records`."""
    decoder: Decoder = "plain"
    skips_record_metadata: bool = False
    max_bytes: int | None = None
    """Reads only the whole batches among the first bytes."""
    ends_at_bad_records: bool = False
    """Raises ProtocolError for an unreadable record; otherwise prints a line that says so."""
    read_key: Callable[[bytes], str] = as_text
    """Used by the decoder "plain", as `read_value`; may raise ValueError."""
    read_value: Callable[[bytes], str] = as_text


class Gaps:
    """The gaps between the offsets of the records that were read."""

    def __init__(self) -> None:
        self.found: dict[int, int] = {}
        """Offset -> the next offset that was found."""
        self._last_offset = -1

    def saw(self, offset: int) -> None:
        if offset != self._last_offset + 1:
            self.found[self._last_offset] = offset
        self._last_offset = offset


def dump_batches(
    data: bytes | mmap.mmap, settings: DumpSettings, *, name: str = "the file", gaps: Gaps | None = None
) -> Iterator[str]:
    """A line for each batch and each record. `name`: the file, named in the line about invalid bytes at its end; `gaps`
    receives the offset of each record. Raises ProtocolError with the position if the bytes there are no batch."""
    whole = memoryview(data)
    view = whole if settings.max_bytes is None else whole[: settings.max_bytes]
    read = 0
    try:
        for position, header in iterate_batches(view):
            batch = view[position : position + header.size]
            try:
                yield _batch_line(header, position, is_valid=is_crc_valid(batch, 0, header.size))
                if settings.with_records:
                    yield from _record_lines(batch, header, settings, Gaps() if gaps is None else gaps)
            finally:
                batch.release()
            read = position + header.size
        if settings.max_bytes is None and read < len(view):
            yield f"Found {len(view) - read} invalid bytes at the end of {name}"
    finally:
        view.release()
        whole.release()


def _batch_line(header: BatchHeader, position: int, *, is_valid: bool) -> str:
    has_horizon = bool(header.attributes & DELETE_HORIZON_FLAG)
    horizon = f"OptionalLong[{header.base_timestamp}]" if has_horizon else "OptionalLong.empty"
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)} "
        f"isControl: {_bool(header.is_control)} deleteHorizonMs: {horizon} position: {position} "
        f"{_time_kind(header)}: {header.max_timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {header.compression.name.lower()} crc: {header.crc} isvalid: {_bool(is_valid)}"
    )


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _time_kind(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _record_lines(batch: memoryview, header: BatchHeader, settings: DumpSettings, gaps: Gaps) -> Iterator[str]:
    try:
        records = read_records(batch)
    except ProtocolError as error:
        if settings.ends_at_bad_records:
            raise
        yield f"| cannot be read: {error}"
        return
    for record in records:
        gaps.saw(record.offset)
        line = "" if settings.skips_record_metadata else _metadata_of(record, header)
        try:
            contents = _contents(record, header, settings)
        except ProtocolError:
            if line:
                yield line
            raise
        if contents:
            line = f"{line} {contents}" if line else f"| {contents}"
        yield line


def _metadata_of(record: Record, header: BatchHeader) -> str:
    sequence = -1
    if header.base_sequence >= 0:
        sequence = (header.base_sequence + record.offset - header.base_offset) & _MAX_SEQUENCE
    names = ",".join(name for name, _ in record.headers)
    return (
        f"| offset: {record.offset} {_time_kind(header)}: {record.timestamp} keySize: {_size(record.key)} "
        f"valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{names}]"
    )


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def _contents(record: Record, header: BatchHeader, settings: DumpSettings) -> str:
    """The content of a record. For a control record this belongs to its metadata: without metadata, Kafka's tool omits
    it too."""
    try:
        if header.is_control:
            return "" if settings.skips_record_metadata else decoders.control_record(record.key, record.value)
        if not settings.with_contents:
            return ""
        key, payload = _DECODERS[settings.decoder](record, settings)
    except decoders.DECODE_ERRORS as error:
        if settings.ends_at_bad_records:
            raise ProtocolError(str(error)) from error
        return f"cannot be decoded: {error}"
    return " ".join(f"{name}: {text}" for name, text in (("key", key), ("payload", payload)) if text is not None)


def _plain(record: Record, settings: DumpSettings) -> KeyAndPayload:
    key = None if record.key is None else settings.read_key(record.key)
    return key, None if record.value is None else settings.read_value(record.value)


def _metadata(record: Record, _: DumpSettings) -> KeyAndPayload:
    try:
        return None, decoders.metadata_record(record.value or b"")
    except decoders.DECODE_ERRORS as error:
        return None, f"Error at {record.offset}, skipping. {error}"


def _of_coordinator(
    decode: Callable[[bytes, bytes | None], tuple[str, str]], kinds: frozenset[int]
) -> Callable[[Record, DumpSettings], KeyAndPayload]:
    """A record of another kind gets a sentence instead of its key, as in Kafka's tool; a record without a key is an
    error."""

    def read(record: Record, _: DumpSettings) -> KeyAndPayload:
        if record.key is None:
            raise ProtocolError(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        try:
            kind = decoders.kind_of(record.key)
            if kind not in kinds:
                return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
            return decode(record.key, record.value)
        except decoders.DECODE_ERRORS as error:
            return f"Error at offset {record.offset}, skipping. {error}", None

    return read


_DECODERS: dict[Decoder, Callable[[Record, DumpSettings], KeyAndPayload]] = {
    "plain": _plain,
    "offsets": _of_coordinator(decoders.offsets_record, decoders.OFFSETS_KINDS),
    "metadata": _metadata,
    "transactions": _of_coordinator(decoders.transaction_record, decoders.TRANSACTION_KINDS),
    "share": _of_coordinator(decoders.share_record, decoders.SHARE_KINDS),
}


def read_file(path: Path) -> bytes | mmap.mmap:
    """The bytes of a file, mapped without a copy. Raises OSError."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
