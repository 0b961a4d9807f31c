"""Topics as Arrow: `read_topic` gives record batches, `TopicWriter` takes them.

Usable alone, without Spark, on Moldau and on Apache Kafka; needs the extra `columnar`.
"""

from __future__ import annotations

from moldau.extras import require_extra

require_extra("moldau.columnar", "columnar")

from moldau.client.protocol.access import ClusterAccess
from moldau.columnar.decode import TOPIC_SCHEMA, DecodeSettings
from moldau.columnar.reader import PartitionRange, RangeReader, ReaderSettings, read_range, read_topic, resolve_ranges
from moldau.columnar.transactional_writer import TransactionalWriter
from moldau.columnar.writer import TopicWriter, Written, write_table

__all__ = [
    "TOPIC_SCHEMA",
    "ClusterAccess",
    "DecodeSettings",
    "PartitionRange",
    "RangeReader",
    "ReaderSettings",
    "TopicWriter",
    "TransactionalWriter",
    "Written",
    "read_range",
    "read_topic",
    "resolve_ranges",
    "write_table",
]
