"""Writes the rows of INSERT INTO ... VALUES.

All rows or none: one record is a write of its own; several are one transaction, because they may go to several
partitions. The rows are encoded and written in this process: a job of Spark would take longer than the write.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

from moldau.client.protocol.access import ClusterAccess
from moldau.products.pipelines.core.failures import FlowError
from moldau.products.pipelines.formats.registry import Registry
from moldau.products.sql.catalog.catalog import Relation
from moldau.products.sql.records.encoding import TIMESTAMP, EncodedRows, encode, needs_key
from moldau.products.sql.records.part import KEY, VALUE

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame

_TRANSACTIONAL_ID = f"moldau-sql-insert-{uuid4()}"
"""One for each process: the cluster keeps the state of every id for days. A writer would fence another of the same id,
so one transaction is open at a time."""
_LOCK = Lock()


def insert_rows(frame: DataFrame, relation: Relation, access: ClusterAccess, registry: Registry | None) -> int:
    """Writes the rows and returns their number. `frame`: some of the relation's columns, and optionally ROWTIME in
    milliseconds. An INSERT cannot delete: a row of nulls is a row. Raises FlowError, KafkaError."""
    from moldau.columnar.transactional_writer import TransactionalWriter
    from moldau.columnar.writer import write_table

    table = _table(encode(frame, relation, registry))
    if needs_key(relation) and table.column(KEY).null_count:
        raise FlowError(f"a row of the table {relation.name} has no key: it cannot be null")
    if table.num_rows == 1:
        write_table(access, relation.topic, table)
    elif table.num_rows:
        with _LOCK, TransactionalWriter(access, _TRANSACTIONAL_ID, relation.topic) as writer, writer.transaction():
            writer.write(table)
    return int(table.num_rows)


def _table(encoded: EncodedRows) -> pa.Table:
    import pyarrow as pa

    names = [name for name in encoded.rows.columns if name in (KEY, VALUE, TIMESTAMP)]
    rows = encoded.rows.selectExpr(*(f"unix_millis({name}) as {name}" if name == TIMESTAMP else name for name in names))
    if not encoded.functions:
        # Spark folds VALUES and the SQL over them, and answers without a job
        kinds = [pa.int64() if name == TIMESTAMP else pa.binary() for name in names]
        found = list(zip(*rows.collect(), strict=True)) or [()] * len(names)
        return pa.table([pa.array(column, kind) for column, kind in zip(found, kinds, strict=True)], names)
    table = rows.toArrow()
    for name, function in encoded.functions.items():
        chunks = [function(chunk) for chunk in table.column(name).chunks]
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, pa.chunked_array(chunks, pa.binary()))
    return table
