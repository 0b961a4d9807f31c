"""Python data sources of users: the format of a session, and a sink of one micro-batch after the other."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle as untyped_cloudpickle
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.datasource import CaseInsensitiveDict, DataSource, DataSourceStreamArrowWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

cloudpickle: Any = untyped_cloudpickle


def register_data_source(spark: SparkSession, found: type[DataSource]) -> str:
    """Makes the class a format of the session; returns its name."""
    pickle_with_code(found)
    spark.dataSource.register(found)
    return found.name()


def write_batch(batch: DataFrame, batch_id: int, found: type[DataSource], options: Mapping[str, str]) -> None:
    """Does what a streaming query of Spark does with its `streamWriter`: tasks write, then the driver commits once.
    `batch_id`: also when a batch is repeated. Raises what the class raises, after its `abort`."""
    pickle_with_code(found)
    writer: Any = found(CaseInsensitiveDict(options)).streamWriter(batch.schema, False)
    try:
        written = batch.mapInArrow(_Writing(writer, batch.schema), "message binary").collect()
    except BaseException:
        writer.abort([], batch_id)  # no message of a task is known
        raise
    writer.commit([cloudpickle.loads(bytes(row.message)) for row in written], batch_id)


class _Writing:
    """In a task: writes the rows of a partition, and gives the writer's message."""

    def __init__(self, writer: Any, schema: StructType) -> None:
        self._writer = writer
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        message = self._writer.write(batches if takes_arrow(self._writer) else rows_of_arrow(batches, self._schema))
        yield pa.record_batch([pa.array([cloudpickle.dumps(message)], pa.binary())], ["message"])


def takes_arrow(writer: object) -> bool:
    """Whether a writer of streams takes record batches."""
    return isinstance(writer, DataSourceStreamArrowWriter)


def rows_of_arrow(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[Any]:
    """Rows as Spark gives them to Python."""
    import pyarrow as pa

    for batch in batches:
        yield from ArrowTableToRowsConversion.convert(pa.Table.from_batches([batch]), schema)


def pickle_with_code(found: type[DataSource]) -> None:
    """A module that is not installed is one of the user's own folder: tasks get its code, and need not import it."""
    package = found.__module__.partition(".")[0]
    module = sys.modules.get(package)
    file = getattr(module, "__file__", None)
    if module is None or file is None or package == __name__.partition(".")[0]:
        return
    roots = (Path(sysconfig.get_paths()[name]) for name in ("purelib", "platlib", "stdlib"))
    if not any(root in Path(file).resolve().parents for root in roots):
        cloudpickle.register_pickle_by_value(module)
