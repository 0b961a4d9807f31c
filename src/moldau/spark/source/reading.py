"""Reads a task's ranges as Arrow batches in the schema that Spark expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import from_arrow_schema

from moldau.columnar.decode import DecodeSettings
from moldau.columnar.reader import PartitionRange, RangeReader, ReaderSettings
from moldau.errors import KafkaError
from moldau.spark.options import SourceOptions
from moldau.spark.source.client_pool import ClientPool
from moldau.spark.source.offsets import DataLossError
from moldau.types import ZERO_UUID

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

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

_FARTHEST_MS = (2**63 - 1) // 1_000
"""The farthest time before and after 1970: Spark counts microseconds in 64 bits."""

SCHEMA = pa.schema(_COLUMNS)
SCHEMA_WITH_HEADERS = pa.schema((*_COLUMNS, pa.field("headers", _HEADERS_TYPE)))
"""The schema that Spark derives from the columns' types; it accepts only Arrow batches of exactly this schema."""


class Decoding(msgspec.Struct, frozen=True):
    """A column that the reading tasks add: the result of `function` for the values, of the Arrow type `kind`. In rows
    where it is not null, the value itself becomes null, to avoid sending it to the JVM.

    It is sent to the tasks: only module-level classes and plain values.
    """

    column: str
    kind: pa.DataType
    function: Callable[[pa.Array], pa.Array]

    def schema(self, *, include_headers: bool) -> StructType:
        columns = SCHEMA_WITH_HEADERS if include_headers else SCHEMA
        return from_arrow_schema(columns.append(pa.field(self.column, self.kind)))

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        made = self.function(batch.column("value"))
        left = pc.if_else(made.is_valid(), pa.scalar(None, pa.binary()), batch.column("value"))
        place = batch.schema.get_field_index("value")
        return batch.set_column(place, batch.schema.field(place), left).append_column(
            pa.field(self.column, self.kind), made
        )


_LOSSES = ("OFFSET_OUT_OF_RANGE", "INCONSISTENT_TOPIC_ID", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION")
"""Errors for a range that existed when it was planned."""

CLIENTS = ClientPool()
"""Per process: Spark gives the process of a worker one task after another."""


def read_ranges(options: SourceOptions, ranges: Sequence[PartitionRange]) -> Iterator[pa.RecordBatch]:
    """Every record of the ranges, in the order of offsets within a partition.

    The driver has asked the cluster for the ranges before, so an unresponsive broker counts as lost, and is retried for
    `retryTimeoutMs`.

    Raises DataLossError if offsets are gone and the options say that this fails the query; KafkaError.
    """
    settings = ReaderSettings(
        isolation=options.isolation,
        batch_bytes=options.fetch_max_bytes,
        on_data_loss="fail" if options.fail_on_data_loss else "skip",
        decode=DecodeSettings(
            include_headers=options.include_headers, include_timestamp_type=True, check_crcs=options.check_crcs
        ),
    )
    try:
        with CLIENTS.borrow(options.access) as client:
            for span in ranges:
                if span.topic_id == ZERO_UUID:
                    # the client may remember another topic of the same name, which only the id would show
                    client.forget(span.topic)
            with RangeReader(client, ranges, settings) as reader:
                yield from _batches(reader, options)
    except KafkaError as error:
        if error.name in _LOSSES:
            raise DataLossError(
                f"records were lost: {error}. To continue without them, set failOnDataLoss to false"
            ) from error
        raise


def _batches(reader: RangeReader, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    for topic_partition, batch in reader:
        yield to_spark(batch, topic_partition.topic, include_headers=options.include_headers)


def to_spark(batch: pa.RecordBatch, topic: str, *, include_headers: bool) -> pa.RecordBatch:
    """A batch of `moldau.columnar` in the source's schema. Only the timestamps are converted (ms to us)."""
    columns = [
        batch.column("key"),
        batch.column("value"),
        pa.repeat(pa.scalar(topic, pa.string()), batch.num_rows),
        batch.column("partition"),
        batch.column("offset"),
        _microseconds(batch.column("timestamp")),
        batch.column(TIMESTAMP_TYPE),
    ]
    if not include_headers:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return pa.RecordBatch.from_arrays(
        [*columns, batch.column("headers").cast(_HEADERS_TYPE)], schema=SCHEMA_WITH_HEADERS
    )


def _microseconds(timestamps: pa.Array) -> pa.Array:
    """Null for times outside of Spark's range, such as those of a producer that counts in nanoseconds. Any other time
    would be wrong, and could move a watermark."""
    kind = SCHEMA.field("timestamp").type
    try:
        return timestamps.cast(kind)
    except pa.ArrowInvalid:
        milliseconds = timestamps.cast(pa.int64())
        fits = pc.and_(pc.less_equal(milliseconds, _FARTHEST_MS), pc.greater_equal(milliseconds, -_FARTHEST_MS))
        return pc.if_else(fits, milliseconds, pa.scalar(None, pa.int64())).cast(timestamps.type).cast(kind)
