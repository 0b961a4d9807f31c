"""The columns of a record.

A source whose schema has exactly the columns of SOURCE_COLUMNS gives whole records. Any other source gives values: a
row becomes a struct, and the configuration names the topic.

- `topic`: STRING. `partition`: INT, null lets the producer choose. `timestamp`: TIMESTAMP, null is the time of sending.
- `key`, `value`: BINARY or STRING, which a converter gets as they are; or a struct. A null value is a tombstone.
- The struct of ENVELOPE_FIELDS has its own schema in each row: both fields are STRING, in the form of Kafka Connect's
  JsonConverter. Any other struct has the schema of the column.
- `headers`: ARRAY<STRUCT<key: STRING, value: BINARY>>.

A sink gets rows in one of two forms. "record" has the columns of Spark's Kafka source (SINK_COLUMNS); `key` and `value`
have the type that the converter gives. "value" has the fields of the value's struct alone, as a data source that was
written for Spark expects them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SOURCE_COLUMNS: Final = ("topic", "partition", "key", "value", "headers", "timestamp")
SINK_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
ENVELOPE_FIELDS: Final = ("schema", "payload")

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))


def gives_records(schema: StructType) -> bool:
    """Whether a source with this schema gives whole records."""
    return sorted(schema.names) == sorted(SOURCE_COLUMNS)


def is_envelope(kind: DataType) -> bool:
    """Whether each row brings the schema of this column's values."""
    return (
        isinstance(kind, StructType)
        and tuple(kind.names) == ENVELOPE_FIELDS
        and all(isinstance(one.dataType, StringType) for one in kind.fields)
    )


def source_schema(key: DataType | None = None, value: DataType | None = None) -> StructType:
    """The schema of a source that gives whole records. None is BINARY."""
    return StructType(
        [
            StructField("topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("key", key or BinaryType()),
            StructField("value", value or BinaryType()),
            StructField("headers", HEADERS),
            StructField("timestamp", TimestampType()),
        ]
    )


def sink_schema(key: DataType | None = None, value: DataType | None = None) -> StructType:
    """The schema of a sink's rows of the form "record". None is BINARY."""
    return StructType(
        [
            StructField("key", key or BinaryType()),
            StructField("value", value or BinaryType()),
            StructField("topic", StringType()),
            StructField("partition", IntegerType()),
            StructField("offset", LongType()),
            StructField("timestamp", TimestampType()),
            StructField("headers", HEADERS),
        ]
    )
