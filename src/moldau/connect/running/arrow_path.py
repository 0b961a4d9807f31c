"""Decides whether a task moves whole record batches of Arrow, or single records.

A task moves record batches if all of these hold; any other task goes on with single records:

- `numpy` and `pyarrow` are installed, and the worker gives the task its access to the cluster.
- No transform is set, and the converters keep keys and values as they are (StringConverter in UTF-8,
  ByteArrayConverter).
- A source: the rows are whole records, and its simple reader has `readArrow`. The cluster has transactions v2. No
  `producer.override.*` is set but `compression.type`.
- A sink: the writer takes Arrow (DataSourceStreamArrowWriter, or `writeArrow`), and its rows have the columns of a
  record. The header converter is SimpleHeaderConverter or ByteArrayConverter. No `consumer.override.*` is set.
"""

from __future__ import annotations

import threading
from importlib.util import find_spec
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, DataSourceStreamWriter
from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from moldau.client.admin.features import describe_features
from moldau.client.protocol.access import AccessError, ClusterAccess
from moldau.connect.contract.columns import gives_records, sink_schema
from moldau.connect.contract.describing import Reading, RowColumns
from moldau.connect.contract.shared_settings import BATCH_ROWS, ROW_COLUMNS
from moldau.connect.converting.converter import Converter
from moldau.connect.converting.simple_headers import SimpleHeaderConverter
from moldau.connect.handling.stages import error_settings
from moldau.connect.running.clients import COMPRESSION, CONSUMER_OVERRIDES, PRODUCER_OVERRIDES, overrides
from moldau.connect.running.connector import Connector
from moldau.connect.running.conversion import Conversion, keeps_bytes, keeps_texts
from moldau.connect.running.errors import Errors
from moldau.connect.running.protocol import Task
from moldau.transport.access import open_admin

RETRY_MS: Final = 15_000
"""Within the time that a task has to stop."""
ROWS: Final = 100_000
"""Rows of a batch, if `batch.max.rows` is not set: they cost less memory than single records."""
_TRANSACTION_VERSION: Final = 2


def arrow_batch_rows(task: Task, used: Connector) -> int:
    return int(used.values[BATCH_ROWS]) if BATCH_ROWS in task.config else ROWS


def access_of(task: Task) -> ClusterAccess:
    """For our own clients, where the worker gives it. Raises AccessError."""
    given = {**(task.access or {}), "bootstrap.servers": task.bootstrap_servers}
    access = ClusterAccess.from_properties(given).named(f"connector-{task.connector}-{task.slot}")
    return msgspec.structs.replace(access, retry_timeout_ms=RETRY_MS)


def is_arrow_source(
    task: Task, used: Connector, source: DataSource, schema: StructType, conversion: Conversion
) -> bool:
    if not _is_possible(task, conversion) or set(overrides(task.config, PRODUCER_OVERRIDES)) - {COMPRESSION}:
        return False
    if used.reading() is not Reading.SIMPLE or not gives_records(schema):
        return False
    if not _is_kept(schema["value"].dataType, conversion.value):
        return False
    return hasattr(source.simpleStreamReader(schema), "readArrow") and _has_transactions(task)


def arrow_writer(task: Task, used: Connector) -> tuple[StructType, DataSourceStreamWriter] | None:
    """The writer of a task that moves record batches, and the schema of its rows. Raises ConfigError."""
    conversion = Conversion(task.config, task.defaults, Errors(error_settings(task.config), task, threading.Event()))
    columns = used.values[ROW_COLUMNS] or used.description.row_columns
    key, value = _kind(conversion.key), _kind(conversion.value)
    has_headers = keeps_bytes(conversion.header) or type(conversion.header) is SimpleHeaderConverter
    is_possible = _is_possible(task, conversion) and has_headers and columns == RowColumns.RECORD
    conversion.close()
    if not is_possible or key is None or value is None or overrides(task.config, CONSUMER_OVERRIDES):
        return None
    schema = sink_schema(key, value)
    try:
        writer = used.new(task).streamWriter(schema, False)
    except Exception:
        return None  # the task fails with it when it has a batch
    return (schema, writer) if write_arrow_of(writer) is not None else None


def write_arrow_of(writer: DataSourceStreamWriter) -> Any:
    """The method that takes record batches."""
    return writer.write if isinstance(writer, DataSourceStreamArrowWriter) else getattr(writer, "writeArrow", None)


def _is_possible(task: Task, conversion: Conversion) -> bool:
    has_arrow = all(find_spec(name) is not None for name in ("numpy", "pyarrow"))
    return has_arrow and not conversion.chain.steps and _has_access(task)


def _has_access(task: Task) -> bool:
    try:
        return task.access is not None and access_of(task) is not None
    except AccessError:
        return False


def _kind(converter: Converter) -> DataType | None:
    """The type of keys or values that a converter gives as they are."""
    if keeps_bytes(converter):
        return BinaryType()
    return StringType() if keeps_texts(converter) else None


def _is_kept(kind: DataType, converter: Converter) -> bool:
    return type(kind) is type(_kind(converter))


def _has_transactions(task: Task) -> bool:
    """Whether our client can write transactions here (transactions v2)."""
    with open_admin(access_of(task)) as admin:
        levels = {one.name: one.finalized_level for one in describe_features(admin)}
    return levels.get("transaction.version", 0) >= _TRANSACTION_VERSION
