"""The settings of topics, and those of the broker that act on their logs, as the logs take them."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.core.config.broker_settings import BrokerSettings
from moldau.core.config.topic_settings import TopicSettings, effective_topic_settings
from moldau.core.log.settings import LogSettings
from moldau.wire.records.compression import Compression, compression_from_name
from moldau.wire.records.rewrite import TargetCompression

GZIP_DEFAULT_LEVEL = -1
LZ4_DEFAULT_LEVEL = 9
"""Kafka takes its fast compressor for it, and LZ4 HC for any other level."""


class LogSettingsByOverrides:
    """`log_settings`, worked out once for all topics that set the same: a node may have thousands of them."""

    MAX_KNOWN = 1_000

    def __init__(self, broker: BrokerSettings) -> None:
        self._broker = broker
        self._known: dict[tuple[tuple[str, str], ...], LogSettings] = {}

    def __call__(self, overrides: Mapping[str, str]) -> LogSettings:
        key = tuple(overrides.items())
        settings = self._known.get(key)
        if settings is None:
            if len(self._known) >= self.MAX_KNOWN:
                self._known.clear()
            settings = self._known[key] = log_settings(self._broker, overrides)
        return settings


def target_compression(topic: TopicSettings) -> TargetCompression | None:
    """What `compression.type` and the level of that codec ask for; None: the producer's codec stays."""
    if topic.compression_type == "producer":
        return None
    if topic.compression_type == "uncompressed":
        return TargetCompression(Compression.NONE)
    kind = compression_from_name(topic.compression_type)
    level: int | None = None
    if kind is Compression.GZIP and topic.compression_gzip_level != GZIP_DEFAULT_LEVEL:
        level = topic.compression_gzip_level
    elif kind is Compression.LZ4 and topic.compression_lz4_level != LZ4_DEFAULT_LEVEL:
        level = topic.compression_lz4_level
    elif kind is Compression.ZSTD:
        level = topic.compression_zstd_level
    return TargetCompression(kind, level)


def log_settings(broker: BrokerSettings, overrides: Mapping[str, str]) -> LogSettings:
    """The settings of a topic, and those of the broker that act on its logs, as the log takes them."""
    topic = effective_topic_settings(overrides, broker)
    return LogSettings(
        cleanup_policy=topic.cleanup_policy,
        delete_retention_ms=topic.delete_retention_ms,
        file_delete_delay_ms=topic.file_delete_delay_ms,
        flush_messages=topic.flush_messages,
        flush_ms=topic.flush_ms,
        index_interval_bytes=topic.index_interval_bytes,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        max_message_bytes=topic.max_message_bytes,
        message_timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        message_timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        message_timestamp_type="LogAppendTime" if topic.message_timestamp_type == "LogAppendTime" else "CreateTime",
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        retention_bytes=topic.retention_bytes,
        retention_ms=topic.retention_ms,
        segment_bytes=topic.segment_bytes,
        segment_index_bytes=topic.segment_index_bytes,
        segment_jitter_ms=topic.segment_jitter_ms,
        segment_ms=topic.segment_ms,
        target_compression=target_compression(topic),
        producer_id_expiration_ms=broker.producer_id_expiration_ms,
        max_producer_ids=broker.moldau_producer_ids,
        is_record_validation_full=broker.moldau_record_validation == "full",
        is_compressed_validated=broker.moldau_record_validation == "compressed",
    )
