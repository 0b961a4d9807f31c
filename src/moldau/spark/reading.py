"""A task's ranges as Arrow batches in exactly the schema that Spark expects of the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from moldau.columnar.decode import DecodeSettings
from moldau.columnar.reader import PartitionRange, ReaderSettings, read_range
from moldau.errors import KafkaError
from moldau.spark.offsets import DataLossError
from moldau.spark.options import SourceOptions

BATCH_BYTES = 4 * 1024 * 1024
"""Of one Fetch answer, and so of the Arrow batches: larger ones are no faster, and wait longer for the first row."""

TIMESTAMP_TYPE = "timestampType"

_COLUMNS = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field(TIMESTAMP_TYPE, pa.int32()),
)
_HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))

SCHEMA = pa.schema(_COLUMNS)
SCHEMA_WITH_HEADERS = pa.schema((*_COLUMNS, pa.field("headers", _HEADERS_TYPE)))
"""What Spark makes of the columns' types; it takes Arrow batches of exactly this schema and no other."""


def read_ranges(options: SourceOptions, ranges: Sequence[PartitionRange]) -> Iterator[pa.RecordBatch]:
    """Every record of the ranges, in the order of offsets within a partition.

    The ranges come from a driver that asked the cluster for them: a broker that does not answer now is a lost one, and
    is tried for `retryTimeoutMs`.

    Raises DataLossError where offsets are gone and the options say that this fails the query; KafkaError.
    """
    settings = ReaderSettings(
        batch_bytes=BATCH_BYTES,
        on_data_loss="fail" if options.fail_on_data_loss else "skip",
        first_contact_timeout_ms=options.first_contact_timeout_ms,
        retry_timeout_ms=options.retry_timeout_ms,
        had_contact=True,
        decode=DecodeSettings(include_headers=options.include_headers, include_timestamp_type=True),
    )
    try:
        for topic_partition, batch in read_range(options.bootstrap_servers, ranges, settings):
            yield to_spark(batch, topic_partition.topic, include_headers=options.include_headers)
    except KafkaError as error:
        if error.name in ("OFFSET_OUT_OF_RANGE", "INCONSISTENT_TOPIC_ID", "UNKNOWN_TOPIC_ID"):
            raise DataLossError(
                f"records were lost: {error}. To go on without them, set failOnDataLoss to false"
            ) from error
        raise


def to_spark(batch: pa.RecordBatch, topic: str, *, include_headers: bool) -> pa.RecordBatch:
    """A batch of `moldau.columnar` in the source's schema. Only the timestamps are computed anew (ms to us)."""
    rows = batch.num_rows
    milliseconds = np.frombuffer(batch.column("timestamp").cast(pa.int64()).buffers()[1], np.int64, rows)
    columns = [
        batch.column("key"),
        batch.column("value"),
        pa.repeat(pa.scalar(topic, pa.string()), rows),
        batch.column("partition"),
        batch.column("offset"),
        pa.array(milliseconds * 1_000).cast(SCHEMA.field("timestamp").type),
        batch.column(TIMESTAMP_TYPE),
    ]
    if not include_headers:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return pa.RecordBatch.from_arrays(
        [*columns, batch.column("headers").cast(_HEADERS_TYPE)], schema=SCHEMA_WITH_HEADERS
    )
