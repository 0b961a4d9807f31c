"""The topic settings that a log uses, as one typed value.

The defaults equal those of the rows in core/config, which imports this module; a test compares them.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from moldau.wire.records.record import NO_RECORD_LIMIT
from moldau.wire.records.rewrite import TargetCompression
from moldau.wire.records.validate import BatchLimits

NO_LIMIT = 0x7FFFFFFFFFFFFFFF


class LogSettings(msgspec.Struct, frozen=True):
    """Kafka's topic settings with `_` for `.`. Times in ms, sizes in bytes, -1: no limit.

    The last five are broker settings: `producer.id.expiration.ms`, the bound on producer ids of a log,
    `moldau.record.validation` and `transaction.partition.verification.enable`.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = NO_LIMIT
    max_decompressed_message_bytes: int = NO_RECORD_LIMIT
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = NO_LIMIT
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    target_compression: TargetCompression | None = None
    """`compression.type` with its level; None: `producer`."""
    producer_id_expiration_ms: int = 86_400_000
    max_producer_ids: int = 100_000
    is_record_validation_full: bool = False
    is_compressed_validated: bool = False
    """Whether every record of a compressed batch is checked, which requires decompression."""
    is_transaction_verified: bool = True
    """`transaction.partition.verification.enable`"""

    @property
    def is_compacted(self) -> bool:
        """Whether `cleanup.policy` has `compact`, alone or with `delete`."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """The time span of a segment. Only sealed segments are compacted, so the compaction lag bounds it too
        (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def is_log_append_time(self) -> bool:
        """Whether the broker sets the timestamps of records: `message.timestamp.type` is LogAppendTime."""
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def batch_limits(self) -> BatchLimits:
        """The limits for a produced batch."""
        return BatchLimits(
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            is_log_append_time=self.is_log_append_time,
            max_decompressed_bytes=self.max_decompressed_message_bytes,
        )
