"""Rows as the bytes of an object. The same rows give the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.types import BinaryType, DataType, Row, StringType, StructField, StructType

from moldau.connect.running.arrow import record_batches
from moldau.connectors.json_values import json_maker, json_text, to_json
from moldau.connectors.s3.avro import avro_maker, avro_schema

COMPRESSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "parquet": ("snappy", "zstd", "gzip", "none"),
    "json": ("none", "gzip"),
    "avro": ("deflate", "none"),
}
"""By format, the default first."""
_FAST_GZIP: Final = 6

Encode = Callable[[Sequence[Any]], bytes]
"""Raises ValueError for a row that the format cannot hold."""


def extension(form: str, compression: str) -> str:
    return f"{form}.gz" if form == "json" and compression == "gzip" else form


def encoder(form: str, compression: str, kind: DataType) -> Encode:
    """`kind`: of the rows; one that is no struct becomes the column `value`, except in JSON. Raises SchemaError."""
    if form == "json":
        return _json_encoder(kind, compression == "gzip")
    make_row = (lambda row: row) if isinstance(kind, StructType) else Row("value")
    schema = kind if isinstance(kind, StructType) else StructType([StructField("value", kind)])
    if form == "avro":
        return _avro_encoder(schema, make_row, "null" if compression == "none" else compression)
    return _parquet_encoder(schema, make_row, compression)


def _json_encoder(kind: DataType, is_packed: bool) -> Encode:
    make = json_maker(kind)

    def line(row: Any) -> bytes:
        return to_json(make(row)).encode()

    write = json_text if isinstance(kind, BinaryType | StringType) else line

    def encode(rows: Sequence[Any]) -> bytes:
        made = b"".join(write(row) + b"\n" for row in rows)
        return gzip.compress(made, _FAST_GZIP, mtime=0) if is_packed else made

    return encode


def _avro_encoder(schema: StructType, make_row: Callable[[Any], Any], codec: str) -> Encode:
    import fastavro

    parsed, make = fastavro.parse_schema(avro_schema(schema)), avro_maker(schema)
    marker = hashlib.md5(repr(parsed).encode(), usedforsecurity=False).digest()  # fastavro's own is random

    def encode(rows: Sequence[Any]) -> bytes:
        made = io.BytesIO()
        fastavro.writer(made, parsed, [make(make_row(row)) for row in rows], codec, sync_marker=marker)
        return made.getvalue()

    return encode


def _parquet_encoder(schema: StructType, make_row: Callable[[Any], Any], compression: str) -> Encode:
    import pyarrow as pa
    import pyarrow.parquet as pq

    list(
        record_batches(iter([Row(*schema.names)(*[None] * len(schema))]), schema)
    )  # raises for a type that Arrow lacks

    def encode(rows: Sequence[Any]) -> bytes:
        table = pa.Table.from_batches(list(record_batches(map(make_row, rows), schema)))
        made = io.BytesIO()
        pq.write_table(table, made, compression=compression)
        return made.getvalue()

    return encode
