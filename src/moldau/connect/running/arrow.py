"""Rows of a sink as record batches of Arrow. Needs pyarrow, which the writer needs too."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from itertools import islice
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    Row,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from moldau.connect.contract.schemas import SchemaError

ROWS_OF_A_BATCH: Final = 10_000
"""As Spark's `spark.sql.execution.arrow.maxRecordsPerBatch`."""

_PLAIN: Final[tuple[tuple[type[DataType], str], ...]] = (
    (BooleanType, "bool_"),
    (ByteType, "int8"),
    (ShortType, "int16"),
    (IntegerType, "int32"),
    (LongType, "int64"),
    (FloatType, "float32"),
    (DoubleType, "float64"),
    (StringType, "string"),
    (BinaryType, "binary"),
    (DateType, "date32"),
)


def record_batches(rows: Iterator[Row], schema: StructType) -> Iterator[Any]:
    """Raises SchemaError for a column without a schema (VARIANT)."""
    import pyarrow as pa

    keep_pandas_out()
    arrow_schema = pa.schema([(one.name, _type(one.dataType)) for one in schema.fields])
    while chunk := list(islice(rows, ROWS_OF_A_BATCH)):
        columns = [
            pa.array([_plain(row[place]) for row in chunk], kind) for place, kind in enumerate(arrow_schema.types)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=arrow_schema)


def keep_pandas_out() -> None:
    """pyarrow imports pandas, which needs 50 MB, at its first array from a list, only to know series. After a failed
    import it does so no more; `to_pandas` still imports it. Does nothing if a connector has imported pandas, or does
    not use pyarrow."""
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is None or "pandas" in sys.modules:
        return
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        arrow.array([])
    finally:
        sys.meta_path.remove(finder)


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "pandas":
            raise ImportError("pandas is not imported for the first array")


def _type(kind: DataType) -> Any:
    import pyarrow as pa

    if isinstance(kind, StructType):
        return pa.struct([(one.name, _type(one.dataType)) for one in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(_type(kind.elementType))
    if isinstance(kind, MapType):
        return pa.map_(_type(kind.keyType), _type(kind.valueType))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, TimestampType):
        return pa.timestamp("us", tz="UTC")
    for spark, name in _PLAIN:
        if isinstance(kind, spark):
            return getattr(pa, name)()
    raise SchemaError(f"Arrow has no column for {kind.simpleString()}: the values need a converter with schemas")


def _plain(value: Any) -> Any:
    """Rows as dicts, maps as pairs, times with their zone."""
    if isinstance(value, Row):
        return {name: _plain(one) for name, one in zip(value.__fields__, value, strict=True)}
    if isinstance(value, dict):
        return [(name, _plain(one)) for name, one in value.items()]
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return value
