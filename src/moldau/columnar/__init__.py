"""Topics as Arrow: `read_topic` gives record batches. Usable alone, without Spark; needs `moldau[columnar]`."""

from __future__ import annotations

from moldau.columnar.decode import TOPIC_SCHEMA, DecodeSettings
from moldau.columnar.reader import PartitionRange, RangeReader, ReaderSettings, read_range, read_topic, resolve_ranges

__all__ = [
    "TOPIC_SCHEMA",
    "DecodeSettings",
    "PartitionRange",
    "RangeReader",
    "ReaderSettings",
    "read_range",
    "read_topic",
    "resolve_ranges",
]
