"""Topics as Arrow: `read_topic` returns record batches, `TopicWriter` writes them.

It works without Spark, on Moldau and on Apache Kafka, and needs the extra `columnar`.

claims: decides which of several writers of one producer owns a partition
decode: record batches to Arrow columns
encode: Arrow columns to record batches
equal_keys: one form for keys that are equal in SQL (0.0 and -0.0, NaN)
nested: replaces arrays inside nested arrays
origins: columns with the origin of a row, for errors
partitioner: the partition of a record: murmur2 of its key, or sticky runs
reader: `read_topic` for users, `RangeReader` for tasks
record_splits: record starts inside a batch, to walk its pieces together
record_starts: where each record of a batch begins
tail: reads partitions without an end
texts: text columns with valid UTF-8
transactional_writer: tables and offsets in transactions (KIP-98, 447, 890)
varints: many varints at once
writer: `TopicWriter`: tables by an idempotent producer
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
