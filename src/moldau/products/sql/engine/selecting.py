"""SELECT by itself: its rows go to the one who asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING, Any

from moldau.products.pipelines.core.failures import what_failed
from moldau.products.pipelines.targets.changes import DELETED
from moldau.products.sql.engine.answers import ChangedRow
from moldau.products.sql.engine.compiled import NAMESPACE_SETTINGS, Compiled, Place
from moldau.products.sql.engine.row_streams import BufferedRows, StoppedReading
from moldau.products.sql.records.layout import EVENT_TIME
from moldau.spark import check_stream, spark_error
from moldau.spark.queries.namespace import as_active, open_namespace
from moldau.spark.tables.newest import upserts

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.spark import DataFrame, SparkSession

MAX_RECORDS = 10_000
"""Of each source in a micro-batch: its rows are in memory at once."""
_AT_ONCE = 1_000
_NUMBERS = count()


def select_now(spark: SparkSession, compiled: Compiled, place: Place) -> BufferedRows:
    """Over what the topics hold now. Raises SqlError, FlowError."""
    own = open_namespace(spark, NAMESPACE_SETTINGS)
    with as_active(own):
        frame = compiled.current_frame(own, place)
    frame = frame.drop(*(name for name in (EVENT_TIME, DELETED) if name in frame.columns))
    query_id = f"transient_{next(_NUMBERS)}"
    stream = BufferedRows(query_id, frame.dtypes, (), limit=compiled.plan.limit)
    stream.on_close(lambda: own.interruptTag(query_id))

    def read() -> None:
        own.addTag(query_id)  # of this thread
        with as_active(own):
            for row in frame.toLocalIterator():
                stream.put([ChangedRow(tuple(plain(value) for value in row))])

    stream.make(read, lambda error: what_failed(str(error)))
    return stream


def select_live(spark: SparkSession, compiled: Compiled, place: Place, start: str) -> BufferedRows:
    """As rows come. Raises SqlError, FlowError."""
    own = open_namespace(spark, NAMESPACE_SETTINGS)
    plan = compiled.plan
    with as_active(own):
        frame = compiled.live_frame(own, compiled.sources(place, start, MAX_RECORDS))
        check_stream(frame, plan.mode)
        kept = [name for name in frame.columns if name not in (EVENT_TIME, DELETED)]
        has_deletes = DELETED in frame.columns
        shown = frame.drop(EVENT_TIME) if EVENT_TIME in frame.columns else frame
        key = plan.key if plan.mode == "update" and set(plan.key) <= set(kept) else ()
        columns = [(name, kind) for name, kind in frame.dtypes if name in kept]
        stream = BufferedRows(f"transient_{next(_NUMBERS)}", columns, key, limit=plan.limit)

        def write(batch: DataFrame, _: int) -> None:
            stream.check()
            rows = upserts(batch, key) if has_deletes and key else batch
            stream.put(_changed_rows(rows.toArrow(), kept))

        directory = tempfile.TemporaryDirectory(prefix="moldau-sql-")
        writer = shown.writeStream.outputMode(plan.mode).option("checkpointLocation", directory.name)
        running = writer.foreachBatch(write).start()

    def wait() -> None:
        try:
            running.awaitTermination()
        except spark_error() as error:
            if StoppedReading.__name__ not in str(error):
                raise
        finally:
            directory.cleanup()

    stream.on_close(running.stop)
    stream.make(wait, lambda error: what_failed(str(error)))
    return stream


def _changed_rows(table: pa.Table, names: Sequence[str]) -> Iterator[ChangedRow]:
    for batch in table.to_batches(_AT_ONCE):
        rows = batch.to_pylist(maps_as_pydicts="lossy")
        yield from (ChangedRow(tuple(row[name] for name in names), bool(row.get(DELETED))) for row in rows)


def plain(value: Any) -> object:
    """A value of a row of Spark as plain Python: structs are dictionaries, times are in UTC."""
    if isinstance(value, tuple):
        fields = value.asDict()  # type: ignore[attr-defined] # a row of Spark
        return {name: plain(field) for name, field in fields.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, datetime):  # Spark gives it in the zone of this process
        return value.astimezone(UTC)
    return bytes(value) if isinstance(value, bytearray) else value
