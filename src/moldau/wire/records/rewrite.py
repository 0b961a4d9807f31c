"""Validates the records of a produced batch, and compresses it again if the topic has its own codec.

In steps, because the first and third are long and release the GIL (Workers), and the second is Python with pauses:

    expand     decompress, bounded by `expansion_limit`
    walk       every record: lengths, counts, offset deltas, keys, timestamps
    pack       compress with the topic's codec and level
    finish     header, the true maximum timestamp, CRC

The records' bytes, base timestamp, producer id, epoch, sequence and the transactional bit do not change. As in Apache
Kafka, a batch with the topic's codec is not compressed again, whatever its level.
"""

from __future__ import annotations

import msgspec

from moldau.types import Buffer, Pausing
from moldau.wire.records.batch import BatchHeader, set_max_timestamp
from moldau.wire.records.builder import assemble_batch
from moldau.wire.records.compression import COMPRESSION_MASK, Compression, compress
from moldau.wire.records.validate import BatchLimits, expand_records, walk_records


class TargetCompression(msgspec.Struct, frozen=True):
    """The codec of a topic's `compression.type` with its level; None: the codec's default."""

    kind: Compression
    level: int | None = None


class BatchRewrite:
    """The rewrite of a batch that passed `check_produced_batch`. `target` None: the producer's codec stays."""

    def __init__(
        self,
        batch: Buffer,
        header: BatchHeader,
        limits: BatchLimits,
        *,
        is_key_required: bool,
        target: TargetCompression | None,
        partition_name: str = "",
    ) -> None:
        self._batch = batch
        self._header = header
        self._limits = limits
        self._is_key_required = is_key_required
        self._partition_name = partition_name
        self._target = target if target is not None and target.kind != header.compression else None
        self._max_timestamp_ms = header.max_timestamp
        self._payload = b""
        self._packed = b""

    @property
    def is_compression_changed(self) -> bool:
        """Whether the batch gets another codec."""
        return self._target is not None

    def expand(self) -> None:
        """Long, without the GIL. Raises INVALID_RECORD."""
        self._payload = expand_records(self._batch, self._header)

    def walk(self, now_ms: int) -> Pausing[None]:
        """Raises INVALID_RECORD, INVALID_TIMESTAMP."""
        self._max_timestamp_ms = yield from walk_records(
            self._payload,
            self._header,
            now_ms=now_ms,
            limits=self._limits,
            is_key_required=self._is_key_required,
            partition_name=self._partition_name,
        )

    def pack(self) -> None:
        """Long, without the GIL."""
        if self._target is not None:
            self._packed = compress(self._target.kind, self._payload, self._target.level)

    def finish(self) -> Buffer:
        """The batch to append, the original one if nothing changes."""
        header, target = self._header, self._target
        max_timestamp_ms = header.max_timestamp if self._limits.is_log_append_time else self._max_timestamp_ms
        if target is None:
            if header.max_timestamp == max_timestamp_ms:
                return self._batch
            corrected = bytearray(self._batch[: header.size])
            set_max_timestamp(corrected, 0, header.size, max_timestamp_ms)
            return corrected
        return assemble_batch(
            self._packed,
            msgspec.structs.replace(
                header,
                base_offset=0,
                attributes=header.attributes & ~COMPRESSION_MASK | target.kind,
                max_timestamp=max_timestamp_ms,
            ),
        )
